//! The invariants that must hold at every moment, whatever goes wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use topology::Term;
use topology::routes::LaneState;

use super::world::World;

impl World {
    /// By an order of `process`. One that was on its way when everything on disk was lost has a term of before: terms begin anew then.
    pub fn became_writable(&mut self, node: usize, term: Term, process: u64) {
        if process > self.forgotten_up_to {
            let before = *self.made_writable.entry(term).or_insert(node);
            let names = &self.names;
            assert_eq!(
                names[before],
                names[node],
                "two servers were made writable in term {term}:\n{}",
                self.tail()
            );
        }
        assert_eq!(
            self.servers[node].delay_s,
            0,
            "a server that is kept behind was promoted:\n{}",
            self.tail()
        );
        self.demand_one_writer_beside(node);
        self.demand_nobody_has_more(node);
    }

    /// No replica that could be asked for a while has something that the new primary has not, or is about to get it from one that ended,
    /// since it could then not follow. (What an old primary that comes back meanwhile may send: see `simulation::come_back`.)
    fn demand_nobody_has_more(&self, node: usize) {
        let has: BTreeSet<u64> = self.servers[node].applied.iter().map(|it| it.uid).collect();
        for (number, server) in self.servers.iter().enumerate().filter(|(number, _)| *number != node) {
            let was_reached = self.could_be_reached(number);
            let has_ended = server.source.is_some_and(|source| !self.servers[source].up);
            let counts = self.semi_sync && has_ended && server.up && !server.frozen;
            let is_its_own = server.has_written || server.delay_s > 0;
            let more = server.received.iter().chain(&server.on_the_way).find(|it| !has.contains(&it.uid));
            assert!(
                !(counts && !is_its_own && was_reached && self.reaches(None, number) && more.is_some()),
                "{} has, or gets, {more:?}, which {} has not:\n{}",
                self.names[number],
                self.names[node],
                self.tail()
            );
        }
    }

    /// No statement of a client can run there any more.
    pub fn demand_not_served(&self, node: usize) {
        let lane = self.routes.as_ref().and_then(|routes| routes.lanes.get(node));
        let is_cut =
            lane.is_some_and(|lane| self.cut_below[node] >= lane.epoch && lane.state == LaneState::Shut);
        let name = &self.names[node];
        assert!(is_cut || !self.is_gentle, "{name} is made read only while it is served:\n{}", self.tail());
    }

    /// For a while this process has run, and nothing was between it and the server.
    fn could_be_reached(&self, number: usize) -> bool {
        let since = self.reachable_since[number].max(self.stalled_until);
        self.now.saturating_sub(since) > Duration::from_secs(3)
    }

    /// No other server that could have been reached for a while is writable. One that hangs in its commits cannot be made read only.
    fn demand_one_writer_beside(&self, node: usize) {
        for (number, server) in self.servers.iter().enumerate() {
            let was_reached = self.could_be_reached(number);
            let commits = server.up && !server.frozen && server.stuck.is_none();
            let is_writer = number != node && commits && !server.read_only;
            assert!(
                !(is_writer && was_reached && self.reaches(None, number)),
                "{} and {} are writable at {:?}:\n{}",
                self.names[number],
                self.names[node],
                self.now,
                self.tail()
            );
        }
    }

    pub fn demand_one_writer(&self) {
        let Some(open) = self.open() else { return };
        self.demand_one_writer_beside(open);
        if self.semi_sync {
            let lost = self.lacks(open);
            assert!(
                lost.is_empty(),
                "{} lacks what was acknowledged: {lost:?}\n{}",
                self.names[open],
                self.tail()
            );
        }
    }

    /// What was acknowledged and is not there.
    pub fn lacks(&self, node: usize) -> Vec<u64> {
        let has: BTreeSet<u64> = self.servers[node].applied.iter().map(|it| it.uid).collect();
        self.acknowledged.iter().copied().filter(|uid| !has.contains(uid)).collect()
    }
}
