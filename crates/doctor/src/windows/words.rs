//! Formats a row, and a warning, as sentences.

use std::time::Duration;

use measure::recovery::absence::Warning;
use measure::recovery::{self, Forecast, Reason};

use super::keeps::Keeps;
use super::{Outlook, Summary, Way};
use report::table::span;

/// The window at the busiest minute's rate is mentioned if it is shorter than this fraction of the window at the present rate.
const NOTABLY_SHORTER: f64 = 0.8;

fn long(s: f64) -> String {
    span((s * 1000.0) as u64)
}

/// The speed of a full copy, in bytes per second, if none was given and none was observed.
const ASSUMED_BYTES_PER_S: f64 = 1e8;

/// "a full copy of 1.2 GB, 12.0 s at 100.0 MB a second (assumed)". `said`: a given speed in bytes per second, which takes precedence.
pub fn copy(summary: &Summary, said: Option<f64>) -> String {
    let Some(bytes) = summary.full_copy_bytes else { return "a full copy".to_owned() };
    let (bytes_per_s, from) = match (said, summary.copied_bytes_per_s) {
        (Some(said), _) => (said, ""),
        (None, Some(copied)) => (copied, " (as fast as the last one)"),
        (None, None) => (ASSUMED_BYTES_PER_S, " (assumed)"),
    };
    let took = recovery::full_copy(bytes, bytes_per_s).map_or_else(String::new, |took| {
        format!(", {} at {} a second{from}", long(took.as_secs_f64()), size(bytes_per_s))
    });
    format!("a full copy of {}{took}", size(bytes as f64))
}

/// What is unknown because a privilege is missing, from each node's name and what it reported; one sentence each.
pub fn notes<'a>(keeps: impl Iterator<Item = (&'a str, &'a Keeps)>) -> Vec<String> {
    let keeps: Vec<(&str, &Keeps)> = keeps.collect();
    let names = |is_hidden: fn(&Keeps) -> bool| {
        let hidden = keeps.iter().filter(|(_, keeps)| is_hidden(keeps)).map(|(name, _)| *name);
        hidden.collect::<Vec<_>>().join(", ")
    };
    let mut notes = Vec::new();
    let no_data = names(|keeps| keeps.is_data_hidden);
    if !no_data.is_empty() && keeps.iter().all(|(_, keeps)| keeps.data_bytes.is_none()) {
        notes.push(format!(
            "how large a full copy would be is not known: {no_data} does not show its tablespaces to the monitor account: GRANT PROCESS ON *.* TO it"
        ));
    }
    let no_binlogs = names(|keeps| keeps.binlogs.as_ref().is_some_and(|binlogs| binlogs.is_hidden));
    if !no_binlogs.is_empty() {
        notes.push(format!(
            "how far back the binary logs of {no_binlogs} reach is not known, so that they are judged by their age limit alone: GRANT BINLOG MONITOR \
             (MySQL: REPLICATION CLIENT) ON *.* TO the monitor account"
        ));
    }
    notes
}

/// One node's forecast as a sentence; `copy` is the result of [`copy`].
pub fn sentence(row: &Outlook, copy: &str) -> String {
    let Some((way, forecast)) = row.returns_by.zip(row.forecast()) else {
        return row.why.clone().unwrap_or_else(|| "nothing is known yet".to_owned());
    };
    let been = match row.away_s {
        Some(s) if !row.is_there && row.is_remembered => {
            format!("was last seen {} ago, before this program started; ", long(s))
        }
        Some(s) if !row.is_there => format!("has been away for {}; ", long(s)),
        _ => String::new(),
    };
    let may = match (row.is_there, been.is_empty(), way.is_galera()) {
        (true, ..) => "may be away",
        (false, true, _) => "may stay away another",
        (false, false, true) => "may come back with IST for another",
        (false, false, false) => "may catch up from binary logs for another",
    };
    match forecast {
        Forecast::Missed(None) if way.is_galera() => {
            let may = if row.is_there { "may be away" } else { "may come back with IST" };
            format!("{been}{may} for as long as nothing is written")
        }
        Forecast::Missed(None) => {
            let may = if row.is_there { "may be away" } else { "may catch up" };
            format!("{been}{may} for as long as no binary logs are deleted, for which no limit is near")
        }
        // The age of binary logs counts from when they were written.
        Forecast::Missed(Some(window)) if !row.is_there && been.is_empty() && !way.is_galera() => {
            format!(
                "what it misses is there now; since when it is away is not known, so that it is for another {} at the most, after that it needs {copy}",
                long(window.as_secs_f64())
            )
        }
        Forecast::Missed(Some(window)) => {
            let busiest =
                row.busiest_away_max_s.filter(|busiest| *busiest < window.as_secs_f64() * NOTABLY_SHORTER);
            let busiest = busiest.map_or_else(String::new, |busiest| {
                format!(" ({} at that of the busiest minute of the last hour)", long(busiest))
            });
            let few = match row.donors.as_slice() {
                [] => String::new(),
                donors => format!(" (only {} can send what it misses)", donors.join(" and ")),
            };
            format!(
                "{been}{may} {} at the present rate of writes{busiest}{few}, after that it needs {copy}",
                long(window.as_secs_f64())
            )
        }
        Forecast::DependsOnSource(window) => {
            let until =
                window.map_or_else(String::new, |window| format!(" for {}", long(window.as_secs_f64())));
            format!(
                "{been}not every server that it could follow has what it misses: let it follow one that has{until}, or it needs {copy}"
            )
        }
        Forecast::FullCopy(_) if way == Way::Clone => {
            format!("{been}needs {copy}: the binary logs that it misses are deleted")
        }
        Forecast::FullCopy(Reason::Gone) => format!("{been}needs {copy}: no member has what it misses"),
        Forecast::FullCopy(Reason::OtherHistory) => format!(
            "{been}needs {copy}: its data are of another cluster (its `uuid` in grastate.dat is not wsrep_cluster_state_uuid of the members)"
        ),
        Forecast::FullCopy(Reason::Ahead) => format!(
            "{been}has transactions that no member has, with which its server does not start (\"states diverged\"): save them first; once its grastate.dat \
             is removed, it takes {copy}"
        ),
        Forecast::FullCopy(Reason::NoPosition) => format!(
            "{been}needs {copy}: it has no position (after a crash `mariadbd --wsrep-recover` may find one)"
        ),
    }
}

/// The journal's entry before the window ends, and when it has ended.
pub fn warning(row: &Outlook, warning: Warning, copy: &str) -> String {
    let (name, said) = (&row.node, sentence(row, copy));
    let left = row
        .forecast()
        .and_then(Forecast::window)
        .map_or_else(String::new, |left: Duration| long(left.as_secs_f64()));
    match warning {
        Warning::Half => format!("{name}: half of the time that it may be away has gone: {said}"),
        Warning::Last => format!("{name} must come back within {left}: {said}"),
        Warning::Depends | Warning::Over => format!("{name}: {said}"),
    }
}

/// A size in decimal units, as for disks and networks: "1.2 GB".
pub fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}
