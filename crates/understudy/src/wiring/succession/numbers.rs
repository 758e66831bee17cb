//! The numbers in routes and facts, kept for the proxy while one manager follows another in the same process.
//!
//! A manager numbers nodes by their place in its configuration, and begins to count epochs and versions anew. The proxy must not see that:
//! a lane in another epoch is cut, and a version that goes back is an old one. So the proxy has numbers of its own, and here they are
//! translated: of [`Routes`] on their way to the proxy, of [`Fact`]s on their way to the manager.
//!
//! ```text
//!   manager ── Routes: place, epoch, version ──> Numbers ──> Routes: number, epoch, version of the proxy ──> proxy
//!   manager <── Fact: place, epoch, version ──── Numbers <── Fact: number, epoch, version of the proxy ───── proxy
//! ```
//!
//! After a change of the manager the proxy goes on with its last routes, until the new manager has opened as many lanes as were in use, or
//! its time for that is up. A lane that is in use before and after keeps its epoch, and so its sessions keep their connections.
//!
//! Enters: routes, facts, and the time. Leaves: the same in other numbers. No clock, no task: the shell is in `super`.

use std::fmt;
use std::sync::Arc;

use topology::NodeId;
use topology::fact::Fact;
use topology::reads::Reached;
use topology::routes::{Lane, LaneState, Routes};
use topology::settings::NodeSettings;

/// Facts that may wait for the first routes of a new manager. The proxy's own channel has room for as many.
const WAITING_MAX: usize = 1024;
/// Numbers of nodes that a proxy can have, those of removed nodes included.
const NODES_MAX: usize = 256;

/// A node under its number in the proxy, which it keeps as long as the process runs.
#[derive(Debug)]
struct Node {
    /// As the proxy was last told.
    lane: Lane,
    /// An epoch in the proxy is the manager's plus this.
    epochs: i64,
    /// The highest alarm that sessions raised in the lane's present epoch.
    alarm: u64,
    /// Alarms up to this one were raised before the present manager began. It has asked the node since, or would not have opened the lane.
    looked: u64,
}

/// What happens until the routes of a new manager are passed on.
#[derive(Debug)]
struct Waiting {
    /// Lanes that sessions used when the manager changed.
    in_use: usize,
    /// Facts for it, in the proxy's numbers.
    facts: Vec<Fact>,
}

/// The port that a sequence of routes is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// That of applications. A lane that drains is in use: its node is being asked, and takes statements again.
    Writes,
    /// That for reads. Lanes of nodes that take no reads any more drain for as long as sessions have connections to them.
    Reads,
}

/// The numbers of one sequence of routes. See the head of this file.
#[derive(Debug)]
pub struct Numbers {
    port: Port,
    nodes: Vec<Node>,
    /// Of each place in the manager's configuration: the number in the proxy.
    of_place: Vec<usize>,
    /// A version in the proxy is the manager's plus this.
    versions: u64,
    /// As the proxy was last told.
    last: Option<Arc<Routes>>,
    waiting: Option<Waiting>,
}

/// There would be more numbers than the proxy can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {NODES_MAX} nodes were configured since the start")
    }
}

impl std::error::Error for TooMany {}

impl Numbers {
    /// Before there is any manager.
    pub fn new(port: Port) -> Self {
        Self { port, nodes: Vec::new(), of_place: Vec::new(), versions: 0, last: None, waiting: None }
    }

    fn is_in_use(&self, lane: &Lane) -> bool {
        match lane.state {
            LaneState::Open => true,
            LaneState::Draining => self.port == Port::Writes,
            LaneState::Shut => false,
        }
    }

