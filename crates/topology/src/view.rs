//! What `status`, the dashboard, the metrics and the health endpoint show: a snapshot of all that the brain knows, ready to be serialised.
//!
//! Made by [`crate::brain::Brain::view`]. The brain decides nothing from it. Whoever asks whether a node may take traffic uses
//! [`ClusterView::ask`], which applies the brain's table of rules to the same knowledge.

use std::time::Duration;

use crate::about::About;
pub use crate::action::Level;
use crate::finding::{self, Finding, Serves};
pub use crate::finding::{NodeState, Problem};
use crate::health::Question;
use crate::heartbeat::Stall;
use crate::reads;
use crate::routes::LaneState;
use crate::settings::Writers;
use crate::status::Status;
use crate::time::seconds;
use crate::{NodeId, Term};

/// The whole cluster, now.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct ClusterView {
    /// The cluster's name.
    pub cluster: String,
    /// Who takes writes.
    pub writers: Writers,
    /// The writer decision in force.
    pub term: Term,
    /// The version of the routes published last. The API has the program's version under that name.
    #[serde(skip)]
    pub version: u64,
    /// The writer's name (`writers = "one"`); also while its lane is held.
    pub writer: Option<String>,
    /// When another node last became the writer, in milliseconds since the program started; `None` when none has.
    pub writer_changed_ms: Option<u64>,
    /// The node that a switchover without a named target would choose (`writers = "one"`).
    pub candidate: Option<String>,
    /// Whether any lane is open.
    pub gate: TrafficFlow,
    /// When no lane is open: why.
    pub hold_because: Option<String>,
    /// The order or move in progress, as one sentence.
    pub order: Option<String>,
    /// How often the cluster was given a Primary component again since the program started (`bootstrap = "proven"`).
    pub bootstraps: u64,
    /// How often the writer was moved, or a member evicted, since the program started.
    pub counts: Counts,
    /// The nodes, in the configuration's order. The API's status has each with what others know of it.
    #[serde(skip)]
    pub nodes: Vec<NodeView>,
    /// The last decisions, newest last, at most 50.
    pub decisions: Vec<Decision>,
    /// Milliseconds since the program started.
    pub now_ms: u64,
    /// When the program started, milliseconds since 1970 (filled in by the shell; the core has no calendar).
    pub started_unix_ms: u64,
}

/// Decisions by their result, since the program started.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(default)]
pub struct Counts {
    /// The writer was lost, and the choice of another began.
    pub failovers_begun: u64,
    /// Another node took over as the writer.
    pub failovers_done: u64,
    /// The writer was handed over while it worked.
    pub switchovers_done: u64,
    /// A switchover that was abandoned: the old writer continued.
    pub switchovers_undone: u64,
    /// The old writer was lost during a switchover, which continued as a failover.
    pub switchovers_became_failovers: u64,
    /// Members evicted from a Galera group.
    pub evictions_done: u64,
    /// Evictions that failed, and are tried again.
    pub evictions_failed: u64,
    /// Members that were to be evicted, and were found to be still connected to the group.
    pub evictions_spared: u64,
}

/// Whether statements flow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum TrafficFlow {
    /// At least one lane takes new transactions.
    Open,
    /// None does: new transactions wait.
    #[default]
    #[serde(other)]
    Held,
}

/// One node, now.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct NodeView {
    /// Which node it is, within this process.
    #[serde(skip)]
    pub id: NodeId,
    /// Its place in the configuration, from 0.
    #[serde(rename = "id")]
    pub place: u8,
    /// Its name.
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// Its state.
    pub state: NodeState,
    /// Why, as one sentence.
    pub reason: String,
    /// What it may be used for, suspicions aside.
    pub serves: Serves,
    /// The name of the problem with it: `dead`, `donor`, ...; nothing when it is well.
    pub problem: Option<Problem>,
    /// A suspicion: something happened that may mean its end. No new statement is sent there until it has answered a question about it.
    pub doubt: Option<String>,
    /// A finding that does not come from its own status: it does not answer, was drained, ...
    pub others: Option<Finding>,
    /// For how long it has been in that state, in milliseconds.
    pub since_ms: u64,
    /// Whether it takes statements.
    pub lane: LaneState,
    /// The epoch of its lane.
    pub epoch: u64,
    /// Every link of an earlier epoch was cut: nothing more is sent on one, nor what had not left this machine.
    pub links_gone: bool,
    /// The limit of its sessions; 0 is drained.
    pub sessions_max: Option<u32>,
    /// It is drained for the time of some work on it, and not by an operator.
    #[serde(skip)]
    pub has_temporary_drain: bool,
    /// It is the writer (`writers = "one"`).
    pub writer: bool,
    /// Its priority in elections.
    pub priority: u32,
    /// The permanently open link to it is connected.
    pub linked: bool,
    /// How the port for reads uses it.
    pub reads: reads::View,
    /// Probes missed in a row.
    pub misses: u32,
    /// Milliseconds since it last answered a status query.
    pub answered_ms_ago: Option<u64>,
    /// What an operator should do about it, one sentence each.
    pub advice: Vec<String>,
    /// For how long it has not committed, milliseconds, and why; nothing when its heartbeats are answered, or none are sent.
    pub stuck: Option<Stuck>,
    /// The last answer to the status query.
    pub facts: Option<Status>,
}

