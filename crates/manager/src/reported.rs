//! Which advice was reported already: a problem that comes and goes is reported once, not each time it comes.
//!
//! Enters: an advice that applies now. Leaves: whether it is new. (A node that has no free connection lets the monitor account in now and
//! then, so that without this its advice came and went several times a second.)

use std::collections::BTreeMap;
use std::time::Duration;

use topology::NodeId;
use topology::time::Now;

use crate::advice::Topic;

/// An advice that did not apply for this long is new again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// The number of different sentences that are remembered for one topic.
const SENTENCES_MAX: usize = 8;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct ReportedAdvice(BTreeMap<(NodeId, Topic), Vec<LastReport>>);

#[derive(Debug)]
struct LastReport {
    text: String,
    /// When it applied last.
    last: Now,
}

impl ReportedAdvice {
    /// `text` applies to `node` at `now`: whether that is new.
    pub fn is_new(&mut self, node: NodeId, topic: Topic, text: &str, now: Now) -> bool {
        let said = self.0.entry((node, topic)).or_default();
        said.retain(|said| now.saturating_sub(said.last) < FORGOTTEN_AFTER);
        if let Some(known) = said.iter_mut().find(|said| said.text == text) {
            known.last = now;
            return false;
        }
        if said.len() == SENTENCES_MAX {
            said.remove(0);
        }
        said.push(LastReport { text: text.to_owned(), last: now });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_comes_and_goes_is_said_once_until_it_has_stayed_away() {
        let mut said = ReportedAdvice::default();
        let mut is_new =
            |node, text: &str, at: u32| said.is_new(NodeId(node), Topic::Login, text, SECOND * at);
        assert!(is_new(0, "no connection left", 0));
        // The trouble goes on for hours, with breaks, and in turns with another.
        let mut news = 0;
        for at in 1..20_000 {
            news += u32::from(is_new(0, "no connection left", at));
            news += u32::from(at % 7 == 0 && is_new(0, "blocked", at));
        }
        assert_eq!(news, 1, "only the other one was news");
        assert!(is_new(1, "no connection left", 20_000), "another node");
        assert!(!is_new(0, "no connection left", 20_500));
        assert!(is_new(0, "no connection left", 21_100), "it had stayed away");
    }
}
