//! What a check is about: the switchover that is wished for, what this program knows of it, and the form of one result.

use std::borrow::Cow;
use std::time::Duration;

use crate::NodeId;
use crate::rules::Severity;
use crate::view::ClusterView;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[schema(as = PreflightRow)]
pub struct Row {
    /// What was checked: a short, stable name for programs.
    pub check: Cow<'static, str>,
    /// At which node.
    pub node: String,
    /// The result.
    pub verdict: Severity,
    /// What was found, to follow the node's name.
    pub sentence: String,
    /// The remedy; empty when there is none.
    pub remedy: String,
}

/// A session that is tied to its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Immovable {
    /// Its node's name.
    pub node: String,
    /// Who it is, for people.
    pub who: String,
    /// What ties it.
    pub why: String,
}

/// A session whose client does not read the result of its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Its node's name.
    pub node: String,
    /// Who it is and since when, for people.
    pub who: String,
    /// Cutting its result changes nothing.
    pub can_be_cut: bool,
}

/// The switchover that is to be checked, and what this program knows of it.
pub struct Wish<'a> {
    /// What the brain knows.
    pub view: &'a ClusterView,
    /// The new writer; `None`: the one that the election would choose.
    pub to: Option<NodeId>,
    /// How long running transactions may take to end.
    pub budget: Duration,
    /// Sessions that cannot move.
    pub immovable: &'a [Immovable],
    /// Sessions whose clients do not read.
    pub stopped: &'a [Stopped],
    /// Sessions that clients have on the writer through Understudy.
    pub sessions: u32,
    /// How warm the standbys are; `None` where none is warmed.
    pub warm: Option<&'a Warm>,
}

impl Wish<'_> {
    /// The new writer's name, as far as that can be told.
    pub fn to_name(&self) -> Option<&str> {
        match self.to {
            Some(to) => self.view.node(to).map(|node| &*node.name),
            None => self.view.candidate.as_deref(),
        }
    }
}

/// How warm the standbys are, and how warm a new writer must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Warm {
    /// The least score of a new writer, in percent; `None`: any will do.
    pub require_percent: Option<u8>,
    /// The standbys.
    pub standbys: Vec<Standby>,
}

/// One standby.
#[derive(Clone, Debug, PartialEq)]
pub struct Standby {
    /// Its name.
    pub name: String,
    /// The share of the writer's page accesses that it would serve from memory, in percent; `None` while it is not known.
    pub score_percent: Option<f64>,
    /// Whether and how it is warmed, to follow its name.
    pub sentence: String,
}
