//! Plots one repetition over time: throughput, latency, queue and concurrency, errors, and each node's reported state, on one time axis with its
//! zero at the fault. Pure: a timeline in, a plot out.

use std::time::Duration;

use report::plot::{Axis, Band, Colour, Column, Panel, Plot, Scale as Values, Series};

use crate::failover::result::{Repetition, Timeline};
use crate::failover::watch::Word;
use crate::figures::Bucket;

/// The common scale of several plots below each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scale {
    /// Commits a second.
    pub flow_max: f64,
    /// Latency, ms.
    pub latency_ms_max: f64,
    /// Queue length or busy threads.
    pub queue_max: f64,
    /// Seconds before and after the fault.
    pub before_s: f64,
    /// See `before_s`.
    pub after_s: f64,
}

impl Scale {
    /// The scale that fits all repetitions.
    pub fn of<'a>(all: impl Iterator<Item = &'a Repetition>) -> Self {
        let mut scale = Self { flow_max: 10.0, latency_ms_max: 100.0, queue_max: 4.0, ..Self::default() };
        for Timeline { width, buckets, fault, .. } in all.map(|rep| &rep.timeline) {
            let per_s = 1.0 / width.as_secs_f64().max(1e-3);
            for bucket in buckets {
                scale.flow_max = scale.flow_max.max(f64::from(bucket.commits) * per_s);
                scale.latency_ms_max = scale.latency_ms_max.max(bucket.latency_ms_max);
                scale.queue_max = scale.queue_max.max(f64::from(bucket.queue.max(bucket.concurrency)));
            }
            let length = width.as_secs_f64() * buckets.len() as f64;
            scale.before_s = scale.before_s.max(fault.as_secs_f64());
            scale.after_s = scale.after_s.max(length - fault.as_secs_f64());
        }
        scale
    }
}

/// Draws the plot. `what` is the fault, such as "SIGKILL db1".
pub fn plot(rep: &Repetition, scale: Scale, what: &str) -> Plot {
    let line = &rep.timeline;
    let fault = (0.0, if line.stopped.is_some() { "order" } else { what }.to_owned());
    let stopped = line.stopped.map(|stopped| (line.after_fault_s(stopped), what.to_owned()));
    let values = |title: &str, height: f64, scale: Values, series: Vec<Series>| Panel::Values {
        title: title.to_owned(),
        height,
        scale,
        series,
    };
    let per_s = 1.0 / line.width.as_secs_f64().max(1e-3);
    let commits = line.columns(|bucket| vec![("flow", f64::from(bucket.commits) * per_s)]);
    let latency = line.columns(|bucket| match bucket.commits {
        0 => vec![],
        _ => vec![("lat", bucket.latency_ms_max)],
    });
    let errors =
        line.columns(|bucket| vec![("bad", f64::from(bucket.errors)), ("repeat", f64::from(bucket.repeats))]);
    let errors_max = line.buckets.iter().map(|bucket| bucket.errors + bucket.repeats).max().unwrap_or(0);
    let mut panels = vec![
        values("Throughput, commits/s", 70.0, Values::Linear(scale.flow_max), vec![commits]),
        values("Latency, the worst", 80.0, Values::LogMs(scale.latency_ms_max.max(100.0)), vec![latency]),
        values(
            "Waiting transactions",
            56.0,
            Values::Linear(scale.queue_max),
            vec![line.steps("busy", |bucket| bucket.concurrency), line.steps("queue", |bucket| bucket.queue)],
        ),
        match errors_max {
            0 => values("Errors in 100 ms: none", 0.0, Values::Linear(0.0), vec![]),
            most => values("Errors in 100 ms", 26.0, Values::Linear(f64::from(most)), vec![errors]),
        },
    ];
    panels.extend(line.nodes.iter().map(|(name, words)| line.states(name, words)));
    Plot {
        label: "timeline",
        axis: Axis { from_s: -scale.before_s, to_s: scale.after_s, title: "seconds from the fault" },
        bands: outage(rep).into_iter().collect(),
        moments: std::iter::once(fault).chain(stopped).collect(),
        marks: line.journal.iter().map(|(at, _)| line.after_fault_s(*at)).collect(),
        panels,
        key: key(rep),
    }
}

