//! One reader's stream: bytes of the log in, whole events out, as fast as the reader takes them.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use slowlog::{Item, Limits, Reader, Sampling, Start, alone};
use tokio::sync::mpsc::Sender;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Streamer;
use crate::follow::{Cursor, Read};

/// A part of an answer.
pub(super) type Bytes = axum::body::Bytes;

/// As much is read at once.
const READ_BYTES: usize = 256 << 10;
/// When no more came for so long, the last event is taken to be whole: a server writes one at once.
const QUIET: Duration = Duration::from_millis(200);
/// So often a reader is told its place.
const PLACE_EVERY: Duration = Duration::from_secs(1);

/// A reader of the stream.
pub(super) struct Reading {
    shared: Streamer,
    parts: Sender<Bytes>,
    work: Work,
}

/// What goes to the thread that reads the file, and comes back.
struct Work {
    cursor: Cursor,
    reader: Reader,
    sampling: Sampling,
    buffer: Vec<u8>,
    out: Vec<u8>,
    /// To be said in the next event's head.
    dropped_bytes: u64,
    place_told: Instant,
    events: u64,
    behind_bytes_max: u64,
}

impl Reading {
    pub(super) fn new(shared: Streamer, cursor: Cursor, sampling: Sampling, parts: Sender<Bytes>) -> Self {
        let reader = Reader::new(Limits::default(), Start::Whole).at(cursor.place().offset);
        let work = Work {
            cursor,
            reader,
            sampling,
            buffer: vec![0; READ_BYTES],
            out: Vec::new(),
            dropped_bytes: 0,
            place_told: Instant::now(),
            events: 0,
            behind_bytes_max: shared.settings.behind_bytes_max,
        };
        shared.figures.readers.fetch_add(1, Relaxed);
        Reading { shared, parts, work }
    }

    /// Until the reader leaves.
    pub(super) async fn run(self) {
        let Reading { shared, parts, mut work } = self;
        let figures = &shared.figures;
        let mut is_quiet = false;
        loop {
            let before = (work.unparsed_bytes(), work.dropped_bytes);
            let Ok((back, step)) = spawn_blocking(move || {
                let step = work.step(is_quiet);
                (work, step)
            })
            .await
            else {
                break;
            };
            work = back;
            figures.events.fetch_add(std::mem::take(&mut work.events), Relaxed);
            figures.unparsed_bytes.fetch_add(work.unparsed_bytes().saturating_sub(before.0), Relaxed);
            figures.dropped_bytes.fetch_add(work.dropped_bytes.saturating_sub(before.1), Relaxed);
            if !work.out.is_empty() {
                let part = Bytes::from(std::mem::take(&mut work.out));
                figures.bytes.fetch_add(part.len() as u64, Relaxed);
                if parts.send(part).await.is_err() {
                    break;
                }
            }
            match step {
                Step::More => is_quiet = false,
                Step::Failed(error) => {
                    tracing::warn!(log = %shared.log.path().display(), %error, "a reader's stream ended: the log cannot be read");
                    break;
                }
                Step::End => {
                    // Once quiet, there is nothing left but what comes.
                    let quiet = if is_quiet { Duration::MAX } else { QUIET };
                    tokio::select! {
                        changed = timeout(quiet, work.cursor.changed()) => is_quiet |= changed.is_err(),
                        () = parts.closed() => break,
                    }
                    is_quiet &= !work.cursor.has_changed();
                }
            }
        }
        figures.readers.fetch_sub(1, Relaxed);
    }
}

/// What became of one look at the file.
enum Step {
    More,
    End,
    Failed(std::io::Error),
}

impl Work {
    fn step(&mut self, is_quiet: bool) -> Step {
        if self.cursor.behind_bytes() > self.behind_bytes_max {
            self.dropped_bytes += self.cursor.skip_to_end();
            self.begin();
        }
        match self.cursor.read(&mut self.buffer) {
            Ok(Read::Bytes(read)) => {
                self.reader.feed(&self.buffer[..read]);
                self.give();
                Step::More
            }
            Ok(Read::Rotated { lost_bytes }) => {
                self.reader.finish();
                self.give();
                self.dropped_bytes += lost_bytes;
                self.begin();
                Step::More
            }
            Ok(Read::End) => {
                if is_quiet {
                    self.reader.settle();
                    self.give();
                }
                Step::End
            }
            Err(error) => Step::Failed(error),
        }
    }

    /// Without what stood before the first event.
    fn unparsed_bytes(&self) -> u64 {
        let counts = self.reader.counts();
        counts.unparsed_bytes - counts.before_bytes
    }

    /// A new file, or another place in one.
    fn begin(&mut self) {
        self.reader = Reader::new(Limits::default(), Start::Whole).at(self.cursor.place().offset);
    }

    fn give(&mut self) {
        while let Some(item) = self.reader.next() {
            let Item::Event(event) = item else { continue };
            if !self.sampling.keeps(&event) {
                continue;
            }
            let mut notes = String::new();
            if self.dropped_bytes > 0 {
                notes = format!("# Understudy_dropped_bytes: {}\n", std::mem::take(&mut self.dropped_bytes));
            }
            if self.place_told.elapsed() >= PLACE_EVERY
                && let Some(place) = self.cursor.place_at(event.offset + event.bytes.len() as u64)
            {
                self.place_told = Instant::now();
                notes.push_str(&format!("# Understudy_place: {place}\n"));
            }
            alone::write_with_notes(&event, self.sampling.rate(&event), notes.as_bytes(), &mut self.out);
            if !self.out.ends_with(b"\n") {
                self.out.push(b'\n');
            }
            self.events += 1;
        }
    }
}
