//! A simulated node of known capacity, sampled in several ways.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

use super::*;

/// A node that receives `arrive_per_s` and can apply `apply_per_s` transactions a second, simulated in steps of 1 ms.
struct Model {
    us: u64,
    arrived: f64,
    applied: f64,
    asked: u64,
    is_asking: bool,
}

impl Model {
    fn new() -> Self {
        Self { us: 0, arrived: 0.0, applied: 0.0, asked: 0, is_asking: false }
    }

    /// Runs for a time and takes a sample every `pace_ms`.
    fn run(
        &mut self,
        ms: u64,
        pace_ms: u64,
        (arrive_per_s, apply_per_s): (f64, f64),
        mut see: impl FnMut(Look),
    ) {
        for step in 1..=ms {
            self.us += 1000;
            self.arrived += arrive_per_s / 1000.0;
            self.applied = self.arrived.floor().min(self.applied + apply_per_s / 1000.0);
            if step % pace_ms == 0 {
                see(self.look());
            }
        }
    }

    fn look(&self) -> Look {
        let queue = (self.arrived - self.applied).floor() as u64;
        Look {
            at_us: self.us,
            applied: self.applied as u64,
            own: 0,
            queue,
            pauses_asked: self.asked,
            is_asking: self.is_asking,
            may_apply: true,
        }
    }
}

