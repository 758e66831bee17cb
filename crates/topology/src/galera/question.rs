//! Asks whether every member of the group still acknowledges what the group sends. This is the one question whose answer cannot be forged
//! by a firewall, a full connection queue or a blocked SQL layer, since it concerns the group's own port and not the clients' one.
//!
//! A causal read on any member answers it, if it makes the member send a message: with `evs.causal_keepalive_period` at its default, a
//! member that sent something within the last second answers from memory. Measured on MariaDB 10.11.19 / Galera 26.4.23 with three nodes,
//! one of them killed 3 ms before:
//!   - the default period, a causal read less than a second earlier: passes after 0.9 ms, and again after 31 ms. It proves nothing.
//!   - the period 0, which makes each causal read send a message of its own: hangs until the view changes, idle and under load.
//!   - the period 0, all alive: passes after 0.5 ms (idle), 2 to 3 ms (median under load), 87 ms (99th percentile, both processors full).
//!
//! A read may also be late because the asked member is behind with applying. Therefore what the group delivers is observed as well (a
//! delivery needs every member's acknowledgement, too), and a member that is still applying, or slow to answer, gets more time. Of 870
//! questions among living members, from idle to a load of 17 on two processors, one had a wrong result by the rule below without the part
//! about slow observations, which was added for it.
//!
//! Enters: what the asked member reports meanwhile. Leaves: an answer. The shell asks, and measures the time.

use std::time::Duration;

/// What was sent before the loss may still be delivered for this long.
const IN_FLIGHT: Duration = Duration::from_millis(30);
/// An observation may count a writeset twice, or not at all, when it passes from the queue to the applier meanwhile.
const DELIVERED_MIN: u64 = 2;
/// An observation that takes longer shows that the member, or this host, is slow.
const LOOK_PROMPT: Duration = Duration::from_millis(15);
/// The asked member has nothing left to apply when it has not committed for this long.
const QUIET: Duration = Duration::from_millis(60);
/// On slow networks, this many times the shortest delivery that the member reports is waited for.
const LATENCIES: u32 = 8;
/// That time is not trusted beyond this.
const PATIENCE_MAX: Duration = Duration::from_millis(400);
/// After this long the question is given up without an answer.
const GIVE_UP: Duration = Duration::from_millis(500);

/// What the asked member reports while the question is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// wsrep_cluster_conf_id.
    pub view: u64,
    /// Writesets that the group has delivered to it, whether applied or in its queue, and its own that were delivered.
    pub delivered: u64,
    /// Writesets in its receive queue.
    pub queued: u64,
    /// wsrep_last_committed.
    pub committed: u64,
    /// The shortest delivery that it measured recently (wsrep_evs_repl_latency); zero when there was none.
    pub latency_min: Duration,
}

impl Look {
    /// Reads the answer to [`super::sql::DELIVERED`]; `value` gives a value by its name.
    pub fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let number = |name: &str| value(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let queued = number("wsrep_local_recv_queue");
        // "min/avg/max/stddev/samples", in seconds.
        let latency = value("wsrep_evs_repl_latency").and_then(|text| text.split('/').next());
        let latency = latency.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        Self {
            view: number("wsrep_cluster_conf_id"),
            delivered: number("wsrep_received") + queued + number("wsrep_replicated"),
            queued,
            committed: number("wsrep_last_committed"),
            latency_min: Duration::try_from_secs_f64(latency).unwrap_or_default(),
        }
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Every member of the view has acknowledged something that was sent after the question: all of them live.
    Acknowledged,
    /// Some member does not acknowledge, and every commit of the group waits for it.
    Hangs,
    /// The view changed meanwhile: the suspected member may be out of it.
    Moved,
    /// The asked member is too slow for an answer.
    Unclear,
}

/// A question that is open.
#[derive(Clone, Debug)]
pub struct Question {
    patience: Duration,
    view: u64,
    /// The deliveries counted when nothing sent before the loss could be in flight any more.
    base: Option<u64>,
    committed: u64,
    /// When the asked member was last seen working, or slow.
    busy_at: Duration,
}

impl Question {
    /// Begins with an observation of the member just before it is asked. On a fast network, `patience` without an answer is enough.
    pub fn new(before: &Look, patience: Duration) -> Self {
        let slow = (before.latency_min * LATENCIES).min(PATIENCE_MAX);
        Self {
            patience: patience.max(slow),
            view: before.view,
            base: None,
            committed: before.committed,
            busy_at: Duration::ZERO,
        }
    }

