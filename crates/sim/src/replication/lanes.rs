//! The proxy's lanes to the servers of the model: open, draining, shut and cut.

use std::sync::Arc;
use std::time::Duration;

use topology::fact::ProxyFact;
use topology::routes::{LaneState, Routes};
use topology::{NodeId, Origin};

use super::world::{MS, World};

impl World {
    pub fn epoch(&self, node: usize) -> u64 {
        let lane = self.routes.as_ref().and_then(|routes| routes.lane(NodeId(node as u8)));
        lane.map_or(u64::MAX, |lane| lane.epoch)
    }

    /// The lane that is open.
    pub fn open(&self) -> Option<usize> {
        let routes = self.routes.as_ref()?;
        routes.open().next().map(|lane| usize::from(lane.node.0))
    }

    pub fn publish(&mut self, routes: Arc<Routes>) -> Option<String> {
        let open: Vec<&str> = routes.open().map(|lane| &*lane.name).collect();
        assert!(open.len() <= 1, "two lanes are open: {open:?}");
        let ours = if self.has_proxy { &[][..] } else { &routes.lanes };
        for lane in ours {
            let known = self.routes.as_ref().and_then(|old| old.lane(lane.node)).cloned();
            let before = known.as_ref().map_or(0, |old| old.epoch);
            if lane.epoch > before {
                self.shut(lane.node, lane.epoch - 1, known.is_some_and(|old| old.state != LaneState::Shut));
            }
            if lane.state == LaneState::Draining {
                let (process, node, epoch) = (self.process, usize::from(lane.node.0), lane.epoch);
                let delay = self.delay(0, 60);
                self.later(delay, move |world| world.quiet(process, node, epoch));
            }
        }
        let state = |state| match state {
            LaneState::Open => "open",
            LaneState::Draining => "draining",
            LaneState::Shut => "shut",
        };
        let lanes: Vec<String> =
            routes.lanes.iter().map(|lane| format!("{}:{}", lane.name, state(lane.state))).collect();
        let lanes = format!("lanes {}, term {}", lanes.join(" "), routes.term);
        let open_before = self.open();
        self.routes = Some(routes);
        if let Some(open) = self.open().filter(|open| self.accounts_first && open_before != Some(*open)) {
            let is_sent = self.commit(open, true);
            self.servers[open].of_accounts = Some(self.uid).filter(|_| is_sent);
        }
        let is_news = lanes != self.lanes;
        self.lanes.clone_from(&lanes);
        if is_news {
            self.demand_one_writer();
            if let Some(open) = self.open() {
                self.demand_price(open);
            }
        }
        is_news.then_some(lanes)
    }

    /// What a door beside this model tells, which comes at `at`; facts that come at one time come in the order in which they were told.
    pub fn proxy_tells(&mut self, at: Duration, fact: ProxyFact) {
        let process = self.process;
        self.later(at.saturating_sub(self.now), move |world| {
            if process == world.process {
                if let ProxyFact::Cut { node, epoch } = &fact {
                    let below = &mut world.cut_below[usize::from(node.0)];
                    *below = (*below).max(epoch + 1);
                }
                world.tell(fact.by(Origin(0)));
            }
        });
    }

    /// The links of a lane are cut; what was in transit may arrive until that is certain.
    pub fn shut(&mut self, id: NodeId, epoch: u64, was_used: bool) {
        let (process, node) = (self.process, usize::from(id.0));
        if node >= self.servers.len() {
            // One that was added and removed: there are no connections to it.
            self.tell_later(Duration::ZERO, ProxyFact::Cut { node: id, epoch }.by(Origin(0)));
            return;
        }
        let gone = self.delay(0, 40);
        if was_used && self.chance(30) {
            let lands = gone / 2;
            self.later(lands, move |world| {
                world.commit(node, false);
            });
        }
        self.later(gone, move |world| {
            if process == world.process {
                world.cut_below[node] = world.cut_below[node].max(epoch + 1);
                world.tell(ProxyFact::Cut { node: id, epoch }.by(Origin(0)));
            }
        });
    }

    /// Nothing runs on a draining lane any more, unless a commit waits or a client takes its time.
    pub fn quiet(&mut self, process: u64, node: usize, epoch: u64) {
        let Some(routes) = self.routes.clone().filter(|_| process == self.process) else { return };
        let is_draining =
            |lane: &&topology::routes::Lane| lane.state == LaneState::Draining && lane.epoch == epoch;
        let id = NodeId(node as u8);
        let Some(lane) = routes.lane(id).filter(is_draining) else { return };
        let waits = self.waiting.iter().any(|commit| commit.server == node && commit.epoch == lane.epoch);
        if self.busy || waits {
            self.later(MS * 20, move |world| world.quiet(process, node, epoch));
            return;
        }
        self.tell(
            ProxyFact::Quiesced { node: id, epoch, term: routes.term, version: routes.version }.by(Origin(0)),
        );
    }
}
