//! Alarms: what client traffic met on one lane (a connection that broke, an error about the node), numbered by the proxy. The node's status
//! that was asked for later answers an alarm; sessions wait for that answer.

use std::collections::VecDeque;

use crate::time::Now;

/// Alarms kept apart; further ones count as one with the last.
const ALARMS_MAX: usize = 64;

/// The alarms of one lane in its present epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alarms {
    /// Those without an answer yet, and when each came in.
    open: VecDeque<(u64, Now)>,
    /// The highest alarm to which the node has answered that it serves: the session may go on there.
    pub looked: u64,
    /// The highest alarm to which the node has answered that it does not serve: the session's statement has to wait.
    pub refused: u64,
}

impl Alarms {
    /// Alarm number `alarm` came in at `now`.
    pub fn raised(&mut self, alarm: u64, now: Now) {
        let newest = self.open.back().map_or(self.looked.max(self.refused), |(newest, _)| *newest);
        if alarm <= newest {
            return;
        }
        if self.open.len() == ALARMS_MAX {
            self.open.pop_back();
        }
        self.open.push_back((alarm, now));
    }

    /// The node has answered a status query that was sent at `asked`, and `serves` or not: that answers every alarm that came in before.
    pub fn answered(&mut self, asked: Now, serves: bool) {
        while let Some((alarm, heard)) = self.open.front().copied()
            && heard < asked
        {
            *(if serves { &mut self.looked } else { &mut self.refused }) = alarm;
            self.open.pop_front();
        }
    }

    /// At least one has no answer yet.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn an_alarm_is_answered_by_what_was_asked_later() {
        let mut alarms = Alarms::default();
        alarms.raised(1, 10 * MS);
        alarms.raised(0, 10 * MS);
        alarms.answered(10 * MS, true);
        assert_eq!((alarms.looked, alarms.open.len()), (0, 1));
        alarms.answered(11 * MS, true);
        assert_eq!((alarms.looked, alarms.open.len()), (1, 0));
        for alarm in 2..200 {
            alarms.raised(alarm, (u32::try_from(alarm).unwrap() + 20) * MS);
        }
        assert_eq!(alarms.open.len(), ALARMS_MAX);
        alarms.answered(30 * MS, true);
        assert_eq!(alarms.looked, 9);
        alarms.answered(300 * MS, true);
        assert_eq!((alarms.looked, alarms.open.len()), (199, 0));
        alarms.raised(200, 400 * MS);
        alarms.answered(401 * MS, false);
        assert_eq!((alarms.looked, alarms.refused, alarms.open.len()), (199, 200, 0));
        alarms.raised(200, 402 * MS);
        assert!(!alarms.is_open(), "it was answered");
    }
}
