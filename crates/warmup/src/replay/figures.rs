//! Counters of a replay, which progress lines, metrics and reports read while it runs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use link::LinkError;
use session::finished::Counts as TapCounts;
use slowlog::{Counts, Event, LogClock};

use super::guard::Disposition;
use super::running::Running;
use crate::stream;

/// The figures; all counts are since the replay began.
#[derive(Debug, Default)]
pub struct Figures {
    /// Events by how they were handled, in the order of [`Disposition::ALL`].
    verdicts: [AtomicU64; Disposition::ALL.len()],
    /// Statements that succeeded.
    pub executed: AtomicU64,
    /// Statements that were skipped because they had waited longer than the permitted lag.
    pub late: AtomicU64,
    /// Statements that are waiting.
    pub waiting: AtomicI64,
    /// Open sessions.
    pub sessions: AtomicI64,
    /// The connection numbers of these sessions on the server.
    pub running: Running,
    /// Sessions that were begun for recorded connections.
    pub sessions_begun: AtomicU64,
    /// Bytes of the log that the streamer did not send, as it reports.
    pub dropped_bytes: AtomicU64,
    /// What the log was read as.
    log: Mutex<Log>,
    /// The time of the log as far as it was read; microseconds since 1970.
    read_us: AtomicU64,
    /// The latest end of a statement that was run, on that clock.
    done_us: AtomicU64,
    quicker: AtomicU64,
    slower: AtomicU64,
    /// The number of successful statements that begin with SELECT; nothing else that a replay runs has a line of its own in the report.
    selects: AtomicU64,
    selects_quicker: AtomicU64,
    selects_slower: AtomicU64,
    took_us: AtomicU64,
    expected_us: AtomicU64,
    rows: AtomicU64,
    rows_expected: AtomicU64,
    rows_differ: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
    state_errors: Mutex<BTreeMap<String, u64>>,
    /// When a proxy is the source: its counters, one set for each connection to it.
    tap_counts: Mutex<Vec<Arc<TapCounts>>>,
    /// The position in the streamer's log that it reported last.
    place: Mutex<Option<String>>,
}

/// What a log was read as.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log {
    /// Entries, and what is none.
    pub counts: Counts,
    /// Entries whose times are far from the log's clock; they count as having run when they were written.
    pub corrected: u64,
    /// How often the log's clock jumped: over a pause of more than an hour, or backwards.
    pub jumps: u64,
}

