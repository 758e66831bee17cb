//! What is known of all nodes, for the forecast: from their views, their samples, and where those that are away were when they took part last.

use std::time::Duration;

use measure::recovery::WriteRate;
use topology::galera::GaleraStatus;
use topology::health::Problem;
use topology::kind::Kind;
use topology::status::Status;
use topology::view::{ClusterView, NodeState};

use super::seen::{At, Counted, Node, grown, gtids, history, is_fresh, keeps_of_others};
use super::{PRESENT, SYNCED, Source};
use crate::windows::{Cluster, Kept, Known, notes};

impl Source {
    /// All of it.
    pub(super) fn cluster(&self, view: &ClusterView, nodes: &[Node], busiest: Option<WriteRate>) -> Cluster {
        let now = Duration::from_millis(view.now_ms);
        let present = PRESENT.into_iter().find_map(|over| Some((over, self.rate(view, nodes, over)?)));
        let (over, writes) =
            present.unwrap_or((Duration::ZERO, WriteRate { bytes_per_s: 0.0, transactions_per_s: 0.0 }));
        let writesets = self.writesets(view, nodes);
        let known = nodes.iter().enumerate().map(|(place, node)| {
            let seen = &view.nodes[place];
            let away = node.absence.away(now);
            Known {
                name: seen.name.clone(),
                state: seen.state.word().to_owned(),
                is_there: self.is_there(view, place),
                is_unasked: seen.state == NodeState::Unknown || is_fresh(seen) && node.has_told_nothing(),
                lasted: away.as_ref().map(|away| away.lasted),
                is_remembered: away.as_ref().is_some_and(|away| away.is_remembered),
                why: format!(
                    "has not taken part since this program started, and no earlier run has seen it: what it has is not known; \
                     `understudy recovery forecast --position {}=...` goes by what its own files say",
                    seen.name
                ),
                kept: self.kept(view, nodes, place, away.map(|away| away.position), &writesets),
            }
        });
        Cluster {
            kind: self.kind,
            nodes: known.collect(),
            writes,
            measured: over,
            busiest,
            data_bytes: nodes.iter().filter_map(|node| node.keeps.as_ref()?.data_bytes).max(),
            copied_bytes_per_s: None,
            notes: notes(
                view.nodes
                    .iter()
                    .zip(nodes)
                    .filter_map(|(seen, node)| Some((seen.name.as_str(), node.keeps.as_ref()?))),
            ),
        }
    }

    /// What it has, and keeps for others. `at`: where it was when it went away; `writesets`: see [`Self::writesets`].
    fn kept(
        &self,
        view: &ClusterView,
        nodes: &[Node],
        place: usize,
        at: Option<&At>,
        writesets: &[Option<Counted>],
    ) -> Kept {
        let (node, seen, is_there) = (&nodes[place], &view.nodes[place], self.is_there(view, place));
        let keeps = node.keeps.as_ref().filter(|_| is_fresh(seen));
        match self.kind {
            Kind::Galera => {
                let said =
                    self.sample(view, place).and_then(|sample| sample.counters.galera).filter(|_| is_there);
                let seqno = match &said {
                    Some(said) => said.last_committed,
                    None => at.and_then(|at| at.seqno),
                };
                // Its last report, also when it does not answer any more: its files hold no position.
                let is_void =
                    seen.facts.as_ref().and_then(Status::galera).is_some_and(GaleraStatus::is_inconsistent);
                Kept::Galera {
                    position: if is_void {
                        Some(-1)
                    } else {
                        seqno.and_then(|seqno| i64::try_from(seqno).ok())
                    },
                    history: if is_there { history(seen) } else { at.and_then(|at| at.history.clone()) },
                    missed_bytes: at.and_then(|at| grown(&at.writesets, writesets)),
                    donor: said.and_then(|said| keeps.and_then(|_| node.donor(&said))),
                    // One of another component has the cluster's history, perhaps, and not what the cluster has written since.
                    may_donate: seen.problem != Some(Problem::TwoClusters)
                        && said.is_some_and(|said| said.local_state == Some(SYNCED)),
                }
            }
            Kind::Replication => {
                let written = nodes.iter().enumerate().map(|(source, node)| {
                    node.written.saturating_sub(
                        at.and_then(|at| at.written.get(source).copied()).unwrap_or(node.written),
                    )
                });
                Kept::Replication {
                    // One that answers and is not connected says itself up to where it has everything.
                    position: match is_fresh(seen) {
                        true => gtids(seen).cloned(),
                        false => at.and_then(|at| at.gtids.clone()),
                    },
                    binlogs: keeps.and_then(|keeps| keeps.binlogs.clone()).filter(|_| keeps_of_others(seen)),
                    is_primary: seen.writer,
                    missed_bytes: written.max().unwrap_or(0),
                }
            }
        }
    }
}
