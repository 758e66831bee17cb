//! `understudy top`: shows the cluster in a terminal, updated each second, with keys for an operator's most frequent orders.
//!
//! ```text
//!   feed (a thread): the status of a running serve, each second ──┐
//!   recording: the states of a file, at their own pace ───────────┼─Message─> update(model) ──Effect──> order (a thread), seek, quit
//!   keys, signals, results of orders ─────────────────────────────┘              │
//!                                                                            view draws
//! ```
//!
//! The terminal is restored however this ends: by a key, an error, a signal or a panic.

mod model;
mod record;
mod update;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use self::model::{Model, Order, Replay};
use self::record::{Recorder, Recording, moment_ms};
use self::update::{Effect, Message, update};
use cli::exit::{CommandResult, Failure};
use client::node::node_path;
use client::{Client, Server};

/// The pause between two requests for the status.
const EVERY: Duration = Duration::from_secs(1);
/// How long the loop waits for a key before it looks for other messages.
const KEY_TIME: Duration = Duration::from_millis(50);
/// The longest pause between two states of a replay: longer gaps in a recording are shortened to this.
const GAP_MAX: Duration = Duration::from_secs(5);

/// The cluster in the terminal: nodes, rates, queues, flow control, the hold and the last decisions, each second. Keys drain a node or make it
/// the writer, after a question.
#[derive(Args)]
pub struct Top {
    /// Keep every state in this new file, one JSON a line
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Show what --record, or `status --watch --json`, has kept; nothing is asked of any server
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// With --replay: so many times as fast
    #[arg(long, value_name = "N", requires = "replay", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    speed: u32,
    #[command(flatten)]
    server: Server,
}

/// Restores the terminal when it is dropped.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// The source of the states.
enum Source {
    /// `newest` is the latest message not shown yet. Only one is held, even while the terminal blocks.
    Live {
        orders: Client,
        recorder: Option<Recorder>,
        newest: Arc<Mutex<Option<Message>>>,
    },
    Recording {
        recording: Recording,
        next: Instant,
        speed: u32,
    },
}

impl Top {
    /// Shows the view until a key or a signal ends it.
    pub fn run(self) -> CommandResult {
        let mut model = Model::default();
        let (send, messages) = mpsc::channel();
        let source = match &self.replay {
            Some(file) => {
                let recording = Recording::read(file)?;
                let replay = Replay { at: 0, count: recording.len(), is_paused: false };
                model.replay = Some(replay);
                if recording.is_cut_off {
                    model.message =
                        Some("the last line of the recording is not whole, and left out".to_owned());
                }
                need_terminal()?;
                Source::Recording { recording, next: Instant::now(), speed: self.speed }
            }
            None => {
                // Connection and login errors are printed before the terminal is taken over.
                let client = self.server.client()?;
                model.take(client.get("status")?.data);
                need_terminal()?;
                let recorder = self.record.as_deref().map(Recorder::new).transpose()?;
                let orders = self.server.client()?;
                let newest = Arc::new(Mutex::new(None));
                let fed = Arc::downgrade(&newest);
                std::thread::spawn(move || feed(&client, &fed));
                Source::Live { orders, recorder, newest }
            }
        };
        let runtime = cli::runtime::start()?;
        heed_signals(&runtime, &send)?;
        // Created before the terminal is taken over, so that a failure halfway is undone, too.
        let restored = Restored;
        let terminal = ratatui::try_init()
            .map_err(|e| Failure::Failed(format!("the terminal cannot be taken over: {e}")))?;
        let ended = show(terminal, model, source, &messages, &send);
        drop(restored);
        // A request in progress is not waited for.
        runtime.shutdown_background();
        ended.map(|()| ExitCode::SUCCESS)
    }
}

fn need_terminal() -> Result<(), Failure> {
    if std::io::stdout().is_terminal() {
        return Ok(());
    }
    let why =
        "top needs a terminal on standard output; for scripts there is `understudy status --watch --json`";
    Err(Failure::usage(why))
}

/// Requests the status until the view has ended.
fn feed(client: &Client, newest: &Weak<Mutex<Option<Message>>>) {
    loop {
        std::thread::sleep(EVERY);
        let message = match client.get("status") {
            Ok(answer) => Message::Status(answer.data),
            Err(failure) => Message::Trouble(failure.text().to_owned()),
        };
        let Some(newest) = newest.upgrade() else { return };
        *newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
    }
}

