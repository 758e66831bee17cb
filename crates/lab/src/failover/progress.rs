//! Shows the progress of a run: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Parts of a step: the bar also moves within a step.
const PARTS: u64 = 100;

/// Handle of the progress bar. Cheap to clone; all clones draw the same bar.
#[derive(Clone)]
pub struct Progress {
    bar: Option<Arc<Bar>>,
}

struct Bar {
    drawn: ProgressBar,
    done: AtomicU64,
    now: Mutex<String>,
}

impl Progress {
    /// A bar of `steps` steps.
    pub fn new(steps: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::new(steps * PARTS);
        // The template is a constant; if it were invalid, the default would be used.
        let template = "{spinner} [{elapsed_precise}] {bar:30} {percent:>3} % {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar: Some(Arc::new(Bar { drawn: bar, done: AtomicU64::new(0), now: Mutex::default() })) }
    }

    /// Shows what happens now.
    pub fn now(&self, text: &str) {
        match &self.bar {
            Some(bar) => {
                bar.drawn.set_message(text.to_owned());
                text.clone_into(&mut bar.now.lock().unwrap_or_else(PoisonError::into_inner));
            }
            None => eprintln!("{text}"),
        }
    }

    /// How far the running step has come, 0 to 1, with a short text. Shown only on a bar.
    pub fn part(&self, part: f64, text: &str) {
        if let Some(bar) = &self.bar {
            let inside = (part.clamp(0.0, 1.0) * PARTS as f64) as u64;
            bar.drawn.set_position(bar.done.load(Relaxed) * PARTS + inside);
            let now = bar.now.lock().unwrap_or_else(PoisonError::into_inner);
            bar.drawn.set_message(format!("{now}: {text}"));
        }
    }

    /// Prints a line that remains visible.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.drawn.suspend(|| println!("{text}")),
            None => println!("{text}"),
        }
    }

    /// Marks one step as done.
    pub fn step(&self) {
        if let Some(bar) = &self.bar {
            let done = bar.done.fetch_add(1, Relaxed) + 1;
            bar.drawn.set_position(done * PARTS);
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.drawn.finish_and_clear();
        }
    }
}
