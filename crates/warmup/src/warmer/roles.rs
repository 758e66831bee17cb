//! Which node takes the traffic, and which are to be warmed. `understudy serve` and `understudy warm` judge by the same rules.

use std::collections::BTreeMap;

use topology::health::{Problem, Serves};
use topology::routes::LaneState;
use topology::settings::Writers;
use topology::view::{ClusterView, NodeState, NodeView, TrafficFlow};

/// The current roles of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The node that takes the traffic: its name, and its address (`host:port`). An error says in one sentence why none is known.
    pub active: Result<(String, String), String>,
    /// All other nodes by name: the address (`host:port`) of one that is to be warmed, or in one sentence why it is not.
    pub standbys: BTreeMap<String, Result<String, String>>,
}

/// What a view means for warming: nobody is warmed unless exactly one node takes the traffic, and only nodes that could take it over.
pub fn roles<'a>(view: &ClusterView, nodes: impl Iterator<Item = &'a NodeView>) -> Roles {
    let (writer, others): (Vec<&NodeView>, Vec<&NodeView>) = nodes.partition(|node| node.writer);
    let active = match writer.first() {
        _ if view.writers == Writers::All => Err("all nodes take the traffic".to_owned()),
        Some(node) if view.gate == TrafficFlow::Open && node.lane == LaneState::Open => {
            Ok((node.name.clone(), node.address.clone()))
        }
        _ => {
            let why = view.hold_because.as_deref().unwrap_or("no node takes the traffic");
            Err(format!("statements are held: {why}"))
        }
    };
    let standbys = others.into_iter().map(|node| (node.name.clone(), standby(node))).collect();
    Roles { active, standbys }
}

/// The address of a node that is to be warmed.
fn standby(node: &NodeView) -> Result<String, String> {
    let is_lost = matches!(node.state, NodeState::Unknown | NodeState::Silent | NodeState::Dead);
    if node.sessions_max == Some(0) || node.problem == Some(Problem::Drained) {
        Err("it is drained by an operator".into())
    } else if is_lost || !node.linked || node.doubt.is_some() {
        Err(format!("it does not answer, or is in doubt: {}", without_figures(node)))
    } else if node.state == NodeState::Donor {
        Err("it feeds another node".into())
    } else if matches!(node.serves, Serves::No | Serves::Leaves) {
        Err(format!("it could not take the traffic over: {}", without_figures(node)))
    } else {
        Ok(node.address.clone())
    }
}