    /// The manager of these nodes is the next one; the first one, too, is announced like this. Changes nothing when it fails.
    pub fn next_manager(&mut self, nodes: &[NodeSettings]) -> Result<(), TooMany> {
        let known = |node| self.nodes.iter().position(|known| is_of(&known.lane, node));
        let places: Vec<Option<usize>> = nodes.iter().map(known).collect();
        let new = places.iter().filter(|place| place.is_none()).count();
        if self.nodes.len() + new > NODES_MAX {
            return Err(TooMany);
        }
        self.of_place =
            nodes.iter().zip(places).map(|(node, known)| known.unwrap_or_else(|| self.add(node))).collect();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            node.lane.is_removed = !self.of_place.contains(&number);
            node.looked = node.alarm;
        }
        let Some(last) = &self.last else { return Ok(()) };
        self.versions = last.version;
        let lanes = self.nodes.iter().map(|node| &node.lane);
        let in_use = lanes.filter(|lane| !lane.is_removed && self.is_in_use(lane)).count();
        // One that did not start has left the facts for the next.
        let facts = self.waiting.take().map(|waiting| waiting.facts).unwrap_or_default();
        self.waiting = Some(Waiting { in_use, facts });
        Ok(())
    }

    fn add(&mut self, node: &NodeSettings) -> usize {
        let number = self.nodes.len();
        // There are never more than NODES_MAX.
        let node_id = NodeId(u8::try_from(number).unwrap_or(u8::MAX));
        let lane = Lane::shut(node_id, node.name.as_str(), node.address.as_str());
        self.nodes.push(Node { lane, epochs: 0, alarm: 0, looked: 0 });
        number
    }

    /// Of each node of such a configuration: whether sessions may have connections to it.
    pub fn has_links(&self, nodes: &[NodeSettings]) -> Vec<bool> {
        let has_links = |node: &NodeSettings| {
            self.nodes.iter().any(|known| is_of(&known.lane, node) && known.lane.state != LaneState::Shut)
        };
        nodes.iter().map(has_links).collect()
    }

    /// Nodes whose lanes sessions use, and that such a configuration does not have any more.
    pub fn in_use_without(&self, nodes: &[NodeSettings]) -> Vec<String> {
        let is_kept = |lane: &Lane| nodes.iter().any(|node| is_of(lane, node));
        let lanes = self.nodes.iter().map(|node| &node.lane);
        let lost = lanes.filter(|lane| self.is_in_use(lane) && !is_kept(lane));
        lost.map(|lane| lane.name.to_string()).collect()
    }

    /// The manager's routes for the proxy, and facts that the manager must be told then. No routes when they are not newer than the last ones, or while its first decision is awaited;
    /// `is_late`: it is not awaited any longer.
    pub fn routes(&mut self, routes: &Routes, is_late: bool) -> Option<(Arc<Routes>, Vec<Fact>)> {
        let version = self.versions + routes.version;
        if self.last.as_ref().is_some_and(|last| version <= last.version) {
            // They are known already, or a new manager has not decided anything yet.
            return None;
        }
        let open = routes.lanes.iter().filter(|lane| lane.state == LaneState::Open).count();
        if self.waiting.as_ref().is_some_and(|waiting| open < waiting.in_use && !is_late) {
            return None;
        }
        let waiting = self.waiting.take();
        let mut facts = Vec::new();
        if waiting.is_some() {
            for (lane, number) in routes.lanes.iter().zip(&self.of_place) {
                facts.extend(self.nodes.get_mut(*number).and_then(|node| node.continue_as(lane)));
            }
            for node in self.nodes.iter_mut().filter(|node| node.lane.is_removed) {
                node.shut();
            }
        }
        for (lane, number) in routes.lanes.iter().zip(&self.of_place) {
            if let Some(node) = self.nodes.get_mut(*number) {
                node.set(lane);
            }
        }
        let last = self.last.as_ref();
        let before = |routes: &Arc<Routes>| routes.accounts.clone();
        let accounts = last.map(before).filter(|_| routes.accounts.is_empty());
        let passed_on = Arc::new(Routes {
            version,
            term: routes.term,
            lanes: self.nodes.iter().map(|node| node.lane.clone()).collect(),
            hold_because: routes.hold_because.clone(),
            // What a new manager has not learned yet is not unknown for that.
            greeting: routes.greeting.clone().or_else(|| last?.greeting.clone()),
            accounts: accounts.unwrap_or_else(|| routes.accounts.clone()),
            catalogue: routes.catalogue.clone().or_else(|| last?.catalogue.clone()),
        });
        self.last = Some(passed_on.clone());
        for fact in waiting.map(|waiting| waiting.facts).unwrap_or_default() {
            facts.extend(self.fact(fact));
        }
        Some((passed_on, facts))
    }

    /// A fact of the proxy in the manager's numbers; `None` when it is about something that this manager does not know.
    pub fn fact(&mut self, mut fact: Fact) -> Option<Fact> {
        if let Fact::TrafficLost { node, epoch, alarm, .. } | Fact::TrafficRefused { node, epoch, alarm, .. } =
            &fact
            && let Some(node) = self.nodes.get_mut(usize::from(node.0))
            && node.lane.epoch == *epoch
        {
            node.alarm = node.alarm.max(*alarm);
        }
        if let Some(waiting) = &mut self.waiting {
            if waiting.facts.len() < WAITING_MAX {
                waiting.facts.push(fact);
            }
            return None;
        }
        match &mut fact {
            Fact::CommitsWait { node, .. } => *node = self.place(*node)?,
            Fact::TrafficLost { node, epoch, .. }
            | Fact::TrafficRefused { node, epoch, .. }
            | Fact::StatementLost { node, epoch, .. }
            | Fact::Cut { node, epoch } => (*node, *epoch) = self.place_and_epoch(*node, *epoch)?,
            Fact::Quiesced { node, epoch, version, .. } => {
                (*node, *epoch) = self.place_and_epoch(*node, *epoch)?;
                // Under the routes of an earlier manager it says nothing about what this one has ordered.
                *version = version.checked_sub(self.versions).filter(|version| *version > 0)?;
            }
            _ => {}
        }
        Some(fact)
    }

    /// The primary's position in the proxy's numbers.
    pub fn reached(&self, reached: &Reached) -> Reached {
        let number = |place: NodeId| self.of_place.get(usize::from(place.0)).copied();
        let mut writable = vec![true; self.nodes.len()];
        for (is_writable, number) in reached.writable.iter().zip(&self.of_place) {
            if let Some(known) = writable.get_mut(*number) {
                *known = *is_writable;
            }
        }
        Reached {
            primary: reached
                .primary
                .and_then(number)
                .and_then(|number| Some(self.nodes.get(number)?.lane.node)),
            position: reached.position.clone(),
            asked: reached.asked,
            writable,
        }
    }

    fn place(&self, number: NodeId) -> Option<NodeId> {
        let place = self.of_place.iter().position(|known| *known == usize::from(number.0))?;
        u8::try_from(place).ok().map(NodeId)
    }

    fn place_and_epoch(&self, number: NodeId, epoch: u64) -> Option<(NodeId, u64)> {
        let epochs = self.nodes.get(usize::from(number.0))?.epochs;
        Some((self.place(number)?, shifted(epoch, -epochs)?))
    }
}

