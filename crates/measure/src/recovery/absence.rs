//! Who is away, since when, and what is said about it before it is too late: once at half of the time that the node may be away, once in its
//! last fifth, and once when it is over.
//!
//! Enters: for each look at a node, whether it takes part in the cluster, and the forecast for it. Leaves: for how long it has been away, from
//! where on it misses transactions, and a warning that is due. No clock of its own: a moment is a time since a beginning that all looks share.

use std::time::Duration;

use super::Forecast;

/// What is left of the time that a node may be away, when it is worth a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    /// Half of it has gone.
    Half,
    /// Four fifths of it have gone.
    Last,
    /// Some of the servers that it could follow have not all any more that it missed.
    Depends,
    /// It is over: it needs a full copy.
    Over,
}

/// One node, looked at again and again.
#[derive(Clone, Debug)]
pub struct Absence<P> {
    /// When it took part last, and up to where it had everything then.
    there: Option<There<P>>,
    is_there: bool,
    /// The gravest of what was said about its absence.
    said: Option<Warning>,
}

#[derive(Clone, Debug)]
struct There<P> {
    at: Duration,
    /// For so long it was not seen before that, by another program's word.
    before: Option<Duration>,
    position: P,
}

/// An absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away<'a, P> {
    /// For so long. It was not seen to go when [`Away::is_remembered`]: then it is for so long at the most.
    pub lasted: Duration,
    /// By what an earlier run of the program saw last, and not by this one.
    pub is_remembered: bool,
    /// Up to where it certainly has everything.
    pub position: &'a P,
}

impl<P> Default for Absence<P> {
    fn default() -> Self {
        Self { there: None, is_there: false, said: None }
    }
}

impl<P> Absence<P> {
    /// It takes part, and has everything up to `position`.
    pub fn is_there(&mut self, at: Duration, position: P) {
        let there = There { at, before: None, position };
        *self = Self { there: Some(there), is_there: true, said: None };
    }

    /// It took part so long ago, as an earlier run of the program saw it; for one that this run has not yet seen.
    pub fn was_there(&mut self, now: Duration, before: Duration, position: P) {
        if self.there.is_none() {
            self.there = Some(There { at: now, before: Some(before), position });
        }
    }

    /// It does not take part.
    pub fn is_away(&mut self) {
        self.is_there = false;
    }

    /// Up to where it had everything when it took part last.
    pub fn last(&self) -> Option<&P> {
        self.there.as_ref().map(|there| &there.position)
    }

    /// The absence, when it is away and was seen to take part before.
    pub fn away(&self, now: Duration) -> Option<Away<'_, P>> {
        let There { at, before, position } = self.there.as_ref().filter(|_| !self.is_there)?;
        let lasted = now.saturating_sub(*at) + before.unwrap_or_default();
        Some(Away { lasted, is_remembered: before.is_some(), position })
    }

    /// The warning that is due by this forecast, each once in an absence, and none after a graver one.
    pub fn warning(&mut self, now: Duration, forecast: Forecast) -> Option<Warning> {
        let lasted = self.away(now)?.lasted;
        let due = match forecast {
            Forecast::FullCopy(_) => Warning::Over,
            Forecast::DependsOnSource(_) => Warning::Depends,
            // In five parts of the whole time, one is left at the most.
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

    /// Away from second 100 on; it had everything up to 7.
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
        // The next absence begins anew.
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
