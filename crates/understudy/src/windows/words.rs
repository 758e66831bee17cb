//! A row, and a warning, as sentences.

use std::time::Duration;

use measure::recovery::absence::Warning;
use measure::recovery::{self, Forecast};

use super::{Outlook, Way};
use crate::table::span;

/// A window at the busiest minute's rate is told when it is shorter than this part of the other.
const NOTABLY_SHORTER: f64 = 0.8;

fn long(s: f64) -> String {
    span((s * 1000.0) as u64)
}

/// "a full copy of 1.2 GB, 12.0 s at 100.0 MB a second".
pub fn copy(data_bytes: Option<u64>, copy_bytes_per_s: f64) -> String {
    let Some(bytes) = data_bytes else { return "a full copy".to_owned() };
    let took = recovery::full_copy(bytes, copy_bytes_per_s).map_or_else(String::new, |took| {
        format!(", {} at {} a second", long(took.as_secs_f64()), size(copy_bytes_per_s))
    });
    format!("a full copy of {}{took}", size(bytes as f64))
}

/// One node's forecast; `copy` as [`copy`] makes it.
pub fn sentence(row: &Outlook, copy: &str) -> String {
    let Some((way, forecast)) = row.returns_by.zip(row.forecast()) else {
        return row.why.clone().unwrap_or_else(|| "nothing is known yet".to_owned());
    };
    let been = match row.away_s {
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
        // Binary logs are kept from when they were written.
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
            format!(
                "{been}{may} {} at the present rate of writes{busiest}, after that it needs {copy}",
                long(window.as_secs_f64())
            )
        }
        Forecast::DependsOnSource(window) => {
            let until =
                window.map_or_else(String::new, |window| format!(" for {}", long(window.as_secs_f64())));
            if way.is_galera() {
                format!(
                    "{been}not every member has what it misses: name one that has it in wsrep_sst_donor{until}, or it may need {copy}"
                )
            } else {
                format!(
                    "{been}not every server that it could follow has what it misses: let it follow one that has{until}, or it needs {copy}"
                )
            }
        }
        Forecast::FullCopy if way == Way::Clone => {
            format!("{been}needs {copy}: the binary logs that it misses are deleted")
        }
        Forecast::FullCopy => format!("{been}needs {copy}: no member has what it misses"),
    }
}

/// What the journal says before it is too late, and when it is.
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

/// Decimal units, as disks and networks are sold: "1.2 GB".
pub fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}
