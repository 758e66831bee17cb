//! A primary that this process found dead, while a replica is still connected to it: what the primary sent before its end may still be on its way.
//!
//! ```text
//!   dead ──> a replica is connected to it ── not any more ───────────────────────────────> it has all that it will get
//!                      └ still, after a second ──> made to reconnect ── fails ───────────> the same
//!                                                            └ connected ──> the primary lives: nothing is moved
//! ```
//!
//! A server that ends refuses connections before it stops sending to its replicas, and a replica on a busy machine reads late. If a
//! successor were chosen before, it would lack what the other replica receives a moment later. That replica could then not follow it, and
//! with semi-synchronous replication no commit would be acknowledged. Invariant: no successor is chosen while another replica may still
//! receive from a dead primary.

use std::time::Duration;

use super::reconnect_test::RECEIVES_FOR;
use super::reports::{channel_to, is_connected};
use super::state::{ReconnectTest, Replication};
use crate::NodeId;
use crate::core::Core;
use crate::finding::NodeState;
use crate::group::Heir;
use crate::time::Now;

/// A replica may take this long to notice the end of its connection, before it is made to reconnect.
const SEES_THE_END_WITHIN: Duration = Duration::from_secs(1);

impl Replication {
    /// Why no successor can be chosen yet, or at all.
    pub(super) fn still_receiving(&mut self, core: &mut Core, lost: NodeId) -> Option<Heir> {
        if core.node(lost).finding.state != NodeState::Dead || core.settings.replication.dry_run {
            return None;
        }
        let since = self.lost_since.unwrap_or_default();
        for id in core.nodes.ids().filter(|id| *id != lost).collect::<Vec<_>>() {
            if !self.may_receive(core, id, lost) {
                continue;
            }
            let (name, primary) = (core.name(id), core.node(lost));
            let reason = format!("{} {}", primary.name, primary.finding.sentence);
            match &self.server(id).reconnect_test {
                ReconnectTest::Receives(at) if *at > since && core.now.saturating_sub(*at) < RECEIVES_FOR => {
                    let why = format!(
                        "{reason}, but {name} still receives from it: it lives, and nothing is moved"
                    );
                    return Some(Heir::Stay { why, serves: false });
                }
                ReconnectTest::Failed { again, why } if core.now < *again => {
                    let why = format!(
                        "{reason}, but {name} receives from it as far as it knows, and could not be asked ({why}): nothing is moved"
                    );
                    return Some(Heir::Stay { why, serves: false });
                }
                _ => {}
            }
            let wait = format!("{reason}: {name} still receives what it sent");
            let is_late = core.now.saturating_sub(since) >= SEES_THE_END_WITHIN;
            // Only a replica whose SQL thread runs is made to reconnect: MariaDB deletes what the others have received.
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

    /// Whether it was connected to the lost primary in its last report, and no test has shown otherwise since.
    fn may_receive(&self, core: &Core, id: NodeId, lost: NodeId) -> bool {
        let has_lost = |at: Now| !core.node(id).answered_since(at);
        let is_silent = channel_to(core, id, lost).is_some_and(|channel| channel.is_silent);
        is_connected(core, id, lost)
            && !is_silent
            && self.server(id).errant.is_none()
            && !core.node(id).is_renumbered
            && !matches!(&self.server(id).reconnect_test, ReconnectTest::Lost(at) if has_lost(*at))
    }
}
