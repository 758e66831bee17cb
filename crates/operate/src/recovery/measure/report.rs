//! What was measured, as text and as JSON. Pure.

use measure::recovery::Forecast;
use measure::recovery::restart::{Mark, Restart, TransferKind, expected, was_right};
use serde_json::{Value, json};

use super::before::Found;
use super::drive::Measured;
use super::order::Measure;
use report::document::Document;
use report::table::{Lean, Table, span};

fn ms(duration: std::time::Duration) -> u64 {
    duration.as_millis() as u64
}

/// "an incremental transfer (IST)".
fn called(kind: TransferKind) -> &'static str {
    match kind {
        TransferKind::Nothing => "no transfer at all",
        TransferKind::Incremental => "an incremental transfer (IST)",
        TransferKind::Full => "a full copy (SST)",
        TransferKind::Unknown => "a transfer of a kind that is not known",
    }
}

/// For people.
pub(super) fn told(name: &str, found: &Found, measured: &Measured) -> Document {
    let restart = &measured.restart;
    let kind = restart.kind();
    let mut first = format!("{name} came back by {}", called(kind));
    if let (Some(method), TransferKind::Full) = (&restart.method, kind) {
        first += &format!(" with {method}");
    }
    if let Some(donor) = &restart.donor {
        first += &format!(" from {donor}");
    }
    let gross = restart.gross().map_or(0, ms);
    first += &format!(
        ", {} after its start; away for {} before",
        span(gross),
        span(ms(measured.started.saturating_sub(measured.gone)))
    );
    let mut lines = vec![first];
    if let Some((writesets, first, last)) = restart.ist {
        lines.push(format!("sent as missed: {writesets} writesets, {first} to {last}"));
    }
    lines.push(format!(
        "written while it was away: {} writesets, {:.1} MB; flow control stopped the others' writes for {:.0} ms",
        measured.missed.0,
        measured.missed.1 as f64 / 1e6,
        measured.paused_ms
    ));
    if let (TransferKind::Full, Some(bytes)) = (kind, found.data_bytes) {
        lines.push(format!("a full copy is of about {:.1} MB{}", bytes as f64 / 1e6, copied(restart, bytes)));
    }
    if kind == TransferKind::Unknown {
        lines.push("which kind it was stands in its error log: give it with --error-log".to_owned());
    }
    lines.push(verdict(found, measured));
    let net = restart.net().map_or(0, ms);
    let mut told = Document::new(&format!("The return of {name}, by phases"));
    told.lines(lines);
    told.table(table(measured));
    told.prose(format!(
        "gross {}; net {}: copy, ist and catch-up alone, which grow with the data or with what was missed",
        span(gross),
        span(net)
    ));
    told
}

/// How fast the transfer's script was, its own waits included, for the next forecast.
fn copied(restart: &Restart, bytes: u64) -> String {
    let copy = restart.phases().into_iter().find(|phase| phase.mark == Mark::Copied);
    let Some(took_s) = copy.map(|copy| copy.took.as_secs_f64()).filter(|s| *s > 0.0) else {
        return String::new();
    };
    let mb_per_s = (bytes as f64 / 1e6 / took_s).round().max(1.0);
    format!(", {mb_per_s:.0} MB a second: `recovery forecast --copy-mb-per-s {mb_per_s:.0}` goes by that")
}

/// What would be done, in its order, and which transfer is expected.
pub(super) fn steps(order: &Measure, found: &Found) -> Vec<String> {
    let name = &order.node;
    let by = |command: &Option<String>, what: &str| match command {
        Some(command) => format!("{what} {name}: {command}"),
        None => format!("you {what} {name}'s server when you are told to"),
    };
    let transfer = match (order.full, called(expected(found.forecast, order.away))) {
        (true, _) => "it needs a full copy then: it forgets its position before".to_owned(),
        (false, transfer) => {
            format!("by the present forecast, {}; expected then: {transfer}", may_be_away(found.forecast))
        }
    };
    vec![
        "this would be done, and nothing was changed:".to_owned(),
        by(&order.stop_command, "stop"),
        format!("it stays away for {}", span(ms(order.away))),
        by(&order.start_command, "start"),
        transfer,
    ]
}

