//! The stream of one reader: takes bytes of the log and sends complete events, as fast as the reader accepts them.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use slowlog::{Item, Limits, Reader, Sampling, Start, alone};
use tokio::sync::mpsc::Sender;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{Figures, READERS_MAX, Streamer};
use crate::follow::{Cursor, Read};

/// A part of an answer.
pub(super) type Bytes = axum::body::Bytes;

/// The number of bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
/// When no more bytes arrived for this long, the last event is taken to be complete: a server writes an event at once.
const QUIET: Duration = Duration::from_millis(200);
/// The interval at which it is checked whether a reader that accepts nothing is too far behind.
const STUCK_LOOK_EVERY: Duration = Duration::from_secs(1);
/// The largest number of rotated files that are kept open for a reader, so that one that never reads cannot use up the file descriptors.
const FILES_BEHIND_MAX: usize = 64;
/// The interval at which a reader is sent its position.
const PLACE_EVERY: Duration = Duration::from_secs(1);

/// One of the slots for concurrent readers.
pub(super) struct Seat(Streamer);

impl Seat {
    /// `None` when all slots are taken.
    pub(super) fn take(shared: &Streamer) -> Option<Seat> {
        let readers = &shared.figures.readers;
        let taken =
            readers.fetch_update(Relaxed, Relaxed, |there| (there < READERS_MAX).then_some(there + 1));
        taken.is_ok().then(|| Seat(Streamer::clone(shared)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.figures.readers.fetch_sub(1, Relaxed);
    }
}

/// A reader of the stream.
pub(super) struct Reading {
    seat: Seat,
    parts: Sender<Bytes>,
    work: Work,
}

/// The state that is passed to the thread that reads the file, and returned by it.
struct Work {
    cursor: Cursor,
    reader: Reader,
    sampling: Sampling,
    buffer: Vec<u8>,
    out: Vec<u8>,
    /// Dropped bytes that have to be noted in the next event's head.
    dropped_bytes: u64,
    place_told: Instant,
    /// Those of `dropped_bytes`, including ones already noted, that are not yet in the counters.
    missed_bytes: u64,
    /// The same for bytes that are not part of an event, from readers that were replaced.
    unparsed_bytes: u64,
    /// Those of the present reader that are already in the counters.
    unparsed_told: u64,
    events: u64,
    behind_bytes_max: u64,
}

impl Reading {
    pub(super) fn new(seat: Seat, cursor: Cursor, sampling: Sampling, parts: Sender<Bytes>) -> Self {
        let reader = Reader::new(Limits::default(), Start::Whole).at(cursor.place().offset);
        let work = Work {
            cursor,
            reader,
            sampling,
            buffer: vec![0; READ_BYTES],
            out: Vec::new(),
            dropped_bytes: 0,
            place_told: Instant::now(),
            missed_bytes: 0,
            unparsed_bytes: 0,
            unparsed_told: 0,
            events: 0,
            behind_bytes_max: seat.0.settings.behind_bytes_max,
        };
        Reading { seat, parts, work }
    }

    /// Runs until the client disconnects.
    pub(super) async fn run(self) {
        let Reading { seat, parts, mut work } = self;
        let figures = &seat.0.figures;
        let mut is_quiet = false;
        loop {
            let Ok((back, step)) = spawn_blocking(move || {
                let step = work.step(is_quiet);
                (work, step)
            })
            .await
            else {
                break;
            };
            work = back;
            work.tell(figures);
            if !work.out.is_empty() {
                let part = Bytes::from(std::mem::take(&mut work.out));
                figures.bytes.fetch_add(part.len() as u64, Relaxed);
                // A client that accepts nothing keeps files open, and thereby their disk space in use, until it is too far behind.
                let permit = loop {
                    match timeout(STUCK_LOOK_EVERY, parts.reserve()).await {
                        Ok(permit) => break permit.ok(),
                        Err(_) => {
                            let looking = spawn_blocking(move || {
                                work.skip_if_far_behind();
                                work
                            });
                            let Ok(back) = looking.await else { return };
                            work = back;
                            work.tell(figures);
                        }
                    }
                };
                let Some(permit) = permit else { break };
                permit.send(part);
            }
            match step {
                Step::More => is_quiet = false,
                Step::Failed(error) => {
                    tracing::warn!(log = %seat.0.log.path().display(), %error, "a reader's stream ended: the log cannot be read");
                    break;
                }
                Step::End => {
                    // After the last event was completed, only new bytes can bring another one.
                    let quiet = if is_quiet { Duration::MAX } else { QUIET };
                    tokio::select! {
                        changed = timeout(quiet, work.cursor.changed()) => is_quiet |= changed.is_err(),
                        () = parts.closed() => break,
                    }
                    is_quiet &= !work.cursor.has_changed();
                }
            }
        }
    }
}

/// The result of reading the file once.
enum Step {
    More,
    End,
    Failed(std::io::Error),
}

/// Whether the position behind an event may be told with it: whether the cursor is still in that event's file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tell {
    Places,
    NoPlace,
}

impl Work {
    fn step(&mut self, is_quiet: bool) -> Step {
        self.skip_if_far_behind();
        match self.cursor.read(&mut self.buffer) {
            Ok(Read::Bytes(read)) => {
                self.reader.feed(&self.buffer[..read]);
                self.give(Tell::Places);
                Step::More
            }
            Ok(Read::Rotated { lost_bytes }) => {
                self.reader.finish();
                // The cursor is in the next file already, and this event's offset is one in the file before.
                self.give(Tell::NoPlace);
                self.miss(lost_bytes);
                self.begin();
                Step::More
            }
            Ok(Read::End) => {
                if is_quiet {
                    self.reader.settle();
                    self.give(Tell::Places);
                }
                Step::End
            }
            Err(error) => Step::Failed(error),
        }
    }

