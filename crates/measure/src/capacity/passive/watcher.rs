//! Derives from successive samples of a node the times in which it was certainly busy.
//!
//! Invariant: a time in which the node may have been idle, or in which something prevented it from applying (a lock, a stopped thread), is
//! not counted.

use super::bucket::{Busy, Series};
use super::estimate::Source;
use crate::sample::Sample;

/// Shorter queues occur in normal operation and do not begin a busy interval.
const QUEUE_BEGINS: u64 = 8;
/// Between samples further apart than this, in microseconds, the queue may have been empty and have grown again. Such an interval counts
/// only if everything applied in it had been waiting at its beginning.
const CLOSE_US: u64 = 100_000;
/// A busy interval seen in close samples is counted in parts of this length.
const STRETCH_US: u64 = 1_000_000;
/// A node that applies nothing for this long is prevented from applying.
const STILL_US: u64 = 60_000;
/// Samples further apart than this, in microseconds, allow no statement about the time between them.
const FAR_US: u64 = 5_000_000;
/// At most one part in this many of the node's commits may be its own writes, because those are not applied from the queue.
const OWN_PARTS: u64 = 10;

/// A node's counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Microseconds on a monotonic clock with an arbitrary origin.
    pub at_us: u64,
    /// Transactions applied or committed, a counter.
    pub applied: u64,
    /// Those of them that the node's own clients wrote, a counter.
    pub own: u64,
    /// Transactions received and not yet applied.
    pub queue: u64,
    /// How often the node requested a flow control pause, a counter.
    pub pauses_asked: u64,
    /// The node is requesting a pause now.
    pub is_asking: bool,
    /// Nothing is known that prevents the node from applying.
    pub may_apply: bool,
}

impl Look {
    /// Takes the counters from a sample; `None` when the server did not report all of them.
    pub fn of(sample: &Sample) -> Option<Self> {
        let at_us = sample.at_us;
        if let Some(galera) = &sample.counters.galera {
            return Some(Self {
                at_us,
                applied: galera.last_committed?,
                own: galera.replicated?,
                queue: galera.recv_queue?,
                pauses_asked: galera.flow_control_sent.unwrap_or(0),
                is_asking: galera.flow_control_requested.unwrap_or(false),
                // Joining: the node applies what its donor sends (IST), at the donor's speed.
                may_apply: galera.primary? && matches!(galera.local_state?, 2..=4),
            });
        }
        let replication = sample.counters.replication.as_ref()?;
        let applied = replication.applied?;
        Some(Self {
            at_us,
            applied,
            queue: replication.received?.saturating_sub(applied),
            may_apply: replication.sql_running?,
            ..Self::default()
        })
    }
}

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Watcher {
    last: Option<Look>,
    /// For samples close together: the present interval with a queue.
    close: Option<Stretch>,
    /// For samples further apart: the last busy interval. It counts only once another follows, because something that began in it may have
    /// prevented the node from applying.
    pending: Option<(Source, Busy)>,
    /// Nothing was applied in the previous interval although transactions waited. The cause may have lasted into this interval.
    was_stalled: bool,
}

impl Watcher {
    /// Processes a sample and adds busy times to `series`.
    pub fn look(&mut self, look: Look, series: &mut Series) {
        let Some(last) = self.last.replace(look) else { return };
        let us = look.at_us.saturating_sub(last.at_us);
        let applied = look.applied.checked_sub(last.applied);
        let own = look.own.checked_sub(last.own);
        let (Some(applied), Some(own), 1..=FAR_US) = (applied, own, us) else {
            // The server restarted, or no samples were taken for a while.
            (self.close, self.pending, self.was_stalled) = (None, None, false);
            return;
        };
        let is_writer = own > 0 && own >= applied / OWN_PARTS;
        let span = Busy { applied, us };
        series.note_rate(look.at_us, span, look.queue < QUEUE_BEGINS && !is_writer);
        let is_able = last.may_apply && look.may_apply && !is_writer;
        if us <= CLOSE_US {
            self.leave_far(&last, series);
            self.look_close(is_able, &last, &look, span, series);
        } else {
            if let Some(stretch) = self.close.take() {
                stretch.count(last.at_us, series);
            }
            self.look_far(is_able, &last, &look, span, series);
        }
    }