/// For how long the node may be away without a full copy, in a sentence.
fn may_be_away(forecast: Forecast) -> String {
    match forecast {
        Forecast::Missed(None) => "it may be away for as long as nothing is written".to_owned(),
        Forecast::Missed(Some(window)) => format!("it may be away for {}", span(ms(window))),
        Forecast::FullCopy(_) => "it needs a full copy".to_owned(),
        Forecast::DependsOnSource(_) => "it depends on the donor".to_owned(),
    }
}

/// Whether the forecast was right, in a sentence.
fn verdict(found: &Found, measured: &Measured) -> String {
    let before = may_be_away(found.forecast);
    let came = measured.restart.kind();
    let judged = |expected: TransferKind| match was_right(expected, came) {
        Some(true) => "right",
        Some(false) => "wrong",
        None => "not to be judged",
    };
    let made = if found.is_full { ", and its position was then removed" } else { "" };
    format!(
        "forecast before the stop: {before}{made}: {}; a moment before the start: {}: {}",
        judged(measured.expected),
        called(measured.expected_at_start),
        judged(measured.expected_at_start)
    )
}

fn table(measured: &Measured) -> Table {
    let mut table = Table::new(&[
        ("PHASE", Lean::Left),
        ("FROM", Lean::Right),
        ("TOOK", Lean::Right),
        ("WHAT HAPPENS", Lean::Left),
    ]);
    for phase in measured.restart.phases() {
        table.row([
            phase.mark.phase().to_owned(),
            format!("{:.2} s", phase.from.as_secs_f64()),
            format!("{:.2} s", phase.took.as_secs_f64()),
            phase.mark.meaning().to_owned(),
        ]);
    }
    table
}

/// For programs.
pub(super) fn json(name: &str, found: &Found, measured: &Measured) -> Value {
    let restart = &measured.restart;
    let came = restart.kind();
    let phases = restart.phases().into_iter().map(|phase| {
        json!({
            "phase": phase.mark.phase(),
            "from_s": phase.from.as_secs_f64(),
            "took_s": phase.took.as_secs_f64(),
            "is_net": phase.mark.is_transfer(),
        })
    });
    let readings = measured.readings.iter().map(|reading| {
        json!({
            "at_s": reading.at.as_secs_f64(),
            "committed": reading.committed,
            "own": reading.own,
            "queue": reading.queue,
            "has_donor": reading.has_donor,
        })
    });
    let (returns_by, window) = match found.forecast {
        Forecast::Missed(window) => (TransferKind::Incremental, window),
        Forecast::DependsOnSource(window) => (TransferKind::Unknown, window),
        Forecast::FullCopy(_) => (TransferKind::Full, None),
    };
    json!({
        "node": name,
        "kind": came.name(),
        "method": restart.method,
        "donor": restart.donor,
        "position": measured.position,
        "ist": restart.ist.map(|(writesets, first, last)| json!({"writesets": writesets, "first": first, "last": last})),
        "missed_writesets": measured.missed.0,
        "missed_bytes": measured.missed.1,
        "data_bytes": found.data_bytes,
        "stop_s": measured.gone.as_secs_f64(),
        "started_s": measured.started.as_secs_f64(),
        "away_s": measured.started.saturating_sub(measured.gone).as_secs_f64(),
        "gross_s": restart.gross().map(|time| time.as_secs_f64()),
        "net_s": restart.net().map(|time| time.as_secs_f64()),
        "phases": phases.collect::<Vec<_>>(),
        "forecast": {
            "returns_by_at_once": returns_by.name(),
            "away_max_s": window.map(|window| window.as_secs_f64()),
            "write_bytes_per_s": found.writes.bytes_per_s,
            "transactions_per_s": found.writes.transactions_per_s,
            "expected": measured.expected.name(),
            "was_right": was_right(measured.expected, came),
            "expected_at_start": measured.expected_at_start.name(),
            "was_right_at_start": was_right(measured.expected_at_start, came),
        },
        "flow_control_paused_ms": measured.paused_ms,
        "readings": readings.collect::<Vec<_>>(),
    })
}
