//! Flow control: for how long the group stood still, and because of whom.

use std::fmt::Write;

use crate::rates::Rates;

/// Less than this part of the time is not worth a word.
const PAUSED_MIN: f64 = 0.001;

/// One sentence about the group's flow control during the last span: how long it paused, and which nodes asked for it. `None` when it did
/// not. A pause that nobody is seen to have asked for is said to be that: the node may have restarted, or its samples may be missing.
pub fn sentence<'a>(nodes: impl IntoIterator<Item = (&'a str, &'a Rates)>) -> Option<String> {
    let (mut longest, mut senders) = (0.0_f64, Vec::new());
    for (name, rates) in nodes {
        longest = longest.max(rates.paused.unwrap_or(0.0));
        let sent = rates.flow_control_sent.unwrap_or(0.0) * rates.over_s;
        if sent > 0.0 {
            senders.push((name, sent.round() as u64));
        }
    }
    if longest < PAUSED_MIN && senders.is_empty() {
        return None;
    }
    senders.sort_by_key(|(_, sent)| std::cmp::Reverse(*sent));
    let mut sentence = format!("the group stood still for {:.1} % of the time", longest * 100.0);
    for (place, (name, sent)) in senders.iter().enumerate() {
        let _ = match place {
            0 => write!(sentence, ": {name} asked for it ({sent} messages)"),
            _ => write!(sentence, ", {name} too ({sent})"),
        };
    }
    if senders.is_empty() {
        sentence.push_str("; no node that answers asked for it");
    }
    Some(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(paused: f64, sent: f64) -> Rates {
        Rates { over_s: 1.0, paused: Some(paused), flow_control_sent: Some(sent), ..Rates::default() }
    }

    #[test]
    fn who_asks_for_it_is_named() {
        let (well, slow, slower) = (rates(0.12, 0.0), rates(0.125, 2.0), rates(0.1, 9.0));
        let said = sentence([("db1", &well), ("db2", &slow), ("db3", &slower)]);
        let want = "the group stood still for 12.5 % of the time: db3 asked for it (9 messages), db2 too (2)";
        assert_eq!(said.as_deref(), Some(want));
        let said = sentence([("db1", &well)]);
        assert_eq!(
            said.as_deref(),
            Some("the group stood still for 12.0 % of the time; no node that answers asked for it")
        );
        assert_eq!(sentence([("db1", &rates(0.0, 0.0)), ("db2", &Rates::default())]), None);
    }
}
