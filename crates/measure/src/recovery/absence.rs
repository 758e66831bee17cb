//! Tracks which nodes are away and since when, and issues warnings: when half of the time that a node may be away has passed, when four
//! fifths have passed, when only some sources still have what it missed, and when a full copy is needed.
//!
//! Input: for each observation of a node, whether it is in service, and the forecast for it. Output: how long it has been away, from which
//! position it misses transactions, and a warning that is due. There is no clock here: a moment is the time since a common origin.

use std::time::Duration;

use super::Forecast;

/// A warning about the remaining time that a node may be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    /// Half of the time has passed.
    Half,
    /// Four fifths of the time have passed.
    Last,
    /// Some of the servers that it could replicate from no longer have all that it missed.
    Depends,
    /// The time has passed: it needs a full copy.
    Over,
}

/// The presence of one node, observed repeatedly.
#[derive(Clone, Debug)]
pub struct Absence<P> {
    /// When it was last in service, and its position then.
    there: Option<There<P>>,
    is_there: bool,
    /// The gravest warning issued in this absence.
    said: Option<Warning>,
}

#[derive(Clone, Debug)]
struct There<P> {
    at: Duration,
    /// How long before `at` it was really seen, according to an earlier run of the program.
    before: Option<Duration>,
    position: P,
}

/// An absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away<'a, P> {
    /// How long it has lasted; an upper limit if [`Away::is_remembered`].
    pub lasted: Duration,
    /// The node was last seen by an earlier run of the program, not by this one.
    pub is_remembered: bool,
    /// The position up to which it certainly has everything.
    pub position: &'a P,
}

impl<P> Default for Absence<P> {
    fn default() -> Self {
        Self { there: None, is_there: false, said: None }
    }
}

impl<P> Absence<P> {
    /// Records that it is in service and has everything up to `position`.
    pub fn is_there(&mut self, at: Duration, position: P) {
        let there = There { at, before: None, position };
        *self = Self { there: Some(there), is_there: true, said: None };
    }

    /// Records that an earlier run of the program saw it `before` ago. Ignored if this run has already seen it in service.
    pub fn was_there(&mut self, now: Duration, before: Duration, position: P) {
        if self.there.is_none() {
            self.there = Some(There { at: now, before: Some(before), position });
        }
    }

    /// Records that it is not in service.
    pub fn is_away(&mut self) {
        self.is_there = false;
    }

    /// Its position when it was last in service.
    pub fn last(&self) -> Option<&P> {
        self.there.as_ref().map(|there| &there.position)
    }

    /// The absence, if it is away and was seen in service before.
    pub fn away(&self, now: Duration) -> Option<Away<'_, P>> {
        let There { at, before, position } = self.there.as_ref().filter(|_| !self.is_there)?;
        let lasted = now.saturating_sub(*at) + before.unwrap_or_default();
        Some(Away { lasted, is_remembered: before.is_some(), position })
    }

    /// The warning that is due by this forecast. Each one is issued once in an absence, and none after a graver one.
    pub fn warning(&mut self, now: Duration, forecast: Forecast) -> Option<Warning> {
        let lasted = self.away(now)?.lasted;
        let due = match forecast {
            Forecast::FullCopy(_) => Warning::Over,
            Forecast::DependsOnSource(_) => Warning::Depends,
            // At most one fifth of the whole time is left.
            Forecast::Missed(Some(left)) if left.saturating_mul(4) <= lasted => Warning::Last,
            Forecast::Missed(Some(left)) if left <= lasted => Warning::Half,
            Forecast::Missed(_) => return None,
        };
        if self.said.is_some_and(|said| said >= due) {
            return None;
        }
        self.said = Some(due);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Reason;
    use super::*;

    const OVER: Forecast = Forecast::FullCopy(Reason::Gone);

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// A node that is away from second 100 on, with everything up to position 7.
    fn gone() -> Absence<u64> {
        let mut node = Absence::default();
        node.is_there(s(40), 5);
        node.is_there(s(100), 7);
        node.is_away();
        node
    }

    #[test]
    fn an_absence_begins_where_the_node_was_seen_last() {
        let away = gone();
        assert_eq!(away.away(s(160)), Some(Away { lasted: s(60), is_remembered: false, position: &7 }));
        let mut back = gone();
        back.is_there(s(170), 9);
        assert_eq!(back.away(s(180)), None);
        let mut never = Absence::<u64>::default();
        never.is_away();
        assert_eq!(never.away(s(180)), None, "nobody knows what it has");
        assert_eq!(never.warning(s(180), OVER), None);
    }

    #[test]
    fn an_absence_goes_on_from_what_an_earlier_run_saw() {
        let mut node = Absence::default();
        node.was_there(s(3), s(600), 7);
        node.is_away();
        assert_eq!(node.away(s(13)), Some(Away { lasted: s(610), is_remembered: true, position: &7 }));
        node.is_there(s(20), 8);
        node.was_there(s(21), s(600), 7);
        node.is_away();
        assert_eq!(node.away(s(30)), Some(Away { lasted: s(10), is_remembered: false, position: &8 }));
    }

    #[test]
    fn each_warning_is_said_once_in_an_absence() {
        let mut node = gone();
        // 100 s in all: half is gone at 150, four fifths at 180.
        let mut said = Vec::new();
        for now in 100..210 {
            let forecast = if now <= 200 { Forecast::Missed(Some(s(200 - now))) } else { OVER };
            said.extend(node.warning(s(now), forecast).map(|warning| (now, warning)));
        }
        assert_eq!(said, [(150, Warning::Half), (180, Warning::Last), (201, Warning::Over)]);
        // The next absence starts with no warning issued.
        node.is_there(s(300), 9);
        node.is_away();
        assert_eq!(node.warning(s(310), OVER), Some(Warning::Over));
    }

    #[test]
    fn a_rate_that_goes_up_and_down_repeats_nothing() {
        let mut node = gone();
        let forecast = |left| Forecast::Missed(Some(s(left)));
        assert_eq!(node.warning(s(110), forecast(2)), Some(Warning::Last));
        assert_eq!(node.warning(s(111), forecast(9000)), None);
        assert_eq!(node.warning(s(112), forecast(11)), None, "half, after the graver one");
        assert_eq!(node.warning(s(113), Forecast::Missed(None)), None);
        assert_eq!(node.warning(s(114), Forecast::DependsOnSource(None)), Some(Warning::Depends));
    }
}
