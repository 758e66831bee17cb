//! What is seen while a run lasts: a bar on a terminal, plain lines everywhere else.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Cheap to clone; all clones draw the same bar.
#[derive(Clone)]
pub struct Progress {
    bar: Option<Arc<ProgressBar>>,
}

impl Progress {
    /// `steps` in all.
    pub fn new(steps: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::new(steps);
        // The template is a constant; should it ever be wrong, the default one serves.
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{elapsed_precise}] {bar:30} {pos}/{len} {wide_msg}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar: Some(Arc::new(bar)) }
    }

    /// What happens now.
    pub fn now(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => eprintln!("{text}"),
        }
    }

    /// A line that stays.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{text}")),
            None => println!("{text}"),
        }
    }

    /// One step is done.
    pub fn step(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// More steps than thought.
    pub fn more(&self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.inc_length(steps);
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
