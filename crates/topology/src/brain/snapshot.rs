//! The snapshot for people: all that the brain knows.

use super::Brain;
use crate::election::elect;
use crate::finding::Serves;
use crate::time::Now;
use crate::view::{ClusterView, NodeView, Stuck, TrafficFlow};

impl Brain {
    // ---- for people

    /// A snapshot of all that is known at `now`. Calendar time, the journal and more advice are added by the shell.
    pub fn view(&self, now: Now) -> ClusterView {
        let core = &self.core;
        let ago = |at: Now| now.saturating_sub(at).as_millis() as u64;
        let nodes = (0..=u8::MAX)
            .zip(core.nodes.ids())
            .map(|(place, id)| (place, id, core.node(id)))
            .map(|(place, id, node)| NodeView {
                id,
                place,
                name: node.name.clone(),
                address: node.address.clone(),
                state: node.finding.state,
                reason: match &node.doubt {
                    Some(doubt) => format!("is being confirmed: {}", doubt.why),
                    None => node.finding.sentence.clone(),
                },
                serves: node.finding.serves,
                problem: (node.finding.serves != Serves::Well).then_some(node.finding.problem),
                doubt: node.doubt.as_ref().map(|doubt| doubt.why.clone()),
                others: node.others.clone(),
                since_ms: ago(node.since),
                lane: node.lane,
                epoch: node.epoch,
                links_gone: core.links_gone(id),
                sessions_max: node.sessions_max,
                has_temporary_drain: node.drained() && !node.drain_is_lasting,
                writer: core.writer == Some(id),
                priority: node.priority,
                linked: node.linked,
                reads: self.readers.view(core, id),
                misses: node.counts.misses,
                answered_ms_ago: node.answered_at.map(ago),
                advice: self.group.advice(core, id),
                stuck: node.pulse.waits(now).map(|(age, why)| Stuck { ms: age.as_millis() as u64, why }),
                facts: node.status.clone(),
            })
            .collect();
        ClusterView {
            cluster: core.settings.cluster.clone(),
            writers: core.settings.writers,
            term: core.term,
            version: core.version,
            writer: core.writer.map(|id| core.name(id).to_owned()),
            writer_changed_ms: core.writer_changed_at.map(|at| at.as_millis() as u64),
            candidate: self.candidate(),
            gate: if core.any_open() { TrafficFlow::Open } else { TrafficFlow::Held },
            hold_because: (!core.any_open()).then(|| core.hold.clone()),
            order: core.saving.as_ref().map(|saving| saving.running.what.clone()).or_else(|| self.doing()),
            bootstraps: self.group.bootstraps(),
            counts: core.counts,
            nodes,
            decisions: core.decisions.iter().cloned().collect(),
            now_ms: now.as_millis() as u64,
            started_unix_ms: 0,
        }
    }

    fn candidate(&self) -> Option<String> {
        let core = &self.core;
        let writer = core.writer?;
        elect(&core.nodes, None, |id| id != writer).map(|id| core.name(id).to_owned())
    }
}
