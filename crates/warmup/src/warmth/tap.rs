//! Observes a slow log on its way to the replay: counts its reads, decides which are replayed, and chooses some at random for the score.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use slowlog::{Event, Item, LogClock, RateBy, Reader, Sampling, Start, alone};
use tokio::io::{AsyncRead, ReadBuf};

use super::window::{Window, WindowLimits};
use crate::replay::guard::{self, Disposition};
use crate::replay::state::States;
use crate::stream;

/// The number of bytes that are read at once when not everything is passed on.
const READ_BYTES: usize = 64 << 10;
/// When a source sends nothing for this long, its last event is taken to be complete.
const QUIET: Duration = Duration::from_millis(300);

/// How much of the log is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Nothing.
    Nothing,
    /// One event in so many; 1 is all.
    OneIn(u64),
}

/// A statement chosen for the score.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub schema: Option<Box<[u8]>>,
    pub sql: Box<[u8]>,
    /// The number of statements among which it was chosen.
    pub of: u64,
}

/// Page accesses of the active node's reads, from its own log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfActive {
    pub accessed: u64,
    pub read: u64,
}

/// The shared state of the tap; clones feed the same state.
#[derive(Clone)]
pub struct Tap {
    inside: Arc<Mutex<Inside>>,
}

struct Inside {
    reader: Reader,
    clock: LogClock,
    states: States,
    sampling: Option<Sampling>,
    passes_all: bool,
    skipped_users: Vec<String>,
    limits: WindowLimits,
    window: Window,
    active: OfActive,
    candidate: Option<Candidate>,
    candidates: u64,
    random: u64,
    /// The highest sampling rate that the log states: it contains one statement in this many.
    source_one_in: u64,
    /// The earliest and the latest end of a statement, by the log's clock; microseconds.
    ends_us: Option<(u64, u64)>,
    dropped_bytes: u64,
    fed: Instant,
    /// The number of events that were passed on to the replay.
    out: Vec<u8>,
}

/// The observations of one window.
pub(super) struct Seen {
    pub window: Window,
    pub active: OfActive,
    pub source_one_in: u64,
    /// The time between the first and the last end of a statement, according to the log.
    pub span: Duration,
    /// Bytes of the log that were lost, as the stream reports.
    pub dropped_bytes: u64,
}

impl Tap {
    pub(super) fn new(
        replayed: Replayed,
        skipped_users: Vec<String>,
        states: States,
        limits: WindowLimits,
        seed: u64,
    ) -> Tap {
        let (sampling, passes_all) = match replayed {
            Replayed::Nothing => (None, false),
            Replayed::OneIn(one_in) => (Some(Sampling::new(RateBy::Event, one_in)), one_in <= 1),
        };
        Tap {
            inside: Arc::new(Mutex::new(Inside {
                reader: Reader::new(slowlog::Limits::default(), Start::Whole),
                clock: LogClock::default(),
                states,
                sampling,
                passes_all,
                skipped_users,
                limits,
                window: Window::new(limits),
                active: OfActive::default(),
                candidate: None,
                candidates: 0,
                random: seed,
                source_one_in: 1,
                ends_us: None,
                dropped_bytes: 0,
                fed: Instant::now(),
                out: Vec::new(),
            })),
        }
    }