    fn skip_if_far_behind(&mut self) {
        let is_far = self.cursor.behind_bytes() > self.behind_bytes_max
            || self.cursor.behind_files() > FILES_BEHIND_MAX;
        if !is_far {
            return;
        }
        let (skipped, before) = (self.cursor.skip_to_end(), self.cursor.place().offset);
        // The file was emptied at this moment; the next read finds out how it continues.
        if skipped == 0 && before == self.reader.offset() + self.reader.pending_bytes() as u64 {
            return;
        }
        // The beginning of an event is useless without its end.
        self.miss(self.reader.pending_bytes() as u64 + skipped);
        self.begin();
    }

    fn miss(&mut self, bytes: u64) {
        self.dropped_bytes += bytes;
        self.missed_bytes += bytes;
    }

    /// Adds to the counters of all readers.
    fn tell(&mut self, figures: &Figures) {
        figures.events.fetch_add(std::mem::take(&mut self.events), Relaxed);
        figures.dropped_bytes.fetch_add(std::mem::take(&mut self.missed_bytes), Relaxed);
        let unparsed = self.reader_unparsed_bytes();
        let of_this = unparsed - std::mem::replace(&mut self.unparsed_told, unparsed);
        figures.unparsed_bytes.fetch_add(of_this + std::mem::take(&mut self.unparsed_bytes), Relaxed);
    }

    /// Without the bytes before the first event.
    fn reader_unparsed_bytes(&self) -> u64 {
        let counts = self.reader.counts();
        counts.unparsed_bytes - counts.before_bytes
    }

    /// Begins with a new file, or at another position.
    fn begin(&mut self) {
        self.unparsed_bytes += self.reader_unparsed_bytes() - std::mem::take(&mut self.unparsed_told);
        self.reader = Reader::new(Limits::default(), Start::Whole).at(self.cursor.place().offset);
    }