impl Node {
    /// The first decision of a new manager about this lane: from now on its epochs are those of the proxy. Gives what the manager must be
    /// told.
    fn continue_as(&mut self, lane: &Lane) -> Option<Fact> {
        let [had_links, has_links] = [&self.lane, lane].map(|lane| lane.state != LaneState::Shut);
        // When it is used no more, its connections are cut: that takes an epoch of its own.
        let now = if had_links && !has_links { self.lane.epoch + 1 } else { self.lane.epoch };
        self.epochs = signed(now) - signed(lane.epoch);
        // The connections that the manager knows of as those of an earlier epoch are the present ones.
        let none_before = Fact::Cut { node: lane.node, epoch: lane.epoch.checked_sub(1)? };
        (had_links && has_links).then_some(none_before)
    }

    /// It has no manager any more. Nobody should use it by then.
    fn shut(&mut self) {
        if self.lane.state != LaneState::Shut {
            self.lane.state = LaneState::Shut;
            self.lane.epoch += 1;
        }
    }

    fn set(&mut self, lane: &Lane) {
        let own = &self.lane;
        let epoch = shifted(lane.epoch, self.epochs).unwrap_or(own.epoch).max(own.epoch);
        if epoch != own.epoch {
            (self.alarm, self.looked) = (0, 0);
        }
        let lost_epoch = lane.lost_epoch.and_then(|lost| shifted(lost, self.epochs)).or(own.lost_epoch);
        self.lane = Lane {
            node: own.node,
            name: own.name.clone(),
            address: own.address.clone(),
            epoch,
            looked: lane.looked.max(self.looked),
            lost_epoch,
            is_removed: own.is_removed,
            ..lane.clone()
        };
    }
}

/// Whether it is the lane of this node: another server under the same name is another node.
fn is_of(lane: &Lane, node: &NodeSettings) -> bool {
    *lane.name == *node.name && *lane.address == *node.address
}

fn signed(epoch: u64) -> i64 {
    i64::try_from(epoch).unwrap_or(i64::MAX)
}

/// `None` for a number before the first.
fn shifted(epoch: u64, by: i64) -> Option<u64> {
    epoch.checked_add_signed(by)
}

#[cfg(test)]
mod tests;
