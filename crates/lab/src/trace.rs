//! Parses sysbench's output of each second, over restarts, and computes the outage.
//!
//! Input: text in any of the five forms that sysbench has used (0.5 of 2014, final 0.5, what became 1.0, 1.0 for SQL, 1.0 for other
//! scripts), with or without line numbers, with any other lines between. Output: a [`Trace`] of seconds grouped in runs, and an [`Outage`].
//!
//! The rule for the outage, in whole seconds, because the trace is not more precise:
//!
//! ```text
//!   [14s] tps 11   last second with commits
//!                  a crash cuts off the current second: never reported            1 s
//!                  the restart loop sleeps                                        1 s
//!   [ 1s] tps 0 \
//!      ...       > seconds reported without a commit                             16 s
//!   [16s] tps 0 /
//!   [17s] tps 5    first second with commits again                       outage: 18 s
//! ```
//!
//! A mark between two runs that has the time without a report (the lab's own loop writes such marks) counts with that time
//! instead of 2 s. A run that ended without a single line counts as a restart like any other. A run that ended by itself printed its
//! statistics: that is no restart, and the time until the next run counts only within an outage, as the loop's sleep of 1 s. One that ended
//! with FATAL, and was not run again, is an error and lost its last second. A report of several seconds (`--report-interval`) counts with all of
//! them.
//!
//! A bad second that still had a commit is not an outage: it is reported as the worst second, and the outage is "sub-second".

use std::fmt;
use std::io::{self, BufRead};

use infile::Lines;

/// Cost of a restart in the seed's loop, besides the reported seconds: the second cut off by the crash, and `sleep 1`.
pub const RESTART_COST_S: u32 = 2;
/// Of these, the second that the crash cut off.
const CUT_OFF_S: f64 = 1.0;
/// Of these, the loop's sleep.
const SLEEP_S: f64 = 1.0;

/// The limit of a line: FATAL repeats a statement, and some insert many rows.
const LINE_BYTES_MAX: usize = 16 << 20;

/// The version of sysbench that wrote the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// 0.5 as of 2014: `reads/s:`, `writes/s:`.
    V05Early,
    /// The last 0.5: `reads:`, `writes:`, `errors:`, `reconnects:`.
    V05,
    /// Between 0.5 and 1.0: `threads: 4 tps: ... (r/w/o: ...) latency: ...`.
    V10Early,
    /// 1.0, SQL scripts: `thds: 4 tps: ...`.
    V10,
    /// 1.0, other scripts: `thds: 4 eps: ...`.
    V10Events,
}

/// One reported second.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Second {
    /// sysbench's own clock, seconds since its start.
    pub at_s: u32,
    /// How many seconds this report is about.
    pub interval_s: u32,
    /// Worker threads.
    pub threads: u32,
    /// Transactions (or events) completed in this second.
    pub tps: f64,
    /// Read statements a second; 0 where the form has none.
    pub reads: f64,
    /// Write statements a second.
    pub writes: f64,
    /// Response time at the reported percentile, milliseconds.
    pub response_ms: f64,
    /// Errors a second; 0 where the form has none.
    pub errors: f64,
    /// Transactions waiting for a thread, if there was a queue line.
    pub queue: Option<u64>,
    /// Busy threads, if there was a queue line.
    pub concurrency: Option<u64>,
}

/// The output of a loop of sysbench runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The form of the first report line.
    pub form: Form,
    /// One entry for each sysbench process that reported something; never empty, no run is empty.
    pub runs: Vec<Vec<Second>>,
    /// The breaks before each run and after the last one: one entry more than `runs`.
    pub breaks: Vec<Break>,
    /// Numbers, from 1, of lines that begin like a report but cannot be parsed.
    pub unreadable: Vec<usize>,
}

/// The time between two runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Break {
    /// sysbench processes that failed there.
    pub restarts: u32,
    /// Those that ended by themselves, after their time.
    pub ends: u32,
    /// Time that no reported second covers, s.
    pub unreported_s: f64,
}

impl Break {
    fn add(&mut self, other: Self) {
        self.restarts += other.restarts;
        self.ends += other.ends;
        self.unreported_s += other.unreported_s;
    }

