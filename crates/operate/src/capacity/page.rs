//! What a run came to, as text for people and as JSON.

use std::fmt::Write;

use measure::capacity::procedure::{Failure as Why, HoldEnd, Order, Plan, Procedure};
use measure::capacity::reading::Reading;
use measure::capacity::result::{Capacity, Counted, Elsewhere};
use serde_json::{Value, json};
use topology::kind::Kind;

use super::servers::Site;
use super::sql;
use report::table::span;
use report::words::{number, percent};

/// Below this share of the catching up, its end is known well enough.
const RESOLUTION_MAX: f64 = 0.05;

/// A run that came to a result.
pub struct Measured<'a> {
    /// Who was measured.
    pub site: &'a Site,
    /// The node's version.
    pub version: &'a str,
    /// How it went.
    pub procedure: &'a Procedure,
    /// What was counted.
    pub counted: Counted,
    /// What follows from it.
    pub capacity: Capacity,
}

fn ms(time: std::time::Duration) -> u64 {
    time.as_millis() as u64
}

/// What a run would do, in its order. `out` and `back`: how the node is taken out of traffic, and given back.
pub fn steps(plan: &Plan, (out, back): (String, Option<String>)) -> Vec<String> {
    let caught_up = format!("until it has caught up, for at most {} s", plan.catch_up_max.as_secs());
    let (stop, resume) = match plan.kind {
        Kind::Galera => (
            vec![topology::galera::sql::desync(true), sql::LOCK.to_owned()],
            vec![sql::UNLOCK.to_owned(), caught_up, topology::galera::sql::desync(false)],
        ),
        Kind::Replication => {
            (vec![sql::STOP_APPLYING.to_owned()], vec![sql::START_APPLYING.to_owned(), caught_up])
        }
    };
    let held = format!(
        "held for {} s; less, when {} MiB or {} transactions wait on the node",
        plan.hold.as_secs(),
        plan.backlog_bytes_max >> 20,
        plan.backlog_max
    );
    let mut steps = vec![
        "this would be done, and nothing was changed:".to_owned(),
        out,
        format!("the usual rate is looked at for {} s", plan.baseline.as_secs()),
    ];
    steps.extend(stop);
    steps.push(held);
    steps.extend(resume);
    steps.extend(back);
    steps
}

impl Measured<'_> {
    /// A few lines.
    pub fn text(&self) -> String {
        let (counted, capacity, record) = (&self.counted, &self.capacity, self.procedure.record());
        let name = &self.site.node.name;
        let mut out = format!(
            "{name} can apply {} transactions a second: {} in {}\n",
            number(capacity.apply_per_s),
            number(counted.applied as f64),
            span(ms(counted.catch_up)),
        );
        let mut line = |text: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {text}");
        };
        line(format!(
            "usual rate      {} a second over {}: {} of that",
            number(capacity.baseline_per_s),
            span(ms(counted.baseline)),
            percent(capacity.baseline_share)
        ));
        line(format!(
            "meanwhile       {} a second over {}: {} of that",
            number(capacity.arrival_per_s),
            span(ms(counted.held + counted.catch_up)),
            percent(capacity.arrival_share)
        ));
        let ended = match self.procedure.hold_end() {
            Some(HoldEnd::BacklogBytes) => ", ended early: as many bytes had come as may wait",
            Some(HoldEnd::Backlog) => ", ended early: the queue was as long as it may be",
            Some(HoldEnd::FlowControl) => ", ended early: flow control was seen",
            Some(HoldEnd::OtherLost) => ", ended early: another server did not answer any more",
            Some(HoldEnd::WriterWaits) => ", ended early: a client of the node waited to write",
            Some(HoldEnd::Time) | None => "",
        };
        let peak = record
            .peak_per_s()
            .map_or_else(String::new, |rate| format!(", at its fastest {} a second", number(rate)));
        line(format!(
            "held            {}{ended}; the queue grew to {}{peak}",
            span(ms(counted.held)),
            number(record.queue_max() as f64)
        ));
        if let Some(elsewhere) = record.elsewhere() {
            let felt = match (self.site.kind, elsewhere.paused.is_zero()) {
                (Kind::Replication, _) => String::new(),
                (Kind::Galera, true) => "; flow control stopped nobody".to_owned(),
                (Kind::Galera, false) => {
                    let long = span(ms(elsewhere.paused));
                    format!("; FLOW CONTROL STOPPED WRITES FOR {long}{}", self.asked_by(&elsewhere))
                }
            };
            line(format!(
                "the others      {} commits a second before, {} meanwhile{felt}",
                number(elsewhere.before_per_s),
                number(elsewhere.during_per_s)
            ));
        }
        if let Some(resolution) = record.resolution().filter(|share| *share > RESOLUTION_MAX) {
            line(format!(
                "only roughly    the queue was empty too soon to time it: +- {}; hold longer (--hold-s)",
                percent(resolution)
            ));
        }
        out
    }

    /// Who asked for the pauses of flow control, where that is known: the names of the nodes.
    fn askers(&self, elsewhere: &Elsewhere) -> Vec<&str> {
        let others = elsewhere.askers.iter().filter_map(|&place| self.site.others.get(place));
        let own = elsewhere.is_asker.then_some(&self.site.node);
        others.chain(own).map(|member| &*member.name).collect()
    }

    fn asked_by(&self, elsewhere: &Elsewhere) -> String {
        let (names, node) = (self.askers(elsewhere).join(" and "), &self.site.node.name);
        match (names.is_empty(), elsewhere.is_asker) {
            (true, _) => String::new(),
            (false, true) => format!(": {names} asked for it"),
            (false, false) => format!(": {names} asked for it, not {node}"),
        }
    }

    /// Everything.
    pub fn json(&self) -> Value {
        let (counted, capacity, record) = (&self.counted, &self.capacity, self.procedure.record());
        let hold_end = self.procedure.hold_end().map(|end| match end {
            HoldEnd::Time => "time",
            HoldEnd::BacklogBytes => "backlog_bytes",
            HoldEnd::Backlog => "backlog",
            HoldEnd::FlowControl => "flow_control",
            HoldEnd::OtherLost => "other_lost",
            HoldEnd::WriterWaits => "writer_waits",
        });
        let marks = &record.marks;
        let at = |index: Option<usize>| {
            index.and_then(|index| record.readings.get(index)).map(|reading| ms(reading.at))
        };
        json!({
            "node": self.site.node.name,
            "address": self.site.node.address,
            "version": self.version,
            "kind": self.site.kind,
            "apply_per_s": capacity.apply_per_s,
            "baseline_per_s": capacity.baseline_per_s,
            "baseline_share": capacity.baseline_share,
            "arrival_per_s": capacity.arrival_per_s,
            "arrival_share": capacity.arrival_share,
            "peak_per_s": record.peak_per_s(),
            "resolution_share": record.resolution(),
            "baseline_transactions": counted.baseline_applied,
            "baseline_ms": ms(counted.baseline),
            "held_ms": ms(counted.held),
            "hold_end": hold_end,
            "applied_transactions": counted.applied,
            "catch_up_ms": ms(counted.catch_up),
            "queue_max": record.queue_max(),
            "others": record.elsewhere().map(|elsewhere| json!({
                "before_per_s": elsewhere.before_per_s,
                "during_per_s": elsewhere.during_per_s,
                "flow_control_paused_ms": elsewhere.paused.as_secs_f64() * 1000.0,
                "flow_control_asked_by": self.askers(&elsewhere),
            })),
            "moments_ms": {
                "held": marks.held.map(|(_, at)| ms(at)),
                "resumed": marks.resumed.map(|(_, at)| ms(at)),
                "empty": at(marks.empty),
            },
            "readings": record.readings.iter().map(reading).collect::<Vec<_>>(),
        })
    }
}

