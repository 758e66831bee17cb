//! A run as a page: the queue over time above, the rates below. Pure.

use std::time::Duration;

use measure::capacity::reading::Reading;
use measure::capacity::result::{Record, rates};
use report::document::Document;
use report::plot::{Axis, Band, Panel, Plot, Series};

/// Of a panel.
const HEIGHT: f64 = 200.0;

/// The page: what was found, and the picture.
pub fn page(title: &str, text: &str, record: &Record) -> String {
    let mut page = Document::new(title);
    page.text_as_is(text);
    page.plot(plot(record));
    page.html()
}

fn plot(record: &Record) -> Plot {
    let readings = &record.readings;
    let end_s = readings.last().map_or(1.0, |reading| reading.at.as_secs_f64());
    // About a hundred and twenty points: shorter intervals show noise alone.
    let width = Duration::from_secs_f64((end_s / 120.0).max(0.5));
    let rate = |count: fn(&Reading) -> Option<u64>| {
        rates(readings, width, count).into_iter().map(|(at, rate)| (at.as_secs_f64(), rate))
    };
    let queue = readings.iter().map(|reading| (reading.at.as_secs_f64(), reading.node.queue as f64));
    let (applied, came) = (rate(|reading| Some(reading.node.applied)), rate(Reading::committed_elsewhere));
    let held = record.marks.held.zip(record.marks.resumed);
    let held = held.map(|((_, from), (_, to))| Band {
        from_s: from.as_secs_f64(),
        to_s: to.as_secs_f64(),
        colour: "held",
        name: "held",
    });
    Plot {
        label: "queue and rates over time",
        axis: Axis { from_s: 0.0, to_s: end_s, title: "seconds" },
        bands: held.into_iter().collect(),
        panels: vec![
            Panel::of("Transactions received and not yet applied", HEIGHT, vec![Series::line("base", queue)]),
            Panel::of(
                "Transactions a second: applied here (solid), committed by the others (dashed)",
                HEIGHT,
                vec![Series::dashed("synced", came), Series::line("lat", applied)],
            ),
        ],
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use measure::capacity::reading::Node;

    use super::*;

    #[test]
    fn a_run_is_drawn_and_a_name_is_no_markup() {
        let reading = |second: u64| Reading {
            at: Duration::from_secs(second),
            node: Node { applied: second * 100, queue: second % 7, ..Node::default() },
            others: vec![],
            arrived_bytes: 0,
        };
        let mut record = Record { readings: (0..30).map(reading).collect(), ..Record::default() };
        record.marks.held = Some((5, Duration::from_secs(5)));
        record.marks.resumed = Some((9, Duration::from_secs(9)));
        let page = page("<db3>", "a & b", &record);
        assert!(page.contains("&lt;db3&gt;") && page.contains("a &amp; b") && !page.contains("<db3>"));
        assert_eq!(page.matches("<polyline").count(), 3);
        assert_eq!(page.matches("var(--held)\" x").count(), 1);
        let empty = plot(&Record::default()).svg();
        assert!(empty.ends_with("</svg>") && !empty.contains("NaN"), "nothing was read: {empty}");
    }
}
