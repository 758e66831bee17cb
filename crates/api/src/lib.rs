//! The status that the HTTP API gives, as one value on both sides: `wiring` fills it, and the commands read it.
//!
//! A field's name, type and unit stand once: here, or in the type that it is made of. The commands read the status of an older or a newer
//! Understudy, too: what is missing has its default, a field that is not known is left out, and a word that is not known reads as the one that
//! promises least.

pub mod change;
pub mod proxy;
pub mod recovery;
pub mod warm;

use std::ops::Deref;

use measure::capacity::passive::NodeCapacity;
use measure::rates::Rates;
use measure::sample::Sample;
use serde::{Deserialize, Serialize};
use topology::kind::Kind;
use topology::view::{ClusterView, NodeView};

use self::recovery::{Outlook, Summary};
use self::warm::Warm;

/// The cluster, now. Its `view` may be read as if its fields were here.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Status {
    #[serde(flatten)]
    pub view: ClusterView,
    /// How old the view is, in milliseconds.
    pub view_age_ms: u64,
    pub nodes: Vec<Node>,
    /// The cluster's number in the API's paths.
    pub id: u32,
    pub kind: Kind,
    /// Of the program.
    pub version: String,
    pub pid: u32,
    /// The port of applications.
    pub proxy: proxy::Stats,
    /// The port for reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_port: Option<proxy::Stats>,
    /// How warm the standbys are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm: Option<Warm>,
    /// Missing before the first look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Summary>,
    /// What the group's flow control did in the last second, as a sentence.
    pub flow_control: Option<String>,
    /// What each node of which anything is known could apply.
    pub capacity: Vec<NodeCapacity>,
}

/// One node, now. Its `view` may be read as if its fields were here.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Node {
    #[serde(flatten)]
    pub view: NodeView,
    /// Its last counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// How old they are, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_age_ms: Option<u64>,
    /// In the last second; missing where the counters are old, `null` where there are no two of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates: Option<Option<Rates>>,
    /// The same in the last minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates_minute: Option<Option<Rates>>,
    /// Missing before the first look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Outlook>,
}

/// The counters that each node had over a span of time. They are written in parts, and never whole in memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Samples {
    /// In the configuration's order.
    pub nodes: Vec<NodeSamples>,
}

/// Those of one node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NodeSamples {
    /// Its name.
    pub node: String,
    /// The oldest first.
    pub samples: Vec<Sample>,
}

/// An event of the live view: the counters of a node, as they come.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SampleEvent {
    /// Its name.
    pub node: String,
    /// Its counters.
    pub sample: Sample,
    /// In the last second, where there are two samples of it.
    pub rates: Option<Rates>,
}

/// What came of reading the configuration again.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Reloaded {
    /// What differs from before.
    pub changes: Vec<Change>,
}

/// A setting that differs, or a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Change {
    /// The setting's path, or `cluster.node` and the node's name.
    pub setting: String,
    /// From what to what.
    pub change: String,
}

impl Status {
    /// What the brain knows, and nothing else.
    pub fn of(view: &ClusterView) -> Self {
        let node = |view: &NodeView| Node { view: view.clone(), ..Node::default() };
        Self { nodes: view.nodes.iter().map(node).collect(), view: view.clone(), ..Self::default() }
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

impl Deref for Status {
    type Target = ClusterView;

    fn deref(&self) -> &ClusterView {
        &self.view
    }
}

impl Deref for Node {
    type Target = NodeView;

    fn deref(&self) -> &NodeView {
        &self.view
    }
}
