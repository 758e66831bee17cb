//! A primary that is dead to us, and a replica that is still connected to it: what it sent before its end may be on its way.
//!
//! ```text
//!   dead ──> a replica is connected to it ── not any more ───────────────────────────────> it has all that it will get
//!                      └ still, after a second ──> asked to connect anew ── fails ───────> the same
//!                                                            └ connected ──> the primary lives: nothing is moved
//! ```
//!
//! A server that ends refuses connections before it stops sending to its replicas, and a replica that has little of its processor reads late.
//! Whoever is chosen before would lack what the other gets a moment later; that one could not follow any more, and with semi-synchronous
//! replication no commit would be acknowledged. Invariant: nobody is chosen while another replica may get more from a dead primary.

use std::time::Duration;

use super::Replication;
use super::reconnect_test::{Asked, RECEIVES_FOR};
use super::sight::channel_to;
use crate::NodeId;
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::finding::NodeState;
use crate::group::Heir;

/// So long a replica may take to see the end of its connection, before it is made to connect anew.
const SEES_THE_END_WITHIN: Duration = Duration::from_secs(1);

impl Replication {
    /// Why nobody can be chosen yet, or at all.
    pub(super) fn still_receiving(&mut self, core: &mut Core, lost: NodeId) -> Option<Heir> {
        if core.node(lost).assessment.state != NodeState::Dead || core.settings.replication.dry_run {
            return None;
        }
        let since = self.lost_since.unwrap_or_default();
        for id in ids(&core.nodes).filter(|id| *id != lost).collect::<Vec<_>>() {
            if !self.may_receive(core, id, lost) {
                continue;
            }
            let (name, primary) = (core.name(id), core.node(lost));
            let reason = format!("{} {}", primary.name, primary.assessment.reason);
            match &self.server(id).reconnect_test {
                Asked::Receives(at) if *at > since && core.now.saturating_sub(*at) < RECEIVES_FOR => {
                    let why = format!(
                        "{reason}, but {name} still receives from it: it lives, and nothing is moved"
                    );
                    return Some(Heir::Stay { why, serves: false });
                }
                Asked::Failed { again, why } if core.now < *again => {
                    let why = format!(
                        "{reason}, but {name} receives from it as far as it knows, and could not be asked ({why}): nothing is moved"
                    );
                    return Some(Heir::Stay { why, serves: false });
                }
                _ => {}
            }
            let wait = format!("{reason}: {name} still receives what it sent");
            let is_late = core.now.saturating_sub(since) >= SEES_THE_END_WITHIN;
            // Only one that applies is made to connect anew: MariaDB throws away what the others have received.
            let applies = channel_to(core, id, lost).is_some_and(|channel| channel.sql_running);
            if is_late && applies && !self.is_ordered(core, id) {
                let within = core.settings.probe_interval * core.settings.misses_max;
                self.ask_to_connect(core, id, lost, within);
            } else {
                core.ask_probe(id);
            }
            return Some(Heir::Soon(wait));
        }
        None
    }

    /// By its last word it is connected to it; and it was not found to have lost it since.
    fn may_receive(&self, core: &Core, id: NodeId, lost: NodeId) -> bool {
        let has_lost = |at: Now| !core.node(id).answered_since(at);
        channel_to(core, id, lost).is_some_and(|channel| channel.io_running)
            && self.server(id).errant.is_none()
            && !matches!(&self.server(id).reconnect_test, Asked::Lost(at) if has_lost(*at))
    }
}