    /// One run ended; how long nothing ran is in the mark, or the default.
    fn of(end: End, mark: Option<&str>) -> Self {
        let measured_s = mark.and_then(|line| number_after(line, RESTARTED));
        match end {
            End::ByItself => Self { restarts: 0, ends: 1, unreported_s: measured_s.unwrap_or(SLEEP_S) },
            End::Failed | End::Unknown => {
                let unreported_s = measured_s.unwrap_or(f64::from(RESTART_COST_S));
                Self { restarts: 1, ends: 0, unreported_s }
            }
        }
    }
}

/// What the lines since the last report say about the end of its run.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum End {
    /// Nothing: it runs, or was killed.
    #[default]
    Unknown,
    /// It printed its statistics.
    ByItself,
    /// It printed FATAL.
    Failed,
}

/// The seed's mark between two runs.
const RESTARTED: &str = "( sysbench restarted )";

/// The same with the time since the last report line (or mark), to be written just before the next run.
pub fn restart_mark(since: std::time::Duration) -> String {
    format!("{RESTARTED} {:.2} s without a report", since.as_secs_f64())
}

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum NoTrace {
    /// The text is something else.
    #[error(
        "no report line of sysbench in it (such as \"[ 21s] threads: 4, tps: 13.00, ...\"): run sysbench with --report-interval=1 and give its \
         standard output"
    )]
    NoReport,
    /// It cannot be read.
    #[error(transparent)]
    Unread(#[from] io::Error),
}

/// The longest time without a commit, with details.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Outage {
    /// Whole seconds without a reported commit; 0 means sub-second (or no outage at all, see `worst`).
    pub seconds: u32,
    /// Of these, seconds reported with tps 0.
    pub zero_lines: u32,
    /// sysbench processes that failed during the outage: each is an error that the application saw.
    pub restarts: u32,
    /// Errors in the whole trace, for forms that report them.
    pub errors_reported: f64,
    /// Time of the last second with commits before the outage, by sysbench's clock.
    pub last_good_s: Option<u32>,
    /// Time of the first second with commits after it (in its own run); `None` when the trace ends before.
    pub first_good_s: Option<u32>,
    /// Queue at the first reported second after the last one with commits.
    pub queue_from: Option<u64>,
    /// The longest queue from the outage on (whole trace when there is none).
    pub queue_peak: Option<u64>,
    /// First second after the outage with a shorter queue than the second before, and that queue.
    pub drains: Option<(u32, u64)>,
    /// First second after the outage with an empty queue.
    pub empty_s: Option<u32>,
    /// Worst response time from the outage on (whole trace when there is none), milliseconds.
    pub response_ms_max: f64,
    /// Without an outage: the second with the fewest commits, if it had less than half of the median.
    pub worst: Option<Second>,
}

impl Outage {
    /// True when the application saw an error: sysbench failed, or reported some.
    pub fn with_errors(&self) -> bool {
        self.restarts > 0 || self.errors_reported > 0.0
    }
}

/// A trace that is being read.
struct Reading {
    trace: Trace,
    /// A mark was read since the last report, or nothing yet.
    is_between: bool,
    /// What is known of the end of the last run, since its last report.
    end: End,
    between: Break,
}

impl Reading {
    fn take(&mut self, number: u64, line: &str) {
        if line.contains("sysbench restarted") {
            self.is_between = true;
            self.between.add(Break::of(std::mem::take(&mut self.end), Some(line)));
            return;
        }
        let Some((at_s, rest)) = report_head(line) else {
            if line.starts_with("General statistics:") {
                self.end = End::ByItself;
            } else if line.starts_with("FATAL:") {
                self.end = End::Failed;
            }
            return;
        };
        let last = self.trace.runs.last_mut().and_then(|run| run.last_mut());
        if let Some(queue) = number_after(rest, "queue length:") {
            let busy = number_after(rest, "concurrency:");
            if let Some(second) = last.filter(|second| second.at_s == at_s && !self.is_between) {
                second.queue = Some(queue as u64);
                second.concurrency = busy.map(|n| n as u64);
            }
            return;
        }
        let Some((form, mut second)) = second_of(at_s, rest) else {
            self.trace.unreadable.push(number as usize);
            return;
        };
        let last_s = last.map_or(0, |last| last.at_s);
        let is_back = last_s > 0 && at_s <= last_s;
        if self.trace.runs.is_empty() {
            self.trace.form = form;
        }
        if self.is_between || is_back || self.end == End::ByItself {
            if !self.is_between {
                self.between.add(Break::of(std::mem::take(&mut self.end), None));
            }
            self.trace.runs.push(Vec::new());
            self.trace.breaks.push(std::mem::take(&mut self.between));
            self.is_between = false;
        } else {
            second.interval_s = at_s - last_s;
        }
        self.end = End::Unknown;
        if let Some(run) = self.trace.runs.last_mut() {
            run.push(second);
        }
    }