fn reading(reading: &Reading) -> Value {
    json!({
        "at_ms": ms(reading.at),
        "applied": reading.node.applied,
        "queue": reading.node.queue,
        "committed_elsewhere": reading.committed_elsewhere(),
    })
}

/// Why there is no result, as a sentence.
pub fn failure(site: &Site, why: &Why) -> String {
    let name = &site.node.name;
    match why {
        Why::NoRoom { expected_bytes, max_bytes } => format!(
            "{name} would gather {:.1} MiB while it is held, and {:.1} may wait there: hold it shorter (--hold-s), or allow more (--backlog-mb) {}",
            *expected_bytes as f64 / 1_048_576.0,
            *max_bytes as f64 / 1_048_576.0,
            if site.kind == Kind::Galera {
                "where gcache has room, up to what gcs.recv_q_soft_limit lets its receive queue hold"
            } else {
                "where its disk and relay_log_space_limit have room"
            }
        ),
        Why::NoWrites => {
            format!("nothing was written to the cluster, so {name} would have nothing to catch up with")
        }
        Why::Written { transactions } => format!(
            "clients write on {name} itself ({} transactions while the usual rate was looked at), and would wait while it is held: measure a node that \
             is not written to",
            number(*transactions as f64)
        ),
        Why::Burden(what) => format!("{name} gave no figure: {what}"),
        Why::TooSlow { queue } => format!(
            "{name} had not caught up when the time for that was over (--catch-up-max-s): {} transactions were left in its queue",
            number(*queue as f64)
        ),
        Why::Order(order, why) => format!("{order} failed: {why}"),
        Why::State(what) => format!("{name}: {what}"),
        Why::Lost(why) => format!("{name} was lost from sight: {why}"),
        Why::Interrupted(by) => format!("ended by {by}"),
    }
}

/// What could not be undone from here, and what does it now.
pub fn left(site: &Site, order: Order, why: &str, is_guarded: bool) -> String {
    let name = &site.node.name;
    let by_itself = match (is_guarded, order) {
        (true, Order::Resync) => "its server does it by itself when its queue is short; if not: ",
        (true, _) => "its server does it by itself; if not: ",
        (false, _) => "",
    };
    let by_hand = match (order, site.kind) {
        (Order::Resume, Kind::Galera) => "end the session that holds the lock".to_owned(),
        (Order::Resume, Kind::Replication) => "START SLAVE SQL_THREAD".to_owned(),
        (Order::Resync, _) => "SET GLOBAL wsrep_desync = OFF".to_owned(),
        _ => format!("`understudy undrain {name}`"),
    };
    let by_itself =
        if order == Order::PutBack { "it is tried for ten minutes; if that fails: " } else { by_itself };
    format!("{name}: {order} was not done ({why}); {by_itself}{by_hand}")
}