fn seen(series: &Series) -> Figure {
    match Estimate::of(series) {
        Estimate::Seen(figure) => figure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn short_stalls_tell_the_capacity_to_who_looks_often() {
    let (mut model, mut watcher, mut series) = (Model::new(), Watcher::default(), Series::new(5_000_000, 20));
    for _ in 0..20 {
        model.run(1400, 20, (300.0, 900.0), |look| watcher.look(look, &mut series));
        // A flush of the log, or another process: nothing is applied for 100 ms.
        model.run(100, 20, (300.0, 0.0), |look| watcher.look(look, &mut series));
    }
    let figure = seen(&series);
    assert!((figure.per_s / 900.0 - 1.0).abs() < 0.4, "{figure:?}");
    assert!(figure.low_per_s <= figure.per_s && figure.per_s <= figure.high_per_s);
}

#[test]
fn a_long_catching_up_tells_it_to_who_looks_once_a_second() {
    let (mut model, mut watcher, mut series) =
        (Model::new(), Watcher::default(), Series::new(60_000_000, 60));
    model.run(60_000, 1000, (300.0, 900.0), |look| watcher.look(look, &mut series));
    model.run(60_000, 1000, (300.0, 0.0), |look| watcher.look(look, &mut series));
    model.run(120_000, 1000, (300.0, 900.0), |look| watcher.look(look, &mut series));
    let figure = seen(&series);
    assert!((figure.per_s / 900.0 - 1.0).abs() < 0.02, "{figure:?}");
    assert_eq!(figure.source, Source::Backlog);
    let peak = series.peak_per_s().unwrap();
    assert!((peak - 300.0).abs() < 1.0, "{peak}");
}

#[test]
fn a_node_that_was_never_behind_is_not_told_to_be_at_its_limit() {
    let (mut model, mut watcher, mut series) = (Model::new(), Watcher::default(), Series::new(5_000_000, 20));
    model.run(60_000, 20, (300.0, 900.0), |look| watcher.look(look, &mut series));
    let estimate = Estimate::of(&series);
    assert!(matches!(estimate, Estimate::AtLeast(rate) if (rate - 300.0).abs() < 2.0), "{estimate:?}");
    assert_eq!(estimate.low_per_s().map(f64::round), Some(300.0));
    let text = estimate.sentence("db3", None);
    assert!(text.contains("how much more it could apply is not known"), "{text}");
    assert_eq!(Estimate::of(&Series::new(1, 1)), Estimate::Unknown);
}

#[test]
fn a_node_that_slows_its_group_down_tells_it_too() {
    let (mut model, mut watcher, mut series) =
        (Model::new(), Watcher::default(), Series::new(10_000_000, 20));
    model.run(60_000, 1000, (300.0, 900.0), |look| watcher.look(look, &mut series));
    // The group offers 2,000 a second and flow control slows it to what this node applies: its queue varies around 12.
    model.arrived += 12.0;
    model.is_asking = true;
    for _ in 0..60 {
        model.asked += 3;
        model.run(1000, 1000, (900.0, 900.0), |look| watcher.look(look, &mut series));
    }
    let figure = seen(&series);
    assert!((figure.per_s / 900.0 - 1.0).abs() < 0.02, "{figure:?}");
    assert_eq!(figure.source, Source::FlowControl);
}

#[test]
fn a_writer_a_lock_and_a_restart_are_no_capacity() {
    let (mut watcher, mut series) = (Watcher::default(), Series::new(1_000_000, 100));
    let look = |s: u64, applied, own, queue, may_apply| Look {
        at_us: s * 1_000_000,
        applied,
        own,
        queue,
        may_apply,
        ..Look::default()
    };
    for s in 1..20 {
        // The node's own writes are committed, while write sets from other nodes wait.
        watcher.look(look(s, 100 * s, 100 * s, 500, true), &mut series);
    }
    for s in 20..40 {
        watcher.look(look(s, 2000, 0, 500 + s, true), &mut series);
    }
    for s in 40..60 {
        watcher.look(look(s, 2000 + s, 0, 500, false), &mut series);
    }
    // The counters restart.
    for s in 60..80 {
        watcher.look(look(s, s, 0, 0, true), &mut series);
    }
    let estimate = Estimate::of(&series);
    assert!(matches!(estimate, Estimate::AtLeast(rate) if rate < 2.0), "{estimate:?}");
}

#[test]
fn a_series_goes_on_after_a_pause_and_forgets_what_is_too_old() {
    let bucket = |number| Bucket {
        number,
        kept_up: true,
        all: Busy { applied: 600, us: 1_000_000 },
        ..Bucket::default()
    };
    let mut series = Series::new(1_000_000, 10);
    // The present time is second 20: buckets of seconds 11 to 20 count. One is in the future, and one is out of order.
    series.resume([5, 11, 14, 13, 20, 99].map(bucket), 20_500_000);
    let numbers = |series: &Series| series.buckets().map(|bucket| bucket.number).collect::<Vec<_>>();
    assert_eq!(numbers(&series), [11, 14, 20]);
    assert_eq!(series.peak_per_s(), Some(600.0));
    let mut watcher = Watcher::default();
    for s in 23..25 {
        watcher
            .look(Look { at_us: s * 1_000_000, applied: s, may_apply: true, ..Look::default() }, &mut series);
    }
    assert_eq!(numbers(&series), [20, 24], "a pause counts as time");
    let text = serde_json::to_string(&bucket(7)).unwrap();
    assert!(!text.contains("backlog"), "{text}");
    assert_eq!(serde_json::from_str::<Bucket>(&text).unwrap(), bucket(7));
}

#[test]
fn the_series_is_bounded_and_the_sentence_has_the_factor() {
    let mut series = Series::new(60_000_000, 3);
    let (mut model, mut watcher) = (Model::new(), Watcher::default());
    model.run(600_000, 1000, (100.0, 900.0), |look| watcher.look(look, &mut series));
    assert_eq!(series.buckets().count(), 3);
    let busy = Busy { applied: 9000, us: 10_000_000 };
    let figure = Figure {
        per_s: 900.0,
        low_per_s: 850.0,
        high_per_s: 950.0,
        source: Source::Backlog,
        busy,
        buckets: 5,
    };
    let text = Estimate::Seen(figure).sentence("db3", Some((300.0, "today's peak")));
    assert_eq!(
        text,
        "db3 would fall behind at 3.0 times today's peak, 300 a second: it applied 900 transactions a second (850 to 950) while transactions waited for it, for 10.0 s in all"
    );
}
