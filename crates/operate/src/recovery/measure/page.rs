//! A restart as a page: how far the node is behind over time, what waits on it below, the phases behind both. Pure.

use report::document::Document;
use report::plot::{Axis, Band, Panel, Plot, Series};

use super::drive::Measured;

/// Of a panel.
const HEIGHT: f64 = 190.0;
/// Points of a line, at the most.
const POINTS_MAX: usize = 1_500;

/// What was found, the picture below it.
pub(super) fn page(mut found: Document, measured: &Measured) -> String {
    found.plot(plot(measured));
    found.remark("Grey: away. Green: the phases whose length depends on the data or on what was missed.");
    found.html()
}

fn plot(measured: &Measured) -> Plot {
    let every = measured.readings.len().div_ceil(POINTS_MAX).max(1);
    let readings: Vec<_> = measured.readings.iter().step_by(every).collect();
    let started_s = measured.started.as_secs_f64();
    let gross_s = measured.restart.gross().map_or(0.0, |gross| gross.as_secs_f64());
    let end_s = readings.last().map_or(1.0, |last| last.at.as_secs_f64()).max(started_s + gross_s);
    // Until it answers again, it has what it had.
    let mut own = u64::try_from(measured.position)
        .ok()
        .or_else(|| readings.iter().find_map(|reading| reading.own))
        .unwrap_or(0);
    let behind = readings.iter().map(|reading| {
        own = reading.own.filter(|now| *now > 0).map_or(own, |now| now.max(own));
        (reading.at.as_secs_f64(), reading.committed.saturating_sub(own) as f64)
    });
    let behind = Series::line("base", behind);
    let queue = readings.iter().map(|reading| (reading.at.as_secs_f64(), reading.queue as f64));
    Plot {
        label: "the node's lag and queue over time",
        axis: Axis { from_s: 0.0, to_s: end_s, title: "seconds since the order to stop" },
        bands: bands(measured),
        panels: vec![
            Panel::of("Writesets that the group has and the node has not applied", HEIGHT, vec![behind]),
            Panel::of("Of these received, and waiting on the node", HEIGHT, vec![Series::line("lat", queue)]),
        ],
        ..Plot::default()
    }
}

/// The time away, and the phases of the return.
fn bands(measured: &Measured) -> Vec<Band> {
    let started_s = measured.started.as_secs_f64();
    let away = Band { from_s: measured.gone.as_secs_f64(), to_s: started_s, colour: "away", name: "" };
    let phases = measured.restart.phases().into_iter().enumerate().map(|(number, phase)| {
        let from_s = started_s + phase.from.as_secs_f64();
        let colour = match (phase.mark.is_transfer(), number % 2) {
            (true, _) => "net",
            (false, 0) => "even",
            (false, _) => "card",
        };
        Band { from_s, to_s: from_s + phase.took.as_secs_f64(), colour, name: phase.mark.phase() }
    });
    std::iter::once(away).chain(phases).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use measure::recovery::restart::{Own, Restart, TransferKind};

    use super::super::drive::Reading;
    use super::*;

    #[test]
    fn a_restart_is_drawn_inside_of_the_frame_and_a_name_is_no_markup() {
        let mut restart = Restart::default();
        restart.own(Duration::from_secs(9), Own { state: 4, is_ready: true });
        let reading = |second: u64| Reading {
            at: Duration::from_secs(second),
            committed: 100 * second,
            own: (second > 15).then_some(90 * second),
            queue: second % 5,
            has_donor: false,
        };
        let mut measured = Measured {
            gone: Duration::from_secs(1),
            started: Duration::from_secs(6),
            expected: TransferKind::Incremental,
            expected_at_start: TransferKind::Incremental,
            position: 3,
            missed: (1, 1),
            paused_ms: 0.0,
            restart,
            readings: (0..20).map(reading).collect(),
        };
        let mut found = Document::new("<db3>");
        found.prose("a & b");
        let drawn = page(found, &measured);
        assert!(drawn.contains("&lt;db3&gt;") && drawn.contains("a &amp; b") && !drawn.contains("<db3>"));
        assert_eq!(drawn.matches("<polyline").count(), 2);
        measured.readings.clear();
        let empty = plot(&measured).svg();
        assert!(empty.ends_with("</svg>") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    }
}