    fn give(&mut self, tell: Tell) {
        while let Some(item) = self.reader.next() {
            let Item::Event(event) = item else { continue };
            if !self.sampling.keeps(&event) {
                continue;
            }
            let mut notes = String::new();
            if self.dropped_bytes > 0 {
                notes = format!("# Understudy_dropped_bytes: {}\n", std::mem::take(&mut self.dropped_bytes));
            }
            if tell == Tell::Places
                && self.place_told.elapsed() >= PLACE_EVERY
                && let Some(place) = self.cursor.place_at(event.offset + event.bytes.len() as u64)
            {
                self.place_told = Instant::now();
                notes.push_str(&format!("# Understudy_place: {place}\n"));
            }
            alone::write(&event, self.sampling.rate(&event), notes.as_bytes(), &mut self.out);
            if !self.out.ends_with(b"\n") {
                self.out.push(b'\n');
            }
            self.events += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::path::Path;
    use std::sync::Arc;

    use slowlog::RateBy;
    use tokio::sync::mpsc;

    use super::*;
    use crate::follow::Log;
    use crate::stream::{Settings, Shared};

    fn streamer(log: &Path, behind_bytes_max: u64) -> Streamer {
        let settings = Settings { log: log.to_owned(), behind_bytes_max };
        Arc::new(Shared { log: Log::watch(log).unwrap(), settings, figures: Figures::default() })
    }

    fn event(number: u64) -> String {
        format!(
            "# User@Host: app[app] @ localhost []\n# Thread_id: 1  Schema: shop  QC_hit: No\n# Query_time: 0.000100  Lock_time: 0.000000  \
             Rows_sent: 1  Rows_examined: 1\nSET timestamp=1795348800;\nSELECT {number};\n"
        )
    }

    fn append(path: &Path, text: &str) {
        let mut file: File = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn reading(shared: &Streamer, parts: Sender<Bytes>) -> Reading {
        let cursor = shared.log.at_start().unwrap();
        Reading::new(Seat::take(shared).unwrap(), cursor, Sampling::new(RateBy::Event, 1), parts)
    }

    #[tokio::test]
    async fn bytes_given_and_bytes_missed_are_all_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slow.log");
        let (whole, half) = (event(0) + &event(1), event(2)[..100].to_owned());
        append(&path, &whole);
        append(&path, &half);
        let shared = streamer(&path, 10_000);
        let (parts, _) = mpsc::channel(1);
        let Reading { mut work, .. } = reading(&shared, parts);
        assert!(matches!(work.step(false), Step::More));
        let given = String::from_utf8(std::mem::take(&mut work.out)).unwrap();
        assert!(given.contains("SELECT 0;") && given.contains("SELECT 1;"), "{given}");
        // The client returns when it is too far behind, and the rest of the event that it had begun is dropped with the others.
        let missed = event(2)[100..].to_owned() + &(3..100).map(event).collect::<String>();
        append(&path, &missed);
        assert!(missed.len() > 10_000 && matches!(work.step(false), Step::End));
        work.tell(&shared.figures);
        let all = (half.len() + missed.len()) as u64;
        assert_eq!(shared.figures.dropped_bytes.load(Relaxed), all);
        append(&path, &(event(100) + &event(101)));
        assert!(matches!(work.step(false), Step::More));
        let given = String::from_utf8(std::mem::take(&mut work.out)).unwrap();
        assert!(given.contains(&format!("# Understudy_dropped_bytes: {all}\n")), "{given}");
        assert!(given.contains("SELECT 100;") && !given.contains("SELECT 99;"), "{given}");
    }

    /// The last event of a file is complete only when the next file begins.
    #[tokio::test]
    async fn a_place_that_is_told_beside_a_rotation_leads_to_the_next_event() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slow.log");
        let shared = streamer(&path, 10_000);
        append(&path, &(0..3).map(event).collect::<String>());
        let (parts, _) = mpsc::channel(1);
        let Reading { mut work, .. } = reading(&shared, parts);
        let mut places = Vec::new();
        for next in [3, 6, 9] {
            shared.log.at_end().unwrap();
            loop {
                work.place_told = Instant::now().checked_sub(PLACE_EVERY).unwrap();
                let ended = matches!(work.step(false), Step::End);
                let given = String::from_utf8(std::mem::take(&mut work.out)).unwrap();
                for event in given.split_inclusive(";\nSELECT ").collect::<Vec<_>>().windows(2) {
                    let place = event[0].lines().find_map(|line| line.strip_prefix("# Understudy_place: "));
                    let number: u64 = event[1].split(';').next().unwrap().parse().unwrap();
                    places.extend(place.map(|place| (place.parse().unwrap(), number)));
                }
                if ended {
                    break;
                }
            }
            std::fs::rename(&path, path.with_extension(format!("log.{}", 10 - next))).unwrap();
            append(&path, &(next..next + 3).map(event).collect::<String>());
        }
        assert!(places.len() >= 3, "{places:?}");
        for (place, number) in places {
            let mut cursor = shared.log.at_place(place).unwrap().unwrap();
            let mut bytes = vec![0; READ_BYTES];
            let read = loop {
                match cursor.read(&mut bytes).unwrap() {
                    Read::Bytes(read) => break read,
                    Read::Rotated { lost_bytes } => assert_eq!(lost_bytes, 0),
                    Read::End => panic!("nothing follows {number}"),
                }
            };
            let after = String::from_utf8_lossy(&bytes[..read]);
            assert!(after.starts_with(&event(number + 1)), "behind {number}: {after}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_that_takes_nothing_keeps_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slow.log");
        append(&path, &(0..10).map(event).collect::<String>());
        let shared = streamer(&path, 10_000);
        let (parts, mut taken) = mpsc::channel(1);
        parts.send(Bytes::from_static(b"not taken")).await.unwrap();
        let running = tokio::spawn(reading(&shared, parts).run());
        while shared.figures.events.load(Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        append(&path, &(10..100).map(event).collect::<String>());
        let begin = Instant::now();
        while shared.figures.dropped_bytes.load(Relaxed) == 0 {
            assert!(
                begin.elapsed() < Duration::from_secs(30),
                "it is still kept for a reader that does not read"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(shared.figures.readers.load(Relaxed), 1);
        taken.close();
        running.await.unwrap();
        assert_eq!(shared.figures.readers.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn readers_are_limited() {
        let dir = tempfile::tempdir().unwrap();
        let shared = streamer(&dir.path().join("slow.log"), 1);
        let seats: Vec<Seat> = (0..READERS_MAX).map(|_| Seat::take(&shared).unwrap()).collect();
        assert!(Seat::take(&shared).is_none());
        drop(seats);
        assert!(Seat::take(&shared).is_some() && shared.figures.readers.load(Relaxed) == 0);
    }
}