impl Figures {
    pub(super) fn saw(&self, event: &Event<'_>) {
        self.dropped_bytes.fetch_add(stream::dropped_bytes(event), Relaxed);
        if let Some(place) = event.field("Understudy_place").and_then(|text| std::str::from_utf8(text).ok()) {
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place.to_owned());
        }
    }

    pub(super) fn judged(&self, verdict: Disposition) {
        self.verdicts[verdict.index()].fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self, counts: Counts, clock: &LogClock) {
        self.read_us.store(clock.now_us(), Relaxed);
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) =
            Log { counts, corrected: clock.corrected(), jumps: clock.jumps() };
    }

    /// What the log was read as.
    pub fn log(&self) -> Log {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Entries that were not run because of what they are, with the reason in words. With those that were run, that failed, that came too
    /// late and that wait, they are all entries of the log.
    pub fn left_out(&self) -> Vec<(&'static str, u64)> {
        let counts = self.log().counts;
        let verdicts = Disposition::ALL.into_iter().filter(|verdict| *verdict != Disposition::Replayed);
        verdicts
            .map(|verdict| (verdict.words(), self.of(verdict)))
            .chain([
                ("longer than an entry may be", counts.too_long),
                ("cut off in their head", counts.heads),
            ])
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// All that came of the log so far, for a person: one line each.
    pub fn account(&self) -> Vec<String> {
        let (executed, late) = (self.executed.load(Relaxed), self.late.load(Relaxed));
        let (errors, left_out, log) = (self.errors(), self.left_out(), self.log());
        let failed: u64 = errors.values().sum();
        let rest = self.of(Disposition::Replayed).saturating_sub(executed + failed + late);
        let others: u64 = left_out.iter().map(|(_, count)| count).sum();
        let entries = executed + failed + late + rest + others;
        let mut lines = vec![format!(
            "{entries} entries: {executed} run, {failed} failed, {} left out",
            others + late + rest
        )];
        let late = [("too late", late), ("not run before the end", rest)];
        for (words, count) in left_out.into_iter().chain(late.into_iter().filter(|(_, count)| *count > 0)) {
            lines.push(format!("{count} left out: {words}"));
        }
        lines.extend(errors.iter().map(|(class, count)| format!("{count} failed: {class}")));
        let state_errors = self.state_errors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        lines.extend(state_errors.iter().map(|(class, count)| {
            format!(
                "{count} settings of sessions were refused, most likely as where they were recorded: {class}"
            )
        }));
        for (count, words) in [
            (log.counts.unparsed_bytes, "bytes of the log are no entry"),
            (log.counts.quoted, "texts in strings look like entries"),
            (self.dropped_bytes.load(Relaxed), "bytes were left out by the streamer"),
        ] {
            if count > 0 {
                lines.push(format!("{count} {words}"));
            }
        }
        if log.corrected > 0 {
            let count = log.corrected;
            lines.push(format!(
                "times far from the log's clock: {count}; such an entry counts as run when it was written"
            ));
        }
        if log.jumps > 0 {
            let count = log.jumps;
            lines.push(format!(
                "jumps of the log's clock: {count} (a pause of more than an hour, or a clock that was set); nobody waits for them"
            ));
        }
        lines
    }

    pub(super) fn executed(
        &self,
        sql: &[u8],
        took: Duration,
        expected: Duration,
        rows: u64,
        rows_expected: Option<u64>,
    ) {
        self.executed.fetch_add(1, Relaxed);
        let is_select = is_select(sql);
        self.selects.fetch_add(u64::from(is_select), Relaxed);
        // A statement with a recorded time of zero counts as neither.
        if !expected.is_zero() {
            let is_quicker = took < expected;
            let (all, selects) = match is_quicker {
                true => (&self.quicker, &self.selects_quicker),
                false => (&self.slower, &self.selects_slower),
            };
            all.fetch_add(1, Relaxed);
            selects.fetch_add(u64::from(is_select), Relaxed);
        }
        self.took_us.fetch_add(took.as_micros() as u64, Relaxed);
        self.expected_us.fetch_add(expected.as_micros() as u64, Relaxed);
        self.rows.fetch_add(rows, Relaxed);
        if let Some(rows_expected) = rows_expected {
            self.rows_expected.fetch_add(rows_expected, Relaxed);
            self.rows_differ.fetch_add(u64::from(rows != rows_expected), Relaxed);
        }
    }

    pub(super) fn failed(&self, error: &LinkError) {
        count(&self.errors, error);
    }

    /// A statement that sets how a session's reads are meant was refused.
    pub(super) fn state_refused(&self, error: &LinkError) {
        count(&self.state_errors, error);
    }

    pub(super) fn opened(&self, connection_id: u32) {
        self.sessions.fetch_add(1, Relaxed);
        self.running.opened(connection_id);
    }

    pub(super) fn closed(&self, connection_id: u32) {
        self.sessions.fetch_sub(1, Relaxed);
        self.running.closed(connection_id);
    }

    pub(super) fn done(&self, ended_us: u64) {
        self.done_us.fetch_max(ended_us, Relaxed);
    }

    /// How far a statement that ended at that time is behind the log as far as it was read.
    pub(super) fn behind(&self, ended_us: u64) -> Duration {
        Duration::from_micros(self.read_us.load(Relaxed).saturating_sub(ended_us))
    }

    /// How far the replay is behind the log as far as it was read, in recorded time; zero when no statement waits.
    pub fn lag(&self) -> Duration {
        if self.waiting.load(Relaxed) <= 0 {
            return Duration::ZERO;
        }
        self.behind(self.done_us.load(Relaxed).max(1))
    }

    /// The number of events that were handled in this way.
    pub fn of(&self, verdict: Disposition) -> u64 {
        self.verdicts[verdict.index()].load(Relaxed)
    }

    /// The position from which an interrupted stream can be resumed.
    pub fn place(&self) -> Option<String> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds the counters of a proxy that is the source: it counts the reads that it leaves out.
    pub(crate) fn add_tap(&self, tap_counts: &Arc<TapCounts>) {
        self.tap_counts.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(tap_counts));
    }

    /// Reads that the proxy left out: those that are too large, and those that cannot be expressed as SQL text.
    pub fn left_out_by_proxy(&self) -> (u64, u64) {
        let tap_counts = self.tap_counts.lock().unwrap_or_else(PoisonError::into_inner);
        let sum =
            |of: fn(&TapCounts) -> &AtomicU64| tap_counts.iter().map(|counts| of(counts).load(Relaxed)).sum();
        (sum(|counts| &counts.too_large), sum(|counts| &counts.not_expressible))
    }

    /// Errors by class.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The report that percona-playback prints at its end, with the same lines. The time spent is the sum of the statements' execution
    /// times.
    pub fn report(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let errors: u64 = self.errors().values().sum();
        let executed = count(&self.executed) + errors;
        let (rows, expected) = (count(&self.rows), count(&self.rows_expected));
        let connections = count(&self.sessions_begun);
        let mut text = String::from("Report\n------\n");
        let spent = Duration::from_micros(count(&self.took_us));
        let expected_time = Duration::from_micros(count(&self.expected_us));
        // Writing to a string does not fail.
        let _ = writeln!(text, "Executed {executed} queries");
        let _ = writeln!(
            text,
            "Spent {} executing queries versus an expected {} time.",
            clock(spent),
            clock(expected_time)
        );
        let _ = writeln!(
            text,
            "{} queries were quicker than expected, {} were slower",
            count(&self.quicker),
            count(&self.slower)
        );
        let _ = writeln!(text, "A total of {errors} queries had errors.");
        let _ = writeln!(
            text,
            "Expected {expected} rows, got {rows} (a difference of {})",
            expected.abs_diff(rows)
        );
        let _ = writeln!(
            text,
            "Number of queries where number of rows differed: {}.\n",
            count(&self.rows_differ)
        );
        let average = executed as f64 / connections.max(1) as f64;
        let _ =
            writeln!(text, "Average of {average:.2} queries per connection ({connections} connections).\n");
        text
    }

    /// percona-playback's list of statements by their first word. Statements that write are never run, so that their counts are zero.
    pub fn detailed_report(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let selects = count(&self.selects);
        let mut text = String::from("Detailed Report\n----------------\n");
        for name in ["SELECTs", "INSERTs", "UPDATEs", "DELETEs", "REPLACEs", "DROPs"] {
            let (all, quicker, slower) = match name {
                "SELECTs" => (selects, count(&self.selects_quicker), count(&self.selects_slower)),
                _ => (0, 0, 0),
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<9}: {all} queries ({quicker} faster, {slower} slower)");
        }
        let other = count(&self.executed).saturating_sub(selects);
        let _ = writeln!(text, "Other    : {other} queries\n\n");
        text
    }
}