/// The time during which a commit was due and none came, if it is longer than the noise before the fault.
fn outage(rep: &Repetition) -> Option<Band> {
    // sysbench's trace gives only the length of its outage, in whole seconds, not its position.
    if rep.sysbench.is_some() || !rep.is_above_noise() {
        return None;
    }
    let from_s = rep.effect.outage_from_ms / 1e3 - rep.timeline.fault.as_secs_f64();
    Some(Band { from_s, to_s: from_s + rep.effect.outage_ms / 1e3, colour: "tint", name: "" })
}

/// What the colours mean; of the nodes' states, only those that occur.
fn key(rep: &Repetition) -> Vec<(Colour, String)> {
    let shaded = rep.is_above_noise().then_some(("tint", "a commit was due and none came"));
    let counts = [
        ("queue", "due, waiting for a thread"),
        ("busy", "threads busy"),
        ("bad", "ended badly"),
        ("repeat", "tried again by the retrying client"),
    ];
    let occurs = |word: &Word| rep.timeline.nodes.values().flatten().any(|(_, said)| said == word);
    let words = Word::ALL.into_iter().filter(occurs).map(|word| (word.name(), word.name()));
    let all = shaded.into_iter().chain(counts).chain(words);
    all.map(|(colour, what)| (colour, what.to_owned())).collect()
}

impl Timeline {
    fn after_fault_s(&self, at: Duration) -> f64 {
        at.as_secs_f64() - self.fault.as_secs_f64()
    }

    /// Each bucket with its begin and end.
    fn placed(&self) -> impl Iterator<Item = (f64, f64, &Bucket)> {
        (0..).zip(&self.buckets).map(|(number, bucket)| {
            let from_s = self.after_fault_s(self.width * number);
            (from_s, from_s + self.width.as_secs_f64(), bucket)
        })
    }

    fn columns(&self, values: impl Fn(&Bucket) -> Vec<(Colour, f64)>) -> Series {
        let column = |(from_s, to_s, bucket)| Column { from_s, to_s, values: values(bucket) };
        Series::Columns(self.placed().map(column).collect())
    }

    fn steps(&self, colour: Colour, of: impl Fn(&Bucket) -> u32) -> Series {
        let step = |(from_s, to_s, bucket): (f64, f64, &Bucket)| {
            [from_s, to_s].map(|at_s| (at_s, f64::from(of(bucket))))
        };
        Series::line(colour, self.placed().flat_map(step))
    }

    fn states(&self, name: &str, words: &[(Duration, Word)]) -> Panel {
        let end = self.width * self.buckets.len() as u32;
        let ends = words.iter().skip(1).map(|(at, _)| *at).chain([end]);
        let band = |((from, word), to): (&(Duration, Word), Duration)| Band {
            from_s: self.after_fault_s(*from),
            to_s: self.after_fault_s(to.min(end)),
            colour: word.name(),
            name: word.name(),
        };
        Panel::Row {
            name: name.to_owned(),
            bands: words.iter().zip(ends).map(band).collect(),
            end: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::result::tests::repetition;
    use crate::failover::understudy::Sentence;

    #[test]
    fn it_draws_everything_inside_the_frame() {
        let mut rep = repetition(300.0, 5);
        let bucket =
            Bucket { commits: 3, errors: 6, repeats: 2, latency_ms_max: 12_000.0, queue: 9, concurrency: 4 };
        let said = Sentence { at_unix_ms: 0, level: "info".into(), text: "a <b>".into() };
        rep.timeline = Timeline {
            width: Duration::from_millis(100),
            buckets: vec![bucket; 140],
            fault: Duration::from_secs(6),
            stopped: None,
            nodes: [(
                "db1".to_owned(),
                vec![(Duration::ZERO, Word::Synced), (Duration::from_secs(6), Word::Down)],
            )]
            .into(),
            journal: vec![(Duration::from_millis(6100), said.clone()), (Duration::from_millis(6110), said)],
        };
        let svg = plot(&rep, Scale::of([&rep].into_iter()), "SIGKILL <db1>").svg();
        assert!(svg.contains("SIGKILL &lt;db1&gt;") && svg.contains(">1-2</text>"), "near marks share one");
        assert!(svg.contains("var(--down)") && svg.contains(">10 s</text>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        for part in svg.split(" x=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=960.0).contains(&x), "{x}");
        }
    }
}