    /// An observation of the member while the read is unanswered; `sent` and `came` count from the moment of the question. `None`: continue.
    pub fn look(&mut self, sent: Duration, came: Duration, look: &Look) -> Option<Answer> {
        if look.view != self.view {
            return Some(Answer::Moved);
        }
        if sent >= IN_FLIGHT {
            let base = *self.base.get_or_insert(look.delivered);
            if look.delivered >= base + DELIVERED_MIN {
                return Some(Answer::Acknowledged);
            }
        }
        let slow = came.saturating_sub(sent) > LOOK_PROMPT;
        if slow || look.queued > 0 || look.committed != self.committed {
            self.busy_at = came;
        }
        self.committed = look.committed;
        if came >= self.patience && came.saturating_sub(self.busy_at) >= QUIET.min(self.patience) {
            Some(Answer::Hangs)
        } else if came >= GIVE_UP {
            Some(Answer::Unclear)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Observes every 20 ms, for 1 ms each; `at` gives what is seen then. Returns the answer and its time in milliseconds.
    fn ask(patience: u32, at: impl Fn(u32) -> Look) -> (Answer, u32) {
        let mut question = Question::new(&at(0), patience * MS);
        let mut looks = (1..100).map(|number| number * 20);
        let ended = looks.find_map(|ms| Some((question.look(ms * MS, (ms + 1) * MS, &at(ms))?, ms)));
        ended.expect("every question ends")
    }

    #[test]
    fn a_group_that_stands_still_hangs_after_the_patience() {
        assert_eq!(ask(100, |_| Look::default()), (Answer::Hangs, 100));
        assert_eq!(ask(60, |_| Look::default()), (Answer::Hangs, 60));
        let far = |_| Look { latency_min: 30 * MS, ..Look::default() };
        assert_eq!(ask(100, far), (Answer::Hangs, 240));
    }

    #[test]
    fn what_the_group_delivers_is_acknowledged_by_all() {
        let steady = |ms| Look { delivered: u64::from(ms), ..Look::default() };
        assert_eq!(ask(100, steady), (Answer::Acknowledged, 60));
        // What was in flight at the loss does not count.
        let last = |ms: u32| Look { delivered: u64::from(ms.min(25)), ..Look::default() };
        assert_eq!(ask(100, last), (Answer::Hangs, 100));
        // Nor does one writeset between queue and applier.
        let trembling = |ms: u32| Look { delivered: u64::from(ms / 20 % 2), ..Look::default() };
        assert_eq!(ask(100, trembling), (Answer::Hangs, 100));
    }

    #[test]
    fn a_member_that_is_behind_gets_more_time() {
        let behind = |ms: u32| Look { committed: u64::from(ms.min(200)), queued: 0, ..Look::default() };
        assert_eq!(ask(100, behind), (Answer::Hangs, 260));
        let never_done = |_| Look { queued: 3, ..Look::default() };
        assert_eq!(ask(100, never_done), (Answer::Unclear, 500));
        let mut question = Question::new(&Look::default(), 100 * MS);
        assert_eq!(question.look(20 * MS, 200 * MS, &Look::default()), None, "a slow look is no silence");
    }

    #[test]
    fn another_view_is_another_question() {
        let changed = |ms| Look { view: if ms < 40 { 3 } else { 4 }, ..Look::default() };
        assert_eq!(ask(100, changed), (Answer::Moved, 40));
    }

    #[test]
    fn what_a_member_says_is_read() {
        let said = [
            ("wsrep_received", "10"),
            ("wsrep_replicated", "5"),
            ("wsrep_local_recv_queue", "2"),
            ("wsrep_cluster_conf_id", "7"),
            ("wsrep_last_committed", "99"),
            ("wsrep_evs_repl_latency", "0.000111126/0.00291491/1.00077/0.0439134/518"),
        ];
        let look = Look::read(|name| said.iter().find(|(known, _)| *known == name).map(|(_, value)| *value));
        let latency_min = Duration::from_nanos(111_126);
        assert_eq!(look, Look { view: 7, delivered: 17, queued: 2, committed: 99, latency_min });
        assert_eq!(Look::read(|_| None), Look::default());
    }
}
