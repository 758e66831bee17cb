//! The numbers of nodes outside of the brain. The brain knows a node by its place in the configuration, which changes when a reload adds nodes,
//! removes some, or changes their order. The proxies and the manager's tasks know it by a number, which it keeps as long as the process
//! runs; so what they report is about the same node, however long it was on its way.
//!
//! ```text
//!   brain ── Routes, Reached: places ──> Numbers ──> numbers ──> proxies
//!   brain <── Fact: place ────────────── Numbers <── number ──── proxies, tasks
//! ```
//!
//! A node that was removed keeps its number: its lane stays in the routes, shut and marked as removed. If it is added again, under the same
//! name and address, it has that number again.

use std::sync::Arc;

use topology::NodeId;
use topology::fact::Fact;
use topology::reads::Reached;
use topology::routes::{Lane, LaneState, Routes};
use topology::settings::NodeSettings;

/// Which of the two sequences of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// That of applications.
    Writes,
    /// That for reads.
    Reads,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Name and address of each number.
    known: Vec<(String, String)>,
    /// Of each place in the configuration: the node's number.
    of_place: Vec<NodeId>,
    /// As published last, for writes and for reads.
    published: [Option<Arc<Routes>>; 2],
}

impl Numbers {
    /// The numbers of these nodes, in their order, with those that would be given to new ones. `None`: there are not so many numbers.
    pub fn of(&self, nodes: &[NodeSettings]) -> Option<Vec<NodeId>> {
        let mut next = self.known.len();
        let number = |node: &NodeSettings| {
            let is_known =
                |(name, address): &(String, String)| *name == node.name && *address == node.address;
            let number = self.known.iter().position(is_known).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            u8::try_from(number).ok().map(NodeId)
        };
        nodes.iter().map(number).collect()
    }

    /// From now on these are the nodes.
    pub fn change(&mut self, nodes: &[NodeSettings], of_place: Vec<NodeId>) {
        for (node, number) in nodes.iter().zip(&of_place) {
            if usize::from(number.0) == self.known.len() {
                self.known.push((node.name.clone(), node.address.clone()));
            }
        }
        self.of_place = of_place;
    }

    /// The numbers of the nodes, in their order.
    pub fn all(&self) -> &[NodeId] {
        &self.of_place
    }

    /// The number of the node at that place.
    pub fn number(&self, place: NodeId) -> NodeId {
        self.of_place.get(usize::from(place.0)).copied().unwrap_or(place)
    }

    /// The place of the node with that number; `None` for a node that was removed.
    pub fn place(&self, number: NodeId) -> Option<NodeId> {
        let place = self.of_place.iter().position(|known| *known == number)?;
        u8::try_from(place).ok().map(NodeId)
    }

    /// A report of the proxy or of a task, about the node by its place. `None`: that node was removed.
    pub fn fact(&self, mut fact: Fact) -> Option<Fact> {
        if let Some(node) = fact.node_mut() {
            *node = self.place(*node)?;
        }
        Some(fact)
    }

    /// Whether places and numbers are the same, as they are until nodes are removed or moved.
    fn is_same(&self) -> bool {
        self.known.len() == self.of_place.len()
            && (0..=u8::MAX).zip(&self.of_place).all(|(place, number)| number.0 == place)
    }

    /// Routes for the proxy.
    pub fn routes(&mut self, port: Port, routes: Arc<Routes>) -> Arc<Routes> {
        let last = &self.published[port as usize];
        let routes = if self.is_same() {
            routes
        } else {
            let lane = |(number, (name, address)): (u8, &(String, String))| {
                let number = NodeId(number);
                match self.place(number).and_then(|place| routes.lane(place)) {
                    Some(lane) => Lane { node: number, ..lane.clone() },
                    None => removed(number, name, address, last.as_deref()),
                }
            };
            let lanes = (0..=u8::MAX).zip(&self.known).map(lane).collect();
            Arc::new(Routes { lanes, ..Routes::clone(&routes) })
        };
        self.published[port as usize] = Some(Arc::clone(&routes));
        routes
    }

    /// The primary's position for the port for reads.
    pub fn reached(&self, reached: Arc<Reached>) -> Arc<Reached> {
        if self.is_same() {
            return reached;
        }
        let writable = |number| {
            let place = self.place(NodeId(number));
            place.and_then(|place| reached.writable.get(usize::from(place.0)).copied()).unwrap_or(true)
        };
        Arc::new(Reached {
            primary: reached.primary.map(|place| self.number(place)),
            position: reached.position.clone(),
            asked: reached.asked,
            writable: (0..=u8::MAX).take(self.known.len()).map(writable).collect(),
        })
    }
}

/// The lane of a node that was removed: as it was published last, and shut.
fn removed(number: NodeId, name: &str, address: &str, last: Option<&Routes>) -> Lane {
    let mut lane =
        last.and_then(|last| last.lane(number)).cloned().unwrap_or_else(|| Lane::shut(number, name, address));
    if lane.state != LaneState::Shut {
        // What still runs there, which are reads at most, is cut.
        lane.epoch += 1;
    }
    Lane { state: LaneState::Shut, is_removed: true, ..lane }
}