/// The name of what speaks against a node: its sentence may have figures that change several times a second, and each change would be news.
fn without_figures(node: &NodeView) -> String {
    node.problem.map_or_else(|| "not known yet".to_owned(), |problem| problem.name().replace('_', " "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use topology::NodeId;
    use topology::brain::{Brain, Restored};
    use topology::settings::{NodeSettings, Settings};

    use super::*;

    fn roles(view: &ClusterView) -> Roles {
        super::roles(view, view.nodes.iter())
    }

    /// db1 takes the traffic, db2 and db3 are well.
    fn view() -> ClusterView {
        let node =
            |name: &str| NodeSettings { name: name.into(), address: format!("{name}:3306"), priority: 0 };
        let nodes = ["db1", "db2", "db3"].map(node).to_vec();
        let settings = Settings::new("shop", Writers::One, nodes);
        let mut view = Brain::new(settings, Restored::default(), Duration::ZERO).view(Duration::ZERO);
        view.gate = TrafficFlow::Open;
        view.hold_because = None;
        for node in &mut view.nodes {
            node.writer = node.id == NodeId(0);
            node.lane = if node.writer { LaneState::Open } else { LaneState::Shut };
            (node.state, node.serves, node.problem) = (NodeState::Synced, Serves::Well, None);
            (node.linked, node.doubt, node.sessions_max) = (true, None, None);
        }
        view
    }

    #[test]
    fn the_others_are_warmed_while_one_node_takes_the_traffic() {
        let roles = roles(&view());
        assert_eq!(roles.active, Ok(("db1".into(), "db1:3306".into())));
        assert_eq!(roles.standbys.len(), 2);
        assert_eq!(roles.standbys["db2"], Ok("db2:3306".into()));
    }

    #[test]
    fn nobody_is_warmed_while_statements_are_held_or_all_nodes_write() {
        let active = |change: &dyn Fn(&mut ClusterView)| {
            let mut view = view();
            change(&mut view);
            roles(&view).active.unwrap_err()
        };
        let held = active(&|view| {
            view.gate = TrafficFlow::Held;
            view.hold_because = Some("db1 hands over".into());
        });
        assert_eq!(held, "statements are held: db1 hands over");
        assert_eq!(active(&|view| view.writers = Writers::All), "all nodes take the traffic");
        assert!(
            active(&|view| view.nodes[0].lane = LaneState::Draining).contains("no node takes the traffic")
        );
        assert!(active(&|view| view.nodes[0].writer = false).contains("no node takes the traffic"));
    }

    #[test]
    fn a_node_that_could_not_take_over_is_left_alone_with_a_reason() {
        let why = |change: &dyn Fn(&mut NodeView)| {
            let mut view = view();
            change(&mut view.nodes[1]);
            assert!(roles(&view).active.is_ok());
            roles(&view).standbys["db2"].clone().unwrap_err()
        };
        assert_eq!(why(&|node| node.sessions_max = Some(0)), "it is drained by an operator");
        assert!(why(&|node| node.linked = false).starts_with("it does not answer, or is in doubt"));
        assert!(why(&|node| node.doubt = Some("its link broke".into())).starts_with("it does not answer"));
        assert!(why(&|node| node.state = NodeState::Dead).starts_with("it does not answer"));
        assert_eq!(why(&|node| node.state = NodeState::Donor), "it feeds another node");
        let stray = why(&|node| (node.serves, node.problem) = (Serves::No, Some(Problem::OtherSource)));
        assert_eq!(stray, "it could not take the traffic over: other source");
    }

    /// `understudy warm` sees the view as the API's JSON.
    #[test]
    fn who_is_warmed_from_outside_is_the_same() {
        type Change = fn(&mut ClusterView);
        let changes: [(&str, Change); 15] = [
            ("none", |_| {}),
            ("held", |view| view.gate = TrafficFlow::Held),
            ("all", |view| view.writers = Writers::All),
            ("draining", |view| view.nodes[0].lane = LaneState::Draining),
            ("no writer", |view| view.nodes[0].writer = false),
            ("moved", |view| {
                (view.nodes[0].writer, view.nodes[0].lane) = (false, LaneState::Shut);
                (view.nodes[1].writer, view.nodes[1].lane) = (true, LaneState::Open);
            }),
            ("no sessions", |view| view.nodes[1].sessions_max = Some(0)),
            ("few sessions", |view| view.nodes[1].sessions_max = Some(3)),
            ("drained", |view| view.nodes[1].problem = Some(Problem::Drained)),
            ("not linked", |view| view.nodes[1].linked = false),
            ("doubt", |view| view.nodes[1].doubt = Some("its link broke".into())),
            ("silent", |view| view.nodes[1].state = NodeState::Silent),
            ("donor", |view| {
                (view.nodes[1].state, view.nodes[1].serves) = (NodeState::Donor, Serves::Stays);
            }),
            ("leaves", |view| view.nodes[1].serves = Serves::Leaves),
            ("refused", |view| view.nodes[1].serves = Serves::No),
        ];
        for (name, change) in changes {
            let mut view = view();
            change(&mut view);
            let inside = roles(&view);
            let outside = serde_json::to_value(api::Status::of(&view)).unwrap();
            let outside: api::Status = serde_json::from_value(outside).unwrap();
            let outside = super::roles(&outside, outside.nodes.iter().map(|node| &node.view));
            assert_eq!(outside, inside, "{name}");
        }
    }
}
