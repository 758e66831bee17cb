//! What a series comes to: a figure with its interval and a sentence.

use serde::Serialize;

use super::bucket::{Bucket, Busy, Series};

/// Less busy time than this is too little for a figure, microseconds.
const BUSY_MIN_US: u64 = 200_000;
/// And fewer transactions than this.
const APPLIED_MIN: u64 = 50;
/// So many buckets are needed to tell how much they differ.
const BUCKETS_MIN: usize = 4;
/// With fewer, the figure may be off by so much: a guess, and told as one.
const SHARE_UNKNOWN: f64 = 0.5;

/// How it is known that a node was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Transactions waited all along.
    Backlog,
    /// It asked its group to wait (flow control).
    FlowControl,
}

impl Source {
    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::FlowControl => "flow_control",
        }
    }
}

/// A rate of applying, transactions a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The best guess.
    pub per_s: f64,
    /// It is between this (95 %, by how the samples differ among themselves) ...
    pub low_per_s: f64,
    /// ... and this.
    pub high_per_s: f64,
    /// How it is known.
    pub source: Source,
    /// What was applied in the time in which it was busy.
    pub busy: Busy,
    /// In how many buckets that was seen.
    pub buckets: usize,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimate {
    /// It was seen busy.
    Seen(Figure),
    /// It was not, and kept up with this rate, transactions a second.
    AtLeast(f64),
    /// Nothing was applied, or it was not looked at for long enough.
    Unknown,
}

impl Estimate {
    /// Of all that a series has. The queue says more than flow control: a group that is held up comes in pushes.
    pub fn of(series: &Series) -> Self {
        let by = |source: Source, busy: fn(&Bucket) -> Busy| {
            figure(source, series.buckets().map(busy).filter(|busy| busy.us > 0).collect())
        };
        by(Source::Backlog, |bucket| bucket.backlog)
            .or_else(|| by(Source::FlowControl, |bucket| bucket.flow_control))
            .map(Self::Seen)
            .or_else(|| series.kept_up_per_s().filter(|rate| *rate > 0.0).map(Self::AtLeast))
            .unwrap_or(Self::Unknown)
    }

    /// Transactions a second that it can apply at least, by what is known.
    pub fn low_per_s(&self) -> Option<f64> {
        match self {
            Self::Seen(figure) => Some(figure.low_per_s),
            Self::AtLeast(rate) => Some(*rate),
            Self::Unknown => None,
        }
    }

    /// How many times `peak_per_s` (the highest usual rate) the node can apply; nothing where that is not known.
    pub fn factor(&self, peak_per_s: Option<f64>) -> Option<f64> {
        let peak = peak_per_s.filter(|peak| *peak > 0.0)?;
        match self {
            Self::Seen(figure) => Some(figure.per_s / peak),
            Self::AtLeast(_) | Self::Unknown => None,
        }
    }

    /// One sentence. `peak`: the highest usual rate, transactions a second, and its name, such as "today's peak".
    pub fn sentence(&self, node: &str, peak: Option<(f64, &str)>) -> String {
        match self {
            Self::Seen(figure) => {
                let how = match figure.source {
                    Source::Backlog => "while transactions waited for it",
                    Source::FlowControl => "while it slowed its group down",
                };
                let sure = if figure.buckets < BUCKETS_MIN { ", seen too seldom to be sure" } else { "" };
                let factor = peak.and_then(|(peak, name)| Some((self.factor(Some(peak))?, peak, name)));
                let factor = factor.map_or_else(String::new, |(factor, peak, name)| {
                    format!("would fall behind at {factor:.1} times {name}, {peak:.0} a second: it ")
                });
                format!(
                    "{node} {factor}applied {:.0} transactions a second ({:.0} to {:.0}) {how}, for {:.1} s in all{sure}",
                    figure.per_s,
                    figure.low_per_s,
                    figure.high_per_s,
                    figure.busy.us as f64 / 1e6
                )
            }
            Self::AtLeast(rate) => format!(
                "{node} kept up with {rate:.0} transactions a second and never was behind: how much more it could apply is not known"
            ),
            Self::Unknown => format!("how much {node} could apply is not known: nothing was seen yet"),
        }
    }
}