#[cfg(test)]
mod tests {
    use topology::fact::ProxyFact;
    use topology::{Origin, Term};

    use super::*;

    fn nodes(names: &[&str]) -> Vec<NodeSettings> {
        let node =
            |name: &&str| NodeSettings { name: (*name).into(), address: format!("{name}:1"), priority: 0 };
        names.iter().map(node).collect()
    }

    fn numbers(names: &[&str]) -> Numbers {
        let mut numbers = Numbers::default();
        change(&mut numbers, names);
        numbers
    }

    fn change(numbers: &mut Numbers, names: &[&str]) {
        let of_place = numbers.of(&nodes(names)).unwrap();
        numbers.change(&nodes(names), of_place);
    }

    fn routes(version: u64, lanes: &[(&str, LaneState, u64)]) -> Arc<Routes> {
        let lane = |(place, (name, state, epoch)): (u8, &(&str, LaneState, u64))| Lane {
            state: *state,
            epoch: *epoch,
            ..Lane::shut(NodeId(place), *name, format!("{name}:1"))
        };
        Arc::new(Routes {
            version,
            term: Term(1),
            lanes: (0..).zip(lanes).map(lane).collect(),
            hold_because: None,
            greeting: None,
            accounts: Arc::default(),
            catalogue: None,
        })
    }

    /// Name, number, state, epoch and whether it was removed, of each lane.
    fn shown(routes: &Routes) -> Vec<(&str, u8, LaneState, u64, bool)> {
        let lane = |lane: &Lane| (lane.node.0, lane.state, lane.epoch, lane.is_removed);
        routes
            .lanes
            .iter()
            .map(|each| {
                let (number, state, epoch, is_removed) = lane(each);
                (&*each.name, number, state, epoch, is_removed)
            })
            .collect()
    }

    #[test]
    fn a_node_keeps_its_number() {
        use LaneState::{Open, Shut};
        let mut numbers = numbers(&["db1", "db2"]);
        let first = routes(1, &[("db1", Open, 1), ("db2", Shut, 0)]);
        assert!(Arc::ptr_eq(&first, &numbers.routes(Port::Writes, Arc::clone(&first))));
        change(&mut numbers, &["db3", "db1"]);
        let next = numbers.routes(Port::Writes, routes(2, &[("db3", Shut, 0), ("db1", Open, 1)]));
        let wanted = [("db1", 0, Open, 1, false), ("db2", 1, Shut, 0, true), ("db3", 2, Shut, 0, false)];
        assert_eq!(shown(&next), wanted);
        assert_eq!((numbers.number(NodeId(0)), numbers.place(NodeId(0))), (NodeId(2), Some(NodeId(1))));
        let cut = |node| ProxyFact::Cut { node: NodeId(node), epoch: 0 };
        let place = |fact: Option<Fact>| fact.map(|mut fact| *fact.node_mut().unwrap());
        assert_eq!(place(numbers.fact(cut(0).by(Origin(0)))), Some(NodeId(1)));
        assert_eq!(place(numbers.fact(cut(1).by(Origin(0)))), None, "it was removed");
        assert_eq!(place(numbers.fact(ProxyFact::Reads(Box::new(cut(2))).by(Origin(0)))), Some(NodeId(0)));
        change(&mut numbers, &["db2", "db1"]);
        assert_eq!(numbers.all(), [NodeId(1), NodeId(0)], "it has its number again");
    }

    #[test]
    fn reads_that_still_run_on_a_removed_node_are_cut_once() {
        use LaneState::{Draining, Open, Shut};
        let mut numbers = numbers(&["db1", "db2"]);
        numbers.routes(Port::Reads, routes(1, &[("db1", Open, 0), ("db2", Draining, 4)]));
        change(&mut numbers, &["db1"]);
        for version in [2, 3] {
            let next = numbers.routes(Port::Reads, routes(version, &[("db1", Open, 0)]));
            assert_eq!(shown(&next)[1], ("db2", 1, Shut, 5, true));
        }
    }

    #[test]
    fn the_primary_has_its_number_for_reads() {
        let mut numbers = numbers(&["db1", "db2"]);
        change(&mut numbers, &["db2", "db3"]);
        let writable = vec![true, false];
        let primary = Some(NodeId(0));
        let reached =
            Reached { primary, position: "0-1-1".into(), asked: std::time::Duration::ZERO, writable };
        let reached = numbers.reached(Arc::new(reached));
        assert_eq!((reached.primary, &*reached.writable), (Some(NodeId(1)), &[true, true, false][..]));
    }

    #[test]
    fn there_are_not_more_numbers_than_a_byte_has() {
        let names: Vec<String> = (0..255).map(|number| format!("n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut numbers = numbers(&names);
        change(&mut numbers, &["db1"]);
        assert!(numbers.of(&nodes(&["db2"])).is_none());
        assert!(numbers.of(&nodes(&["n7", "db1"])).is_some());
    }
}
