//! Computes the estimate from a series: a figure with its interval, and a sentence.

use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, Busy, Series};

/// Busy time below this is too short for a figure, microseconds.
const BUSY_MIN_US: u64 = 200_000;
/// Fewer transactions than this are too few for a figure.
const APPLIED_MIN: u64 = 50;
/// The number of buckets that is needed to compute how much they differ.
const BUCKETS_MIN: usize = 4;
/// With fewer buckets, this relative error is assumed, and the sentence calls the figure a guess.
const SHARE_UNKNOWN: f64 = 0.5;

/// How it is known that a node was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Transactions waited the whole time.
    Backlog,
    /// The node requested a flow control pause.
    FlowControl,
}

/// A rate of applying, transactions per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The best estimate.
    pub per_s: f64,
    /// The lower end of the 95 % interval, from the variation between samples.
    pub low_per_s: f64,
    /// The upper end of that interval.
    pub high_per_s: f64,
    /// How it is known that the node was busy.
    pub source: Source,
    /// Transactions applied in the busy time.
    pub busy: Busy,
    /// The number of buckets with busy time.
    pub buckets: usize,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimate {
    /// The node was seen busy, so its capacity is known.
    Seen(Figure),
    /// The node was never seen busy, and kept up with this rate, transactions per second.
    AtLeast(f64),
    /// Nothing was applied, or the node was not observed for long enough.
    Unknown,
}

impl Estimate {
    /// The estimate from a whole series. The queue is preferred to flow control, because a group under flow control sends in bursts.
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

    /// The rate that the node can certainly apply, transactions per second.
    pub fn low_per_s(&self) -> Option<f64> {
        match self {
            Self::Seen(figure) => Some(figure.low_per_s),
            Self::AtLeast(rate) => Some(*rate),
            Self::Unknown => None,
        }
    }

    /// The capacity as a multiple of `peak_per_s`, the highest usual rate; `None` when the capacity is not known.
    pub fn factor(&self, peak_per_s: Option<f64>) -> Option<f64> {
        let peak = peak_per_s.filter(|peak| *peak > 0.0)?;
        match self {
            Self::Seen(figure) => Some(figure.per_s / peak),
            Self::AtLeast(_) | Self::Unknown => None,
        }
    }

    /// The estimate as a sentence. `peak`: the highest usual rate, transactions per second, with its name, such as "today's peak".
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

/// The sum of all busy time, and how much the buckets differ.
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

/// The standard error of a ratio of sums (transactions divided by time), from the deviations of the parts.
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

/// The estimate for a node in the form that both the command's JSON and `status` use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct NodeCapacity {
    /// The node's name.
    pub node: String,
    /// The capacity, transactions per second; `None` when the node was never seen busy.
    pub apply_per_s: Option<f64>,
    /// The lower end of the 95 % interval, from the variation between samples.
    pub low_per_s: Option<f64>,
    /// The upper end of that interval.
    pub high_per_s: Option<f64>,
    /// How busy time was recognised.
    pub source: Option<Source>,
    /// How long the node was seen busy, ms.
    pub busy_ms: Option<u64>,
    /// Transactions applied in that time.
    pub busy_transactions: Option<u64>,
    /// A lower bound of the capacity, transactions per second.
    pub at_least_per_s: Option<f64>,
    /// The highest usual rate, transactions per second.
    pub peak_per_s: Option<f64>,
    /// The multiple of that rate at which the node would fall behind.
    pub times_peak: Option<f64>,
    /// The estimate as a sentence.
    pub sentence: String,
}

impl NodeCapacity {
    /// Computes it from a node's series. `peak`: the highest usual rate, transactions per second, with its name, such as "today's peak".
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
            source: figure.map(|figure| figure.source),
            busy_ms: figure.map(|figure| figure.busy.us / 1000),
            busy_transactions: figure.map(|figure| figure.busy.applied),
            at_least_per_s: estimate.low_per_s(),
            peak_per_s,
            times_peak: estimate.factor(peak_per_s),
            sentence: estimate.sentence(node, peak),
        }
    }
}
