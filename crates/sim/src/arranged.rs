//! A brain whose nodes get other places while it runs, as by reloads of a configuration. To the test each node has the number that it had in the
//! first configuration, whatever its place is now.

use std::sync::Arc;
use std::time::Duration;

use topology::NodeId;
use topology::action::Action;
use topology::brain::{Brain, NotTaken, Restored};
use topology::fact::{Fact, Outcome};
use topology::galera;
use topology::heartbeat::Wish;
use topology::order::Order;
use topology::replication::{self, Errand};
use topology::routes::Routes;
use topology::settings::Settings;
use topology::view::ClusterView;

/// See the head of this file.
pub struct Arranged {
    brain: Brain,
    /// As at first.
    settings: Settings,
    /// Of each place: the node that has it.
    nodes: Vec<NodeId>,
}

impl Arranged {
    /// A brain in the order of these settings.
    pub fn new(settings: Settings, restored: Restored, now: Duration) -> Self {
        let nodes = (0..settings.nodes.len()).map(|node| NodeId(node as u8)).collect();
        Self { brain: Brain::new(settings.clone(), restored, now), settings, nodes }
    }

    /// Gives the nodes other places: `nodes` has those of the first configuration in the new order. Whether the brain took it.
    pub fn arrange(&mut self, now: Duration, nodes: Vec<NodeId>) -> bool {
        let mut settings = self.settings.clone();
        settings.nodes = nodes.iter().map(|node| self.settings.nodes[usize::from(node.0)].clone()).collect();
        match self.brain.reconfigure(now, settings) {
            Ok(_) => {
                self.nodes = nodes;
                true
            }
            Err(NotTaken::Busy(_)) => false,
            Err(NotTaken::Refused { sentence, .. }) => unreachable!("{sentence}"),
        }
    }

    fn place(&self, node: NodeId) -> NodeId {
        // A number that no node has stays one that no node has.
        let place = self.nodes.iter().position(|known| *known == node);
        place.map_or(node, |place| NodeId(place as u8))
    }

    fn node(&self, place: NodeId) -> NodeId {
        self.nodes[usize::from(place.0)]
    }

    /// One fact, and the actions that follow.
    pub fn on(&mut self, now: Duration, mut fact: Fact) -> Vec<Action> {
        if let Some(node) = fact.node_mut() {
            *node = self.place(*node);
        }
        match &mut fact {
            Fact::Outcome(outcome) => self.outcome(outcome),
            Fact::Order { order, .. } => self.order(order),
            _ => {}
        }
        let actions = self.brain.on(now, fact);
        actions.into_iter().map(|action| self.action(action)).collect()
    }

    /// The view, with the nodes in their first order.
    pub fn view(&self, now: Duration) -> ClusterView {
        let mut view = self.brain.view(now);
        for node in &mut view.nodes {
            node.id = self.node(node.id);
        }
        view.nodes.sort_by_key(|node| node.id);
        view
    }

    /// The wishes, with the nodes in their first order.
    pub fn wishes(&self) -> Vec<Wish> {
        let wishes = self.brain.wishes();
        let of = |node: usize| wishes[usize::from(self.place(NodeId(node as u8)).0)].clone();
        (0..wishes.len()).map(of).collect()
    }

    fn order(&self, order: &mut Order) {
        match order {
            Order::Switchover { to, .. } => *to = to.map(|to| self.place(to)),
            Order::Drain { node, .. } | Order::Undrain { node, .. } | Order::SetSessionsMax { node, .. } => {
                *node = self.place(*node);
            }
        }
    }

    fn outcome(&self, outcome: &mut Outcome) {
        use galera::Outcome as G;
        match outcome {
            Outcome::Persisted { .. } | Outcome::PersistFailed { .. } => {}
            Outcome::BarrierPassed { node, .. } | Outcome::BarrierFailed { node, .. } => {
                *node = self.place(*node);
            }
            Outcome::Galera(G::Evicted { victim, via } | G::Spared { victim, via }) => {
                (*victim, *via) = (self.place(*victim), self.place(*via));
            }
            Outcome::Galera(G::EvictFailed { victim: node, .. } | G::Proof { node, .. }) => {
                *node = self.place(*node);
            }
            Outcome::Galera(G::Hurried { .. } | G::HurryEnded { .. } | G::BootstrapEnded { .. }) => {}
            Outcome::Replication(outcome) => outcome.node = self.place(outcome.node),
        }
    }

    fn routes(&self, routes: &Routes) -> Arc<Routes> {
        let mut routes = routes.clone();
        for lane in &mut routes.lanes {
            lane.node = self.node(lane.node);
        }
        routes.lanes.sort_by_key(|lane| lane.node);
        Arc::new(routes)
    }

    fn action(&self, mut action: Action) -> Action {
        use galera::Action as G;
        let to_node = |place: &mut NodeId| *place = self.node(*place);
        match &mut action {
            Action::Confirm { node }
            | Action::Probe { node }
            | Action::ReadAccounts { node }
            | Action::ReadTables { node }
            | Action::Galera(
                G::Pace { node, .. } | G::Desync { node, .. } | G::Prove { node, .. } | G::Forget { node },
            ) => to_node(node),
            Action::Persist { writer, sessions_max, renumbered, filtered, .. } => {
                let filtered_nodes = filtered.iter_mut().map(|(node, _)| node);
                writer.iter_mut().chain(&mut *renumbered).chain(filtered_nodes).for_each(to_node);
                renumbered.sort_unstable();
                filtered.sort_unstable();
                let limits = sessions_max.clone();
                let of = |node: usize| limits[usize::from(self.place(NodeId(node as u8)).0)];
                *sessions_max = (0..limits.len()).map(of).collect();
            }
            Action::Galera(G::Evict { victim, via, .. }) => [victim, via].into_iter().for_each(to_node),
            Action::Galera(G::Hurry { silent, members, .. }) => {
                silent.iter_mut().chain(members).for_each(to_node);
            }
            Action::Galera(G::Bootstrap { via, gone, .. }) => {
                to_node(via);
                gone.iter_mut().for_each(to_node);
            }
            Action::Galera(G::Ease { .. } | G::Remember { .. })
            | Action::Remember { .. }
            | Action::Say(_) => {}
            Action::Replication(replication::Action { node, errand, .. }) => {
                to_node(node);
                if let Errand::Follow { source } | Errand::Reconnect { source } = errand {
                    to_node(source);
                }
            }
            Action::Barrier { node, lost, .. } => {
                to_node(node);
                lost.iter_mut().for_each(to_node);
            }
            Action::Publish(routes) | Action::PublishReads(routes) => *routes = self.routes(routes),
            Action::Reached(reached) => {
                let mut other = (**reached).clone();
                other.primary.iter_mut().for_each(to_node);
                *reached = Arc::new(other);
            }
            Action::Answer { reply, .. } => {
                if let Ok(done) = reply {
                    done.writer.iter_mut().for_each(to_node);
                }
            }
        }
        action
    }
}