    fn look_close(&mut self, is_able: bool, last: &Look, look: &Look, span: Busy, series: &mut Series) {
        let begins = self.close.is_some() || last.queue >= QUEUE_BEGINS;
        if !is_able || !begins || look.queue == 0 {
            // The queue may have become empty before the end of this interval, which is therefore left out.
            if let Some(stretch) = self.close.take().filter(|_| is_able) {
                stretch.count(last.at_us, series);
            }
            return;
        }
        let stretch = self.close.get_or_insert_with(|| Stretch::begin(last.queue));
        stretch.take(span, look.queue);
        if stretch.all.us >= STRETCH_US {
            stretch.count(look.at_us, series);
            *stretch = Stretch::begin(look.queue);
        }
    }

    fn look_far(&mut self, is_able: bool, last: &Look, look: &Look, span: Busy, series: &mut Series) {
        let source = is_able.then(|| busy(last, look, span.applied)).flatten();
        let is_stalled = source.is_some() && span.applied == 0;
        if is_stalled {
            // What prevented the node from applying may have begun in the previous interval.
            self.pending = None;
        } else {
            self.leave_far(last, series);
            self.pending = source.filter(|_| !self.was_stalled).map(|source| (source, span));
        }
        self.was_stalled = is_stalled;
    }

    fn leave_far(&mut self, last: &Look, series: &mut Series) {
        if let Some((source, busy)) = self.pending.take() {
            series.note_busy(last.at_us, source, busy);
        }
    }
}

/// How it is known that the node was busy between two samples that are far apart.
fn busy(last: &Look, look: &Look, applied: u64) -> Option<Source> {
    let is_paced_by_it = look.is_asking || look.pauses_asked > last.pauses_asked;
    if is_paced_by_it && last.queue > 0 && look.queue > 0 {
        return Some(Source::FlowControl);
    }
    // Transactions are applied in the order of arrival: all of these were waiting at the beginning of the interval.
    (last.queue >= QUEUE_BEGINS && last.queue >= applied).then_some(Source::Backlog)
}

/// An interval with close samples that all show a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    all: Busy,
    /// The longest queue so far; after that sample the queue became shorter.
    queue_max: u64,
    /// Transactions applied since that sample.
    falling: Busy,
    is_at_max: bool,
    /// For how long nothing has been applied, and the longest such time, microseconds.
    still_us: u64,
    still_max_us: u64,
}

impl Stretch {
    fn begin(queue: u64) -> Self {
        Self { queue_max: queue, is_at_max: true, ..Self::default() }
    }

    fn take(&mut self, span: Busy, queue: u64) {
        self.all.add(span);
        self.still_us = if span.applied == 0 { self.still_us + span.us } else { 0 };
        self.still_max_us = self.still_max_us.max(self.still_us);
        if queue >= self.queue_max {
            (self.queue_max, self.falling, self.is_at_max) = (queue, Busy::default(), true);
        } else if self.is_at_max {
            // What prevented the node from applying may have ended in this interval.
            self.is_at_max = false;
        } else {
            self.falling.add(span);
        }
    }

    /// While the queue becomes shorter, nothing prevents the node from applying. While it grows, that is known only after a long interval
    /// without a pause.
    fn count(&self, at_us: u64, series: &mut Series) {
        let is_steady = self.all.us >= STRETCH_US && self.still_max_us < STILL_US;
        let busy = if is_steady { self.all } else { self.falling };
        if busy.us > 0 {
            series.note_busy(at_us, Source::Backlog, busy);
        }
    }
}
