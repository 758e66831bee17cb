//! Flow control: for how long it paused the group, and which nodes requested the pauses.

use std::fmt::Write;

use crate::rates::Rates;
use crate::sample::Sample;

/// Pauses below this share of the time are not mentioned.
const PAUSED_MIN: f64 = 0.001;

/// What one node reported about flow control.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowReport {
    /// The share of the last interval for which replication was paused, 0 to 1.
    pub paused: Option<f64>,
    /// How often the node requested a pause in that interval. `None` after a restart and after FLUSH STATUS.
    pub asked_count: Option<f64>,
    /// The node is requesting a pause now. One pause is one request, however long it lasts.
    pub is_asking: Option<bool>,
}

impl FlowReport {
    /// Taken from a node's last sample and its rates.
    pub fn of(sample: &Sample, rates: &Rates) -> Self {
        Self {
            paused: rates.paused,
            asked_count: rates.flow_control_sent.map(|per_s| per_s * rates.over_s),
            is_asking: sample.counters.galera.and_then(|galera| galera.flow_control_requested),
        }
    }
}

/// One sentence about the group's flow control during the last interval: how long the pauses were in total, and which nodes requested them.
/// `None` when there was no pause worth mentioning. When no node is known to have requested one, the sentence says whether some nodes did
/// not report it.
pub fn sentence<'a>(nodes: impl IntoIterator<Item = (&'a str, FlowReport)>) -> Option<String> {
    let (mut longest, mut asking, mut is_known) = (0.0_f64, Vec::new(), true);
    for (name, said) in nodes {
        longest = longest.max(said.paused.unwrap_or(0.0));
        if said.is_asking == Some(true) || said.asked_count.is_some_and(|count| count > 0.0) {
            asking.push(name);
        }
        is_known &= said.is_asking.is_some() && said.asked_count.is_some();
    }
    if longest < PAUSED_MIN && asking.is_empty() {
        return None;
    }
    let mut sentence = format!("the group stood still for {:.1} % of the time", longest * 100.0);
    match (asking.as_slice(), is_known) {
        ([], true) => sentence.push_str("; no node that answers asked for it"),
        ([], false) => sentence.push_str("; who asked for it is not known"),
        (names, _) => {
            let _ = write!(sentence, ": {} asked for it", names.join(" and "));
        }
    }
    Some(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(paused: f64, asked_count: f64, is_asking: bool) -> FlowReport {
        FlowReport { paused: Some(paused), asked_count: Some(asked_count), is_asking: Some(is_asking) }
    }

    #[test]
    fn who_asks_for_it_is_named() {
        let (well, began, goes_on) = (said(0.12, 0.0, false), said(0.125, 2.0, false), said(1.0, 0.0, true));
        let text = sentence([("db1", well), ("db2", began), ("db3", goes_on)]);
        let want = "the group stood still for 100.0 % of the time: db2 and db3 asked for it";
        assert_eq!(text.as_deref(), Some(want));
        let text = sentence([("db1", well)]);
        let want = "the group stood still for 12.0 % of the time; no node that answers asked for it";
        assert_eq!(text.as_deref(), Some(want));
        let flushed = FlowReport { asked_count: None, ..well };
        let text = sentence([("db1", well), ("db2", flushed)]);
        assert_eq!(
            text.as_deref(),
            Some("the group stood still for 12.0 % of the time; who asked for it is not known")
        );
        assert_eq!(sentence([("db1", said(0.0, 0.0, false)), ("db2", FlowReport::default())]), None);
    }
}