/// Makes the signals that would kill the program end the view instead.
fn heed_signals(runtime: &tokio::runtime::Runtime, send: &Sender<Message>) -> Result<(), Failure> {
    let _inside = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()] {
        let mut signals =
            signal(kind).map_err(|e| Failure::Failed(format!("signals cannot be heard: {e}")))?;
        let send = send.clone();
        runtime.spawn(async move {
            if signals.recv().await.is_some() {
                // An error means that the view is ending already.
                let _ = send.send(Message::Stop);
            }
        });
    }
    Ok(())
}

fn show(
    mut terminal: DefaultTerminal,
    mut model: Model,
    mut source: Source,
    messages: &Receiver<Message>,
    send: &Sender<Message>,
) -> Result<(), Failure> {
    let lost = |e: std::io::Error| Failure::Failed(format!("the terminal is lost: {e}"));
    record(&mut source, &mut model);
    loop {
        terminal.draw(|frame| view::draw(frame, &model)).map_err(lost)?;
        let mut news: Vec<Message> = Vec::new();
        if event::poll(KEY_TIME).map_err(lost)?
            && let Event::Key(key) = event::read().map_err(lost)?
            && key.kind == KeyEventKind::Press
        {
            news.push(Message::Key(key));
        }
        news.extend(messages.try_iter());
        news.extend(source.due(&mut model));
        for message in news {
            let is_status = matches!(message, Message::Status(_));
            let effect = update(&mut model, message);
            if is_status {
                record(&mut source, &mut model);
            }
            match effect {
                None => {}
                Some(Effect::Quit) => return Ok(()),
                Some(Effect::Order(order)) => source.order(order, send),
                Some(Effect::Seek(at)) => source.seek(at, &mut model),
            }
        }
    }
}

/// Records the status, if `--record` was given.
fn record(source: &mut Source, model: &mut Model) {
    let Source::Live { recorder, .. } = source else { return };
    if let Some(Err(why)) = recorder.as_mut().map(|recorder| recorder.write(&model.json)) {
        *recorder = None;
        model.message = Some(why);
    }
}

impl Source {
    /// The newest message, or the next state of a recording when it is due.
    fn due(&mut self, model: &mut Model) -> Option<Message> {
        let (recording, next, speed) = match self {
            Self::Live { newest, .. } => {
                return newest.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
            Self::Recording { recording, next, speed } => (recording, next, speed),
        };
        let replay = model.replay?;
        let is_first = model.json.is_null();
        if !is_first && (replay.is_paused || *next > Instant::now() || replay.at + 1 >= replay.count) {
            return None;
        }
        let at = if is_first { 0 } else { replay.at + 1 };
        let state = recording.state(at)?;
        *next = Instant::now() + gap(&state, recording.state(at + 1).as_ref()) / *speed;
        model.replay = Some(Replay { at, ..replay });
        Some(Message::Status(state))
    }

    fn seek(&mut self, at: usize, model: &mut Model) {
        let Self::Recording { recording, next, speed } = self else { return };
        if let Some(state) = recording.state(at) {
            *next = Instant::now() + gap(&state, recording.state(at + 1).as_ref()) / *speed;
            model.take(state);
        }
    }

    /// Sends an order; its result arrives later as a message.
    fn order(&self, order: Order, send: &Sender<Message>) {
        let Self::Live { orders, .. } = self else { return };
        let (client, send) = (orders.clone(), send.clone());
        std::thread::spawn(move || {
            let (path, body) = request(&order);
            let sentence = match client.put(&path, &body, None) {
                Ok(answer) => answer.message,
                Err(failure) => failure.text().to_owned(),
            };
            // An error means that the view has ended; the order is carried out nevertheless.
            let _ = send.send(Message::Done(sentence));
        });
    }
}

fn request(order: &Order) -> (String, Value) {
    match order {
        Order::Drain(node) => (node_path(node, "drain"), json!({})),
        Order::Undrain(node) => (node_path(node, "undrain"), json!({})),
        Order::Switchover(node) => ("switchover".to_owned(), json!({ "to": node })),
    }
}

/// The time from a state to the next one, at most [`GAP_MAX`]; zero if the clock was set back.
fn gap(state: &Value, next: Option<&Value>) -> Duration {
    let ms = moment_ms(state).zip(next.and_then(moment_ms)).map_or(0, |(at, next)| next.saturating_sub(at));
    Duration::from_millis(ms).min(GAP_MAX)
}

#[cfg(test)]
mod tests;