    fn end(mut self) -> Result<Trace, NoTrace> {
        if self.end == End::Failed && !self.is_between {
            self.between.add(Break { restarts: 1, ends: 0, unreported_s: CUT_OFF_S });
        }
        self.trace.breaks.push(self.between);
        if self.trace.runs.is_empty() { Err(NoTrace::NoReport) } else { Ok(self.trace) }
    }
}

impl Trace {
    /// Parses a complete trace.
    pub fn parse(text: &str) -> Result<Self, NoTrace> {
        Self::read(text.as_bytes())
    }

    /// Reads a complete trace, and keeps its seconds only.
    pub fn read(source: impl BufRead) -> Result<Self, NoTrace> {
        let mut reading = Reading {
            trace: Self {
                form: Form::V05Early,
                runs: Vec::new(),
                breaks: Vec::new(),
                unreadable: Vec::new(),
            },
            is_between: true,
            end: End::Unknown,
            between: Break::default(),
        };
        for line in Lines::new(source, LINE_BYTES_MAX) {
            let line = line?;
            reading.take(line.number, String::from_utf8_lossy(&line.bytes).trim_end());
        }
        reading.end()
    }

    /// How often sysbench failed.
    pub fn restarts(&self) -> u32 {
        self.breaks.iter().map(|between| between.restarts).sum()
    }

    /// Whether the last second had commits, and sysbench has not exited since.
    pub fn flows(&self) -> bool {
        let last = self.runs.last().and_then(|run| run.last());
        last.is_some_and(|second| second.tps > 0.0)
            && self.breaks.last().is_none_or(|after| after.restarts == 0)
    }

    /// All seconds in order, each with the break before it.
    fn seconds(&self) -> impl Iterator<Item = (Break, &Second)> {
        let runs = self.runs.iter().zip(&self.breaks);
        runs.flat_map(|(run, before)| {
            run.iter()
                .enumerate()
                .map(move |(i, second)| (if i == 0 { *before } else { Break::default() }, second))
        })
    }

    /// The longest outage of the trace.
    pub fn outage(&self) -> Outage {
        let seconds: Vec<(Break, &Second)> = self.seconds().collect();
        let errors_reported = seconds.iter().map(|(_, s)| s.errors).sum();
        let mut best: Option<(u32, u32, u32, usize, Option<usize>)> = None;
        let mut last_good: Option<usize> = None;
        let (mut zero, mut silent) = (0, Break::default());
        let mut close = |good: Option<usize>, end: Option<usize>, zero: u32, silent: Break| {
            // The trace has whole seconds; the time measured by a mark is rounded only here.
            let total = zero + silent.unreported_s.round() as u32;
            if let Some(from) = good
                && total > best.map_or(0, |b| b.0)
            {
                best = Some((total, zero, silent.restarts, from, end));
            }
        };
        for (index, (between, second)) in seconds.iter().enumerate() {
            // Between two runs that ended and began in good order nobody asked the database.
            if between.restarts > 0 || (zero > 0 && second.tps <= 0.0) {
                silent.add(*between);
            }
            if second.tps > 0.0 {
                close(last_good, Some(index), zero, silent);
                (zero, silent) = (0, Break::default());
                last_good = Some(index);
            } else {
                zero += second.interval_s;
            }
        }
        silent.add(self.breaks.last().copied().filter(|after| after.restarts > 0).unwrap_or_default());
        close(last_good, None, zero, silent);

        let Some((total, zero_lines, restarts, from, end)) = best else {
            return Outage {
                seconds: 0,
                zero_lines: 0,
                restarts: 0,
                errors_reported,
                last_good_s: None,
                first_good_s: None,
                queue_from: None,
                queue_peak: seconds.iter().filter_map(|(_, s)| s.queue).max(),
                drains: None,
                empty_s: None,
                response_ms_max: seconds.iter().map(|(_, s)| s.response_ms).fold(0.0, f64::max),
                worst: worst_second(&seconds),
            };
        };
        let after = &seconds[from + 1..];
        let drains = end.and_then(|end| {
            seconds[end..].windows(2).find_map(|pair| match (pair[0].1.queue, pair[1].1.queue) {
                (Some(before), Some(now)) if now < before => Some((pair[1].1.at_s, now)),
                _ => None,
            })
        });
        Outage {
            seconds: total,
            zero_lines,
            restarts,
            errors_reported,
            last_good_s: Some(seconds[from].1.at_s),
            first_good_s: end.map(|end| seconds[end].1.at_s),
            queue_from: after.first().and_then(|(_, s)| s.queue),
            queue_peak: after.iter().filter_map(|(_, s)| s.queue).max(),
            drains,
            empty_s: end
                .and_then(|end| seconds[end..].iter().find(|(_, s)| s.queue == Some(0)).map(|(_, s)| s.at_s)),
            response_ms_max: after.iter().map(|(_, s)| s.response_ms).fold(0.0, f64::max),
            worst: None,
        }
    }
}