    /// Wraps a source: the bytes that are read from it are observed, and the wrapper returns what is to be replayed.
    pub fn source<R>(&self, source: R) -> Tapped<R> {
        Tapped { source, tap: self.clone(), room: Vec::new(), buffer: Vec::new(), given: 0 }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // A panic elsewhere can leave nothing worse than counts that are not up to date.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Observes bytes of the log, in their order.
    pub fn feed(&self, bytes: &[u8]) {
        let mut inside = self.inside();
        inside.reader.feed(bytes);
        inside.fed = Instant::now();
        inside.take();
    }

    /// The log has ended.
    pub(super) fn finish(&self) {
        let mut inside = self.inside();
        inside.reader.finish();
        inside.take();
    }

    /// Processes the last event of a source that sends nothing.
    pub(super) fn settle(&self) {
        let mut inside = self.inside();
        if inside.fed.elapsed() > QUIET && inside.reader.pending_bytes() > 0 {
            inside.reader.settle();
            inside.take();
        }
    }

    /// Returns one read, chosen at random among those since the last call.
    pub(super) fn candidate(&self) -> Option<Candidate> {
        let mut inside = self.inside();
        let candidate = inside.candidate.take()?;
        let of = std::mem::take(&mut inside.candidates);
        Some(Candidate { of, ..candidate })
    }

    /// The number of reads in this window.
    pub(super) fn reads(&self) -> u64 {
        self.inside().window.reads()
    }

    /// Ends the window and begins the next one.
    pub(super) fn window(&self) -> Seen {
        let mut inside = self.inside();
        let next = Window::new(inside.limits);
        let (from_us, to_us) = inside.ends_us.take().unwrap_or_default();
        Seen {
            window: std::mem::replace(&mut inside.window, next),
            active: std::mem::take(&mut inside.active),
            source_one_in: std::mem::replace(&mut inside.source_one_in, 1),
            span: Duration::from_micros(to_us - from_us),
            dropped_bytes: std::mem::take(&mut inside.dropped_bytes),
        }
    }
}

impl Inside {
    fn take(&mut self) {
        while let Some(item) = self.reader.next() {
            let Item::Event(event) = item else {
                if !self.passes_all && self.sampling.is_some() {
                    self.out.extend_from_slice(item.bytes());
                }
                continue;
            };
            self.dropped_bytes += stream::dropped_bytes(&event);
            let times = self.clock.times(&event);
            let is_kept = self.sampling.as_mut().is_some_and(|sampling| sampling.keeps(&event));
            if is_kept && !self.passes_all {
                let rate = self.sampling.and_then(|sampling| sampling.rate(&event));
                alone::write(&event, rate, b"", &mut self.out);
            }
            let modes = self.states.of(event.connection.unwrap_or(0)).modes;
            let verdict = guard::judge(&event, &self.skipped_users, modes);
            self.states.saw(&event, verdict);
            let Some(sql) = event.sql() else { continue };
            // A statement for the score is run under the usual modes.
            if verdict != Disposition::Replayed || guard::necessary(modes, sql) != 0 {
                continue;
            }
            let schema = event.schema.name();
            self.source_one_in = self.source_one_in.max(event.rate.map_or(1, |rate| rate.one_in));
            if times.end_us > 0 {
                let (from_us, to_us) = self.ends_us.unwrap_or((times.end_us, times.end_us));
                self.ends_us = Some((from_us.min(times.end_us), to_us.max(times.end_us)));
            }
            let (accessed, read) = pages(&event);
            self.active.accessed += accessed;
            self.active.read += read;
            self.window.saw(schema, sql, is_kept);
            if !reads_tables(schema, sql) {
                continue;
            }
            self.candidates += 1;
            // Reservoir sampling: each of them is chosen with the same probability.
            if next(&mut self.random).is_multiple_of(self.candidates) {
                self.candidate = Some(Candidate { schema: schema.map(Into::into), sql: sql.into(), of: 1 });
            }
        }
    }
}

fn pages(event: &Event<'_>) -> (u64, u64) {
    let (mut accessed, mut read) = (0, 0);
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    for (name, value) in event.fields() {
        match name {
            b"Pages_accessed" => accessed = number(value),
            b"Pages_read" => read = number(value),
            _ => {}
        }
    }
    (accessed, read)
}

/// The server's own schemas.
const OF_SERVER: [&[u8]; 4] = [b"information_schema", b"performance_schema", b"mysql", b"sys"];

/// Whether a read is of tables, and of none in the server's own schemas: only such reads say how warm a buffer pool is. What Understudy itself
/// asks a server, by whichever account, is never one of them; a read whose text merely looks as if it named such a schema is not, either.
pub(super) fn reads_tables(schema: Option<&[u8]>, sql: &[u8]) -> bool {
    let is_of_server = |name: &[u8]| OF_SERVER.iter().any(|own| own.eq_ignore_ascii_case(name));
    let is_in_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'$' || !byte.is_ascii();
    let before_dots = sql.split(|&byte| byte == b'.').rev().skip(1);
    let mut qualifiers = before_dots.filter_map(|text| {
        let text = text.trim_ascii_end();
        text.strip_suffix(b"`").unwrap_or(text).rsplit(|byte| !is_in_name(byte)).next()
    });
    sql.split(|byte| !is_in_name(byte)).any(|word| word.eq_ignore_ascii_case(b"from"))
        && !schema.is_some_and(is_of_server)
        && !qualifiers.any(is_of_server)
}

/// The next pseudorandom number (splitmix64).
pub(super) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A source that is observed; created by [`Tap::source`].
pub struct Tapped<R> {
    source: R,
    tap: Tap,
    /// Buffer for bytes read, used when not everything is passed on.
    room: Vec<u8>,
    /// What is passed on.
    buffer: Vec<u8>,
    /// How much of the buffer has been passed on.
    given: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for Tapped<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.tap.inside().passes_all {
            let before = into.filled().len();
            ready!(Pin::new(&mut this.source).poll_read(context, into))?;
            match &into.filled()[before..] {
                [] => this.tap.finish(),
                bytes => this.tap.feed(bytes),
            }
            return Poll::Ready(Ok(()));
        }
        loop {
            if this.given < this.buffer.len() {
                let len = into.remaining().min(this.buffer.len() - this.given);
                into.put_slice(&this.buffer[this.given..this.given + len]);
                this.given += len;
                return Poll::Ready(Ok(()));
            }
            this.room.resize(READ_BYTES, 0);
            let mut piece = ReadBuf::new(&mut this.room);
            ready!(Pin::new(&mut this.source).poll_read(context, &mut piece))?;
            let has_ended = piece.filled().is_empty();
            if has_ended {
                this.tap.finish();
            } else {
                this.tap.feed(piece.filled());
            }
            this.buffer.clear();
            this.given = 0;
            std::mem::swap(&mut this.buffer, &mut this.tap.inside().out);
            if has_ended && this.buffer.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::reads_tables;

    #[test]
    fn what_understudy_asks_says_nothing_of_a_buffer_pool() {
        use topology::{catalogue, flavor, galera, heartbeat, preflight, replication};
        let accounts = flavor::Flavor::MariaDb.accounts()[0];
        for own in [
            catalogue::PRIVILEGES,
            catalogue::VIEWS,
            galera::sql::BARRIER,
            heartbeat::sql::IS_READ_ONLY,
            heartbeat::sql::LARGE,
            &heartbeat::sql::sessions([1]),
            preflight::sql::SESSIONS,
            replication::sql::POSITIONS,
            accounts,
            session::saving::NAMES,
            "SELECT 1",
            "select * from `mysql` . `user`",
            "SELECT 1 FROM Mysql.user",
        ] {
            assert!(!reads_tables(None, own.as_bytes()), "{own}");
        }
        assert!(!reads_tables(Some(b"information_schema"), b"SELECT ID FROM processlist"));
        for of_clients in [
            "SELECT a FROM t",
            "SELECT a\nFROM`t`WHERE b = 'O\\'Brien'",
            "SELECT * FROM my_mysql.t",
            "SELECT mysql FROM t WHERE sys = 1.5",
        ] {
            assert!(reads_tables(Some(b"shop"), of_clients.as_bytes()), "{of_clients}");
        }
    }
}