/// All busy time together, and how much its buckets differ.
fn figure(source: Source, busy: Vec<Busy>) -> Option<Figure> {
    let all = Busy { applied: busy.iter().map(|b| b.applied).sum(), us: busy.iter().map(|b| b.us).sum() };
    if all.us < BUSY_MIN_US || all.applied < APPLIED_MIN {
        return None;
    }
    let per_s = all.per_s()?;
    let (low_per_s, high_per_s) = match spread(&busy, per_s) {
        Some(error) => ((per_s - 2.0 * error).max(0.0), per_s + 2.0 * error),
        None => (per_s * (1.0 - SHARE_UNKNOWN), per_s * (1.0 + SHARE_UNKNOWN)),
    };
    Some(Figure { per_s, low_per_s, high_per_s, source, busy: all, buckets: busy.len() })
}

/// The standard error of a ratio of sums (what was applied, by the time), from how each part differs from it.
fn spread(parts: &[Busy], per_s: f64) -> Option<f64> {
    if parts.len() < BUCKETS_MIN {
        return None;
    }
    let count = parts.len() as f64;
    let mean_s = parts.iter().map(|part| part.us as f64 / 1e6).sum::<f64>() / count;
    let squares: f64 =
        parts.iter().map(|part| (part.applied as f64 - per_s * part.us as f64 / 1e6).powi(2)).sum();
    Some((squares / (count * (count - 1.0))).sqrt() / mean_s)
}

/// What is known of a node, for people and programs: the same in the command's JSON and in `status`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeCapacity {
    /// Its name.
    pub node: String,
    /// The figure, transactions a second; none where the node was never seen busy.
    pub apply_per_s: Option<f64>,
    /// It is between this (95 %, by how the samples differ among themselves) ...
    pub low_per_s: Option<f64>,
    /// ... and this.
    pub high_per_s: Option<f64>,
    /// `backlog` or `flow_control`.
    pub source: Option<&'static str>,
    /// For how long it was seen busy, ms.
    pub busy_ms: Option<u64>,
    /// What it applied meanwhile.
    pub busy_transactions: Option<u64>,
    /// It can apply at least this, transactions a second.
    pub at_least_per_s: Option<f64>,
    /// The highest usual rate, transactions a second.
    pub peak_per_s: Option<f64>,
    /// At so many times that rate it would fall behind.
    pub times_peak: Option<f64>,
    /// All that as one sentence.
    pub sentence: String,
}

impl NodeCapacity {
    /// Of a node's series. `peak`: the highest usual rate, transactions a second, and what it is called, such as "today's peak".
    pub fn of(node: &str, series: &Series, peak: Option<(f64, &str)>) -> Self {
        let (estimate, peak_per_s) = (Estimate::of(series), peak.map(|(peak, _)| peak));
        let figure = match &estimate {
            Estimate::Seen(figure) => Some(figure),
            Estimate::AtLeast(_) | Estimate::Unknown => None,
        };
        Self {
            node: node.to_owned(),
            apply_per_s: figure.map(|figure| figure.per_s),
            low_per_s: figure.map(|figure| figure.low_per_s),
            high_per_s: figure.map(|figure| figure.high_per_s),
            source: figure.map(|figure| figure.source.name()),
            busy_ms: figure.map(|figure| figure.busy.us / 1000),
            busy_transactions: figure.map(|figure| figure.busy.applied),
            at_least_per_s: estimate.low_per_s(),
            peak_per_s,
            times_peak: estimate.factor(peak_per_s),
            sentence: estimate.sentence(node, peak),
        }
    }
}
