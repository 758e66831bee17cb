//! Plots disk reads over time: reads a second, and total reads. As in the talk, time runs to the right and a lower line is a warmer standby. Pure.

use report::plot::{Axis, Colour, Panel, Plot, Series};

use super::result::{Case, Sample};

/// Of a panel.
const HEIGHT: f64 = 190.0;
/// Maximum number of points of a line: shorter intervals would only show noise.
const INTERVALS: usize = 40;
const COLOURS: [Colour; 8] = ["ours", "lat", "bad", "queue", "busy", "base", "donor", "silent"];

/// `run_s`: recorded length of the chunk.
pub fn plot(cases: &[&Case], run_s: f64) -> Plot {
    let last = |case: &&Case| case.samples.last().map_or(0.0, |sample| sample.recorded_s);
    let run_s = cases.iter().map(last).fold(run_s, f64::max);
    let coloured = || cases.iter().zip(COLOURS.into_iter().cycle());
    let rates = coloured().map(|(case, colour)| Series::line(colour, rates(&case.samples, run_s)));
    let reads = coloured().map(|(case, colour)| Series::Line {
        colour,
        is_dashed: false,
        points: case.samples.iter().map(|sample| (sample.recorded_s, sample.pool_reads as f64)).collect(),
        name: case.title.to_owned(),
    });
    Plot {
        label: "reads from disk over time",
        axis: Axis { from_s: 0.0, to_s: run_s, title: "seconds of recorded traffic" },
        panels: vec![
            Panel::of("Reads from disk a second", HEIGHT, rates.collect()),
            Panel::of("Reads from disk since the failover", HEIGHT, reads.collect()),
        ],
        ..Plot::default()
    }
}

/// (middle, reads a second) of each interval.
fn rates(samples: &[Sample], run_s: f64) -> Vec<(f64, f64)> {
    let width_s = (run_s / INTERVALS as f64).max(1e-6);
    let mut points = Vec::new();
    let Some(mut from) = samples.first() else { return points };
    for (index, sample) in samples.iter().enumerate() {
        let long_s = sample.recorded_s - from.recorded_s;
        if long_s >= width_s || (index + 1 == samples.len() && long_s > width_s / 2.0) {
            let reads = sample.pool_reads.saturating_sub(from.pool_reads) as f64;
            points.push((from.recorded_s + long_s / 2.0, reads / long_s));
            from = sample;
        }
    }
    points
}