/// The second with the fewest commits, if it has less than half of the median.
fn worst_second(seconds: &[(Break, &Second)]) -> Option<Second> {
    let mut tps: Vec<f64> = seconds.iter().map(|(_, s)| s.tps).collect();
    tps.sort_by(f64::total_cmp);
    let median = *tps.get(tps.len() / 2)?;
    let (_, worst) = seconds.iter().min_by(|a, b| a.1.tps.total_cmp(&b.1.tps))?;
    (worst.tps < median / 2.0).then(|| (*worst).clone())
}

impl fmt::Display for Outage {
    /// The result as sentences.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = if self.with_errors() { "with errors" } else { "no errors" };
        if self.seconds == 0 {
            match &self.worst {
                None => write!(f, "no outage, {errors}: every second had its commits")?,
                Some(worst) => {
                    write!(
                        f,
                        "sub-second, {errors}: only at {} s a hiccup (tps {:.2}",
                        worst.at_s, worst.tps
                    )?;
                    if let (Some(queue), Some(busy)) = (worst.queue, worst.concurrency) {
                        write!(f, ", queue {queue}, concurrency {busy}")?;
                    }
                    f.write_str(")")?;
                }
            }
        } else {
            write!(f, "outage {} s, {errors}: ", self.seconds)?;
            write!(f, "{} s reported without a commit", self.zero_lines)?;
            if self.restarts > 0 {
                let times =
                    if self.restarts == 1 { "once".to_owned() } else { format!("{} times", self.restarts) };
                write!(
                    f,
                    ", sysbench failed {times} (each time the second that this cut off, and 1 s for the loop's sleep, unless a mark says how long)"
                )?;
            }
            if let Some(good) = self.last_good_s {
                write!(f, "; last commits at {good} s")?;
            }
            match self.first_good_s {
                Some(good) => write!(
                    f,
                    ", again at {good} s{}",
                    if self.restarts > 0 { " of the new run" } else { "" }
                )?,
                None => f.write_str(", and none again before the trace ends")?,
            }
        }
        if let (Some(from), Some(peak)) = (self.queue_from, self.queue_peak) {
            write!(f, "; queue {from} -> {peak}")?;
            if let Some((at, queue)) = self.drains {
                write!(f, ", drains from {at} s ({queue})")?;
            }
            match self.empty_s {
                Some(at) => write!(f, ", empty at {at} s")?,
                None => f.write_str(", not empty before the trace ends")?,
            }
        }
        write!(f, "; worst response {:.2} ms", self.response_ms_max)
    }
}

/// `[ 21s] rest`, `[ 21s ] rest`, with or without a line number before it.
fn report_head(line: &str) -> Option<(u32, &str)> {
    let line = line.trim_start();
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let (clock, rest) = line.strip_prefix('[')?.split_once(']')?;
    let clock = clock.trim().strip_suffix('s')?.trim();
    Some((clock.parse().ok()?, rest.trim()))
}

