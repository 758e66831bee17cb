//! The input of a rule, and the form of its result.

use super::answer::{NodeReply, Server};
use super::wish::{Immovable, Row, Stopped, Wish};
use crate::finding::{NodeState, Serves};
use crate::galera::GaleraStatus;
use crate::replication::ReplicationStatus;
use crate::rules::Severity;
use crate::status::Status;
use crate::view::NodeView;

/// A node and its answer.
#[derive(Clone, Copy)]
pub(super) struct Peer<'a> {
    /// What the brain knows about it.
    pub view: &'a NodeView,
    /// Its answer to the new questions.
    pub said: &'a NodeReply,
}

/// The input of all rules.
pub(super) struct Sight<'a> {
    /// The writer now.
    pub from: Peer<'a>,
    /// The writer to be.
    pub to: Peer<'a>,
    /// All nodes except those two.
    pub others: Vec<Peer<'a>>,
    /// The writer's sessions that cannot move.
    pub immovable: Vec<&'a Immovable>,
    /// The writer's sessions whose clients do not read.
    pub stopped: Vec<&'a Stopped>,
    /// What else is known.
    pub wish: &'a Wish<'a>,
}

/// The result of a rule: what was found, or one row that nothing was.
pub(super) type Look = Vec<Row>;

/// A rule; `None`: it could not be judged.
pub(super) struct Rule {
    /// The name of its rows.
    pub check: &'static str,
    pub look: for<'a> fn(&'a Sight<'a>) -> Option<Look>,
}

static NOT_ASKED: NodeReply = NodeReply::NotAsked;

/// The input for a move to the node of that name. If there is nothing to check, a row that says why.
pub(super) fn of<'a>(wish: &'a Wish<'a>, said: &'a [NodeReply], to: Option<&str>) -> Result<Sight<'a>, Row> {
    let view = wish.view;
    let peers: Vec<Peer> = view
        .nodes
        .iter()
        .enumerate()
        .map(|(place, view)| Peer { view, said: said.get(place).unwrap_or(&NOT_ASKED) })
        .collect();
    let named = |name: &str| peers.iter().copied().find(|peer| peer.view.name == name);
    let none = |node: &str, sentence: String, remedy: &str| Row {
        check: "writer".into(),
        node: node.to_owned(),
        verdict: Severity::Fails,
        sentence,
        remedy: remedy.to_owned(),
    };
    let Some(from) = view.writer.as_deref().and_then(named) else {
        let why = view.hold_because.as_deref().unwrap_or("all nodes write");
        return Err(none(
            "-",
            format!("has no writer that could be moved: {why}"),
            "see `understudy status`",
        ));
    };
    let Some(to) = to.and_then(named) else {
        let others = view.nodes.iter().filter(|node| !node.writer);
        let why: Vec<String> = others.map(|node| format!("{} {}", node.name, node.reason)).collect();
        let text = format!("has no successor that could write: {}", why.join("; "));
        return Err(none(&from.view.name, text, "see `understudy status`"));
    };
    if to.view.writer {
        let text = "is the writer already: there is nothing to move".to_owned();
        return Err(Row { verdict: Severity::Note, ..none(&to.view.name, text, "") });
    }
    let others =
        peers.iter().copied().filter(|peer| peer.view.id != from.view.id && peer.view.id != to.view.id);
    Ok(Sight {
        from,
        to,
        others: others.collect(),
        immovable: wish.immovable.iter().filter(|session| session.node == from.view.name).collect(),
        stopped: wish.stopped.iter().filter(|session| session.node == from.view.name).collect(),
        wish,
    })
}

impl Sight<'_> {
    /// The row for a rule that could not be judged because the new writer does not answer.
    pub fn unheard(&self) -> Option<Row> {
        let to = self.to;
        let text = format!("is not known: it does not answer{}", to.last_heard());
        (!to.is_heard()).then(|| to.found(Severity::Unknown, text, ""))
    }
}

impl<'a> Peer<'a> {
    pub fn name(&self) -> &'a str {
        &self.view.name
    }

    pub fn server(&self) -> Option<&'a Server> {
        match self.said {
            NodeReply::Server(server) => Some(server),
            NodeReply::NotAsked | NodeReply::Failed { .. } => None,
        }
    }

    /// Whether it answers, and is under no suspicion.
    pub fn is_well(&self) -> bool {
        self.view.serves != Serves::No && self.view.doubt.is_none() && self.view.linked
    }

    /// Whether its last answers still count, because it has not stopped answering.
    pub fn is_heard(&self) -> bool {
        let is_lost = matches!(self.view.state, NodeState::Unknown | NodeState::Silent | NodeState::Dead);
        self.view.linked && !is_lost
    }

    pub fn replication(&self) -> Option<&'a ReplicationStatus> {
        self.view.facts.as_ref().filter(|_| self.is_heard()).and_then(Status::replication)
    }

    pub fn galera(&self) -> Option<&'a GaleraStatus> {
        self.view.facts.as_ref().filter(|_| self.is_heard()).and_then(Status::galera)
    }

    /// Since when it has not answered, as the end of a sentence; empty while it does.
    pub fn last_heard(&self) -> String {
        match self.view.answered_ms_ago {
            _ if self.is_heard() => String::new(),
            Some(ms) => format!(", and last answered {:.1} s ago", ms as f64 / 1000.0),
            None => ", and has not answered since Understudy was started".to_owned(),
        }
    }

    /// A row about it; the check's name is filled in where the rule's is known.
    pub fn found(&self, verdict: Severity, sentence: impl Into<String>, remedy: impl Into<String>) -> Row {
        let (node, sentence, remedy) = (self.name().to_owned(), sentence.into(), remedy.into());
        Row { check: "".into(), node, verdict, sentence, remedy }
    }
}

/// The result of a rule about `peer`: what was found, or `well` if nothing was.
pub(super) fn look(
    found: impl IntoIterator<Item = Row>,
    peer: Peer<'_>,
    well: impl Into<String>,
) -> Option<Look> {
    let found: Vec<Row> = found.into_iter().collect();
    Some(if found.is_empty() { vec![peer.found(Severity::Ok, well, "")] } else { found })
}