fn count(errors: &Mutex<BTreeMap<String, u64>>, error: &LinkError) {
    let class = match error {
        // Errors are classified by number, because the server's message contains table names.
        LinkError::Rejected { errno, .. } => format!("error {errno}"),
        LinkError::TimedOut { .. } => "no answer in time".to_owned(),
        other => other.to_string(),
    };
    *errors.lock().unwrap_or_else(PoisonError::into_inner).entry(class).or_default() += 1;
}

/// Its first word is SELECT, as percona-playback looks for it.
fn is_select(sql: &[u8]) -> bool {
    let text = sql.trim_ascii_start();
    text.get(..7).is_some_and(|word| word.eq_ignore_ascii_case(b"SELECT "))
}

/// `HH:MM:SS.ffffff`
fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{rest:02}.{:06}", duration.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_percona_playbacks() {
        let figures = Figures::default();
        figures.sessions_begun.fetch_add(2, Relaxed);
        let ms = Duration::from_millis;
        figures.executed(b" select 1", ms(1), ms(2), 5, Some(5));
        figures.executed(b"(SELECT 1)", ms(3), ms(2), 5, Some(6));
        figures.failed(&LinkError::Rejected { errno: 1146, state: *b"42S02", message: String::new() });
        assert_eq!(
            figures.report(),
            "Report\n------\nExecuted 3 queries\n\
             Spent 00:00:00.004000 executing queries versus an expected 00:00:00.004000 time.\n\
             1 queries were quicker than expected, 1 were slower\nA total of 1 queries had errors.\n\
             Expected 11 rows, got 10 (a difference of 1)\nNumber of queries where number of rows differed: 1.\n\n\
             Average of 1.50 queries per connection (2 connections).\n\n"
        );
        assert_eq!(
            figures.detailed_report(),
            "Detailed Report\n----------------\n\
             SELECTs  : 1 queries (1 faster, 0 slower)\nINSERTs  : 0 queries (0 faster, 0 slower)\n\
             UPDATEs  : 0 queries (0 faster, 0 slower)\nDELETEs  : 0 queries (0 faster, 0 slower)\n\
             REPLACEs : 0 queries (0 faster, 0 slower)\nDROPs    : 0 queries (0 faster, 0 slower)\nOther    : 1 queries\n\n\n"
        );
        assert_eq!(clock(ms(3_723_004)), "01:02:03.004000");
        assert_eq!(figures.errors(), BTreeMap::from([("error 1146".to_owned(), 1)]));
    }
}