/// A node that answers and does not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Stuck {
    /// For so long, in milliseconds.
    pub ms: u64,
    /// Why, as far as the server shows it.
    pub why: Stall,
}

impl ClusterView {
    /// The node with that id, if the configuration has it.
    pub fn node(&self, id: NodeId) -> Option<&NodeView> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Answers a question about a node from all that is known of it; `None` when there is no such node.
    ///
    /// Uses the same table as [`crate::health::ask`], after the findings that do not come from the node itself: a node that is dead,
    /// silent, has left, was drained, was shut out or is under suspicion is not good, whatever it reported last. The writer is the one in
    /// force; with `writers = "all"`, each node that takes transactions.
    pub fn ask(&self, name: &str, question: Question) -> Option<Result<(), Finding>> {
        let node = self.nodes.iter().find(|node| node.name == name)?;
        Some(match question {
            Question::Member(rules) => node.admit(rules),
            Question::Writer => self.writes(node),
            Question::Replica { lag_max } => node.replicates(lag_max),
        })
    }

    /// Whether some node takes writes now.
    ///
    /// # Errors
    /// Why they wait.
    pub fn ask_for_writer(&self) -> Result<(), Finding> {
        match self.gate {
            TrafficFlow::Open => Ok(()),
            TrafficFlow::Held => {
                Err(Problem::Held
                    .found(self.hold_because.clone().unwrap_or_else(|| "no lane is open".into())))
            }
        }
    }

    fn writes(&self, node: &NodeView) -> Result<(), Finding> {
        if let Some(finding) = node.finding().filter(|finding| finding.serves == Serves::No) {
            return Err(finding);
        }
        if let Some(finding) = node.finding().filter(|finding| finding.problem == Problem::NotCommitting) {
            return Err(finding);
        }
        match self.writers {
            Writers::One if !node.writer => {
                let who =
                    self.writer.as_deref().map_or_else(|| "nobody is".into(), |name| format!("{name} is"));
                Err(Problem::NotWriter.found(format!("is not the writer: {who}")))
            }
            // Transactions on it may end; new ones go to other nodes.
            Writers::All if node.serves == Serves::Leaves => node.finding().map_or(Ok(()), Err),
            _ if node.lane == LaneState::Shut => {
                let why = self.hold_because.as_deref().unwrap_or("it has not been let in yet");
                Err(Problem::LaneShut.found(format!("takes no transactions: {why}")))
            }
            _ => Ok(()),
        }
    }
}

impl NodeView {
    /// The findings about the node, except for what `rules` forgive. Those from elsewhere come before those of its own status.
    fn admit(&self, rules: finding::Rules) -> Result<(), Finding> {
        if let Some(doubt) = self.doubted() {
            return Err(doubt);
        }
        let own = self.facts.as_ref().and_then(|facts| facts.admit(rules).err());
        let is_forgiven = |others: &Finding| rules.drained && others.problem == Problem::Drained;
        let others = self.others.clone().filter(|others| !is_forgiven(others));
        finding::graver(others, own).map_or(Ok(()), Err)
    }

    /// Whether its data is recent enough. Judged by the age of the data, not by Seconds_Behind_Master.
    fn replicates(&self, lag_max: Option<Duration>) -> Result<(), Finding> {
        let is_server = self.facts.as_ref().is_some_and(|facts| facts.replication().is_some());
        if let Some(finding) = self.finding()
            && (finding.serves == Serves::No || finding.problem == Problem::Drained)
        {
            return Err(finding);
        }
        if !is_server {
            let text = "does not tell whether it replicates: a Galera cluster is watched here, not replicas";
            return Err(Problem::NotAsked.found(text));
        }
        if self.writer {
            return Err(Problem::NoReplica.found("is not a replica: it is the primary"));
        }
        let most = lag_max.unwrap_or(Duration::from_millis(self.reads.age_max_ms));
        match self.reads.age_ms.map(Duration::from_millis) {
            None => Err(Problem::LagUnknown.found("has not been compared with the primary yet")),
            Some(age) if age > most => {
                let text =
                    format!("is {} behind the primary, and {} are allowed", seconds(age), seconds(most));
                Err(Problem::Lag.found(text))
            }
            Some(_) => Ok(()),
        }
    }

    /// The brain's finding, with nothing forgiven.
    fn finding(&self) -> Option<Finding> {
        self.doubted().or_else(|| {
            let (problem, sentence) = (self.problem?, self.reason.clone());
            Some(Finding { problem, state: self.state, serves: self.serves, sentence })
        })
    }

    fn doubted(&self) -> Option<Finding> {
        self.doubt.as_ref()?;
        Some(Finding {
            problem: Problem::Doubt,
            state: self.state,
            serves: Serves::No,
            sentence: self.reason.clone(),
        })
    }
}

/// A decision as a sentence, and its time.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Decision {
    /// Milliseconds since 1970 (from the brain itself: since the program started; the shell adds its start).
    pub at_unix_ms: u64,
    /// Its severity.
    pub level: Level,
    /// The sentence.
    pub text: String,
    /// The writer decision in force at that time.
    #[serde(default)]
    pub term: u64,
    /// What it is about.
    #[serde(default, skip_serializing_if = "About::is_other")]
    pub about: About,
}