/// The number that follows `label`.
fn number_after(text: &str, label: &str) -> Option<f64> {
    let rest = text[text.find(label)? + label.len()..].trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Parses the text after the clock.
fn second_of(at_s: u32, rest: &str) -> Option<(Form, Second)> {
    let form = if rest.starts_with("thds:") {
        if rest.contains("eps:") { Form::V10Events } else { Form::V10 }
    } else if rest.starts_with("threads:") {
        if rest.contains("(r/w/o:") {
            Form::V10Early
        } else if rest.contains("reads/s:") {
            Form::V05Early
        } else {
            Form::V05
        }
    } else {
        return None;
    };
    let number = |label| number_after(rest, label);
    let (threads, tps, reads, writes, response_ms, errors) = match form {
        Form::V05Early => (
            number("threads:")?,
            number("tps:")?,
            number("reads/s:")?,
            number("writes/s:")?,
            number("time:")?,
            None,
        ),
        Form::V05 => (
            number("threads:")?,
            number("tps:")?,
            number(" reads:")?,
            number("writes:")?,
            number("time:")?,
            number("errors:"),
        ),
        Form::V10 | Form::V10Early => {
            let rwo = &rest[rest.find("(r/w/o:")? + "(r/w/o:".len()..];
            let (parts, _) = rwo.split_once(')')?;
            let mut parts = parts.split('/').map(|part| part.trim().parse::<f64>().ok());
            let (reads, writes) = (parts.next()??, parts.next()??);
            let latency = latency_10(rest).or_else(|| number("latency:"))?;
            let threads = number("thds:").or_else(|| number("threads:"))?;
            let errors = number("err/s:").or_else(|| number("errors/s:"));
            (threads, number("tps:")?, reads, writes, latency, errors)
        }
        Form::V10Events => (number("thds:")?, number("eps:")?, 0.0, 0.0, latency_10(rest)?, None),
    };
    let second = Second {
        at_s,
        // The first report of a run.
        interval_s: at_s,
        threads: threads as u32,
        tps,
        reads,
        writes,
        response_ms,
        errors: errors.unwrap_or(0.0),
        queue: None,
        concurrency: None,
    };
    Some((form, second))
}

/// `lat (ms,95%): 33.12`.
fn latency_10(rest: &str) -> Option<f64> {
    number_after(&rest[rest.find("lat (ms")?..], "):")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NON_GRACEFUL: &str = include_str!("../tests/traces/seed-non-graceful.txt");
    const GRACEFUL: &str = include_str!("../tests/traces/seed-graceful.txt");

    #[test]
    fn the_seeds_non_graceful_trace_gives_18_s() {
        let trace = Trace::parse(NON_GRACEFUL).unwrap();
        assert_eq!((trace.form, trace.runs.len(), trace.restarts()), (Form::V05Early, 2, 1));
        let outage = trace.outage();
        assert_eq!((outage.seconds, outage.zero_lines, outage.restarts), (18, 16, 1));
        assert_eq!((outage.last_good_s, outage.first_good_s), (Some(14), Some(17)));
        assert_eq!(
            (outage.queue_from, outage.queue_peak, outage.drains),
            (Some(13), Some(170), Some((18, 161)))
        );
        assert!((outage.response_ms_max - 16_888.55).abs() < 1e-9);
        assert!(outage.with_errors());
        let said = outage.to_string();
        assert!(said.starts_with("outage 18 s, with errors"), "{said}");
    }

    #[test]
    fn the_seeds_graceful_trace_is_sub_second_without_errors() {
        let outage = Trace::parse(GRACEFUL).unwrap().outage();
        assert_eq!((outage.seconds, outage.with_errors()), (0, false));
        let worst = outage.worst.as_ref().unwrap();
        assert_eq!((worst.at_s, worst.queue, worst.concurrency), (22, Some(8), Some(4)));
        assert!(outage.to_string().starts_with("sub-second, no errors: only at 22 s"), "{outage}");
    }

    #[test]
    fn every_form_is_read() {
        let last_05 = "[  10s] threads: 4, tps: 10.00, reads: 140.02, writes: 40.01, response time: 33.10ms (95%), errors: 0.50, reconnects:  0.00";
        let trace = Trace::parse(last_05).unwrap();
        assert_eq!(trace.form, Form::V05);
        assert_eq!((trace.runs[0][0].reads, trace.runs[0][0].errors), (140.02, 0.5));

        let v10 = "[ 1s ] thds: 4 tps: 9.98 qps: 219.66 (r/w/o: 159.72/39.93/20.01) lat (ms,95%): 33.12 err/s: 0.00 reconn/s: 0.00\n\
                   [ 1s ] queue length: 3, concurrency: 1\nFATAL: mysql_stmt_execute() returned error 2013\n\
                   [ 1s ] thds: 4 tps: 8.00 qps: 1.00 (r/w/o: 1.00/0.00/0.00) lat (ms,95%): 1.00 err/s: 0.00 reconn/s: 0.00";
        let trace = Trace::parse(v10).unwrap();
        assert_eq!((trace.form, trace.restarts()), (Form::V10, 1));
        assert_eq!((trace.runs[0][0].response_ms, trace.runs[0][0].queue), (33.12, Some(3)));
        assert_eq!(
            trace.outage().seconds,
            2,
            "a restart without an idle second is still the cut second and the sleep"
        );

        let between = "[  10s] threads: 4 tps: 9.50 qps: 190.00 (r/w/o: 133.00/38.00/19.00) latency: 33.10ms (95%) errors/s: 0.10 reconnects/s: 0.00";
        let trace = Trace::parse(between).unwrap();
        assert_eq!(trace.form, Form::V10Early);
        let second = &trace.runs[0][0];
        assert_eq!((second.threads, second.writes, second.response_ms, second.errors), (4, 38.0, 33.1, 0.1));

        let events = "[ 2s ] thds: 1 eps: 7.00 lat (ms,95%): 4.00\n[ 2s ] queue length: 0 concurrency: 1";
        let trace = Trace::parse(events).unwrap();
        assert_eq!((trace.form, trace.runs[0][0].concurrency), (Form::V10Events, Some(1)));
    }

    #[test]
    fn an_outage_without_restart_counts_its_empty_seconds() {
        let line = |s, tps| {
            format!(
                "[ {s}s] threads: 4, tps: {tps}, reads/s: 1.00, writes/s: 1.00, response time: 1.00ms (95%)\n"
            )
        };
        let text: String = [(1, "9.00"), (2, "0.00"), (3, "0.00"), (4, "20.00"), (5, "0.00")]
            .map(|(s, t)| line(s, t))
            .concat();
        let outage = Trace::parse(&text).unwrap().outage();
        assert_eq!((outage.seconds, outage.first_good_s, outage.with_errors()), (2, Some(4), false));
        let text: String =
            [(1, "0.00"), (2, "9.00"), (3, "0.00"), (4, "0.00")].map(|(s, t)| line(s, t)).concat();
        let outage = Trace::parse(&text).unwrap().outage();
        assert_eq!(
            (outage.seconds, outage.first_good_s),
            (2, None),
            "a slow start is no outage, an unended one is"
        );
    }

    #[test]
    fn runs_that_never_reported_count_and_a_mark_may_say_how_long() {
        let line = |s, tps| {
            format!(
                "[ {s}s] threads: 4, tps: {tps}, reads/s: 1.00, writes/s: 1.00, response time: 1.00ms (95%)\n"
            )
        };
        let mark = |ms| restart_mark(std::time::Duration::from_millis(ms)) + "\nFATAL: error 2013\n";
        let text = line(1, "9.00") + &mark(1900) + &mark(1040) + &mark(1040) + &line(1, "5.00");
        let trace = Trace::parse(&text).unwrap();
        assert_eq!((trace.runs.len(), trace.restarts(), trace.flows()), (2, 3, true));
        let outage = trace.outage();
        assert_eq!((outage.seconds, outage.restarts, outage.first_good_s), (4, 3, Some(1)), "3.98 s");

        let open = Trace::parse(&(line(1, "9.00") + &mark(1900) + &mark(1100))).unwrap();
        assert_eq!((open.restarts(), open.flows()), (2, false));
        assert_eq!((open.outage().seconds, open.outage().first_good_s), (3, None));
    }

    #[test]
    fn other_text_is_refused_and_torn_lines_are_named() {
        assert!(matches!(Trace::parse("hello\n[x] y\n"), Err(NoTrace::NoReport)));
        let zeros = io::BufReader::new(std::fs::File::open("/dev/zero").unwrap());
        assert!(matches!(Trace::read(zeros), Err(NoTrace::Unread(_))));
        let torn = "[ 1s] threads: 4, tps: 1.00, reads/s: 1.00, writes/s: 1.00, response time: 1.00ms (95%)\n[ 2s] threads: 4, tp";
        assert_eq!(Trace::parse(torn).unwrap().unreadable, [2]);
    }

    /// Written by sysbench 1.0.20 against a server: a run that ended by itself, and one whose sessions were killed.
    const ENDED: &str = include_str!("../tests/traces/sysbench-1.0-ended.txt");
    const KILLED: &str = include_str!("../tests/traces/sysbench-1.0-killed.txt");

    #[test]
    fn a_run_that_ended_by_itself_is_no_error() {
        for between in ["", "( sysbench restarted )\n", "( sysbench restarted ) 1.04 s without a report\n"] {
            let trace = Trace::parse(&[ENDED, ENDED].join(between)).unwrap();
            assert_eq!((trace.runs.len(), trace.restarts(), trace.breaks[1].ends), (2, 0, 1), "{between:?}");
            assert_eq!(
                trace.outage().to_string(),
                "no outage, no errors: every second had its commits; worst response 9.73 ms"
            );
        }
        // A shorter run before: the clock does not go back.
        let head =
            ENDED.split_inclusive('\n').filter(|line| !line.starts_with("[ 3s") && !line.starts_with("[ 4s"));
        let early: String = ENDED
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("[ 1s") && !line.starts_with("[ 2s"))
            .collect();
        let trace = Trace::parse(&(head.collect::<String>() + &early)).unwrap();
        assert_eq!((trace.runs.len(), trace.restarts()), (2, 0));
        // Within an outage the time between two runs counts.
        let zero = |s| {
            format!(
                "[ {s}s ] thds: 4 tps: 0.00 qps: 0.00 (r/w/o: 0.00/0.00/0.00) lat (ms,95%): 0.00 err/s: 0.00 reconn/s: 0.00\n"
            )
        };
        let text = [
            ENDED.split("[ 3s").next().unwrap(),
            &zero(3),
            "General statistics:\n",
            &zero(1),
            &ENDED.replace("[ 1s", "[ 2s"),
        ];
        let outage = Trace::parse(&text.concat()).unwrap().outage();
        assert_eq!((outage.seconds, outage.zero_lines, outage.restarts), (3, 2, 0));
    }

    #[test]
    fn a_run_that_failed_is_an_error_whether_it_was_run_again_or_not() {
        let outage = Trace::parse(KILLED).unwrap().outage();
        assert_eq!((outage.seconds, outage.restarts, outage.first_good_s), (1, 1, None));
        for between in ["", "( sysbench restarted )\n"] {
            let outage = Trace::parse(&[KILLED, ENDED].join(between)).unwrap().outage();
            assert_eq!(
                (outage.seconds, outage.restarts, outage.first_good_s),
                (2, 1, Some(1)),
                "{between:?}"
            );
            assert!(outage.to_string().contains("; queue 0 -> 0, empty at 1 s; "), "{outage}");
        }
    }

    #[test]
    fn reports_of_several_seconds_count_with_all_of_them_and_the_empty_queue_is_told() {
        let report = |s, tps, queue| {
            format!(
                "[{s:4}s] threads: 4, tps: {tps}, reads: 1.00, writes: 1.00, response time: 1.00ms (95%), errors: 0.00, reconnects:  0.00\n\
                 [{s:4}s] queue length: {queue}, concurrency: 4\n"
            )
        };
        let text: String =
            [(10, "9.00", 0), (20, "0.00", 90), (30, "0.00", 180), (40, "12.00", 90), (50, "9.00", 0)]
                .map(|(s, tps, queue)| report(s, tps, queue))
                .concat();
        let outage = Trace::parse(&text).unwrap().outage();
        assert_eq!((outage.seconds, outage.drains, outage.empty_s), (20, Some((50, 0)), Some(50)));
        assert!(
            outage.to_string().contains("; queue 90 -> 180, drains from 50 s (0), empty at 50 s;"),
            "{outage}"
        );
        let seed = Trace::parse(NON_GRACEFUL).unwrap().outage().to_string();
        assert!(seed.contains("drains from 18 s (161), not empty before the trace ends;"), "{seed}");
    }
}
