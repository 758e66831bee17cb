//! Parses the entries of a cluster log that concern restarts and checkpoints. All others are ignored.

use std::fmt;

/// A data node's id.
pub(crate) type Node = u32;

/// A version of NDB: `7.6.4`. From before NDB had version numbers of its own, the server's: `5.1.16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    /// From `mysql-9.7.4 ndb-9.7.4`, `mysql-5.1.35 ndb-7.0.7`, `version 5.1.16`, `Version 5.1.16 (beta)` or `5.1.16`.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let number = match text.rsplit_once("ndb-") {
            Some((_, after)) => after,
            None => text.trim_start_matches(|char: char| !char.is_ascii_digit()),
        };
        let mut parts = number.splitn(3, '.');
        let mut next = || {
            let part = parts.next()?;
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            part.get(..digits)?.parse::<u32>().ok()
        };
        Some(Self(next()?, next()?, next()?))
    }
}

/// How a node starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With its own checkpoint and redo log, as far as they are usable.
    NodeRestart,
    /// Without any data of its own.
    InitialNodeRestart,
    /// The whole cluster, from disk.
    SystemRestart,
    /// The whole cluster, empty.
    Initial,
}

impl Start {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "node restart" => Self::NodeRestart,
            "initial node restart" => Self::InitialNodeRestart,
            "system restart" => Self::SystemRestart,
            "initial start" => Self::Initial,
            _ => return None,
        })
    }

    /// The name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeRestart => "node restart",
            Self::InitialNodeRestart => "initial node restart",
            Self::SystemRestart => "system restart",
            Self::Initial => "initial start",
        }
    }
}

/// The steps that a master reports in `NR Status` lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Failed,
    Handled,
    NodeId,
    Heartbeat,
    Restore,
    Redo,
    Index,
    Synchronise,
    WaitLcp,
    Handover,
    Completed,
}

impl Step {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "Node failed, fail handling ongoing" => Self::Failed,
            "Node failure handling complete" => Self::Handled,
            "Allocated node id" => Self::NodeId,
            "Included in heartbeat protocol" => Self::Heartbeat,
            "Restore fragments ongoing" => Self::Restore,
            // Undo of disk data and redo are treated as one part.
            "Undo Disk data ongoing" => Self::Redo,
            "Build indexes ongoing" => Self::Index,
            "Synchronize start node with live nodes" => Self::Synchronise,
            "Wait LCP to ensure durability" => Self::WaitLcp,
            "Wait handover of subscriptions" => Self::Handover,
            "Restart completed" => Self::Completed,
            _ => return None,
        })
    }
}

/// The content of an entry of the cluster log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    StopAsked {
        node: Node,
    },
    StopAborted {
        node: Node,
    },
    /// The process has ended; `why` is the reason of a forced shutdown.
    ProcessEnded {
        node: Node,
        why: Option<String>,
    },
    Silent {
        node: Node,
    },
    DeclaredDead {
        node: Node,
    },
    Failed {
        reporter: Node,
        node: Node,
    },
    FailureHandled {
        node: Node,
    },
    Status {
        reporter: Node,
        node: Node,
        step: Step,
    },
    NodeId {
        node: Node,
    },
    /// A node id is given out to a program of any kind.
    Reserved {
        node: Node,
    },
    ApiNode {
        node: Node,
    },
    Using {
        node: Node,
        start: Start,
    },
    Phase {
        node: Node,
        phase: u32,
        start: Option<Start>,
    },
    Begins {
        node: Node,
        version: Option<Version>,
    },
    Runs {
        node: Node,
        version: Option<Version>,
    },
    DataBegins {
        node: Node,
    },
    DataCompleted {
        node: Node,
    },
    FragmentCopied {
        node: Node,
    },
    RestoredLcp {
        node: Node,
        id: u64,
    },
    RestoredFragments {
        node: Node,
        fragments: u64,
        rows: u64,
    },
    Redo {
        node: Node,
        from_gci: u64,
        to_gci: u64,
    },
    CopyComplete {
        node: Node,
        rows: u64,
        rows_removed: u64,
        bytes: u64,
    },
    OwnLcp {
        node: Node,
        id: u64,
    },
    LcpStarted {
        id: u64,
    },
    LcpCompleted {
        id: u64,
    },
    LcpRecords {
        bytes: u64,
    },
    Started {
        node: Node,
        version: Option<Version>,
    },
}

/// The number at the beginning, and the text after it.
pub(crate) fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// The number after the first `label`, and the text after it.
pub(crate) fn number_after<'a>(text: &'a str, label: &str) -> Option<(u64, &'a str)> {
    let (_, rest) = text.split_once(label)?;
    number(rest.trim_start())
}

/// No node's id is above 255.
fn node(text: &str) -> Option<(Node, &str)> {
    let (id, rest) = number(text)?;
    Some((u8::try_from(id).ok()?.into(), rest))
}

fn node_after<'a>(text: &'a str, label: &str) -> Option<(Node, &'a str)> {
    let (_, rest) = text.split_once(label)?;
    node(rest.trim_start())
}

/// Parses the text of an entry; `Node 49: ` at its beginning names the reporting node.
pub(crate) fn of(text: &str) -> Option<Event> {
    let reported = text
        .strip_prefix("Node ")
        .and_then(|rest| node(rest.trim_start()))
        .and_then(|(id, rest)| Some((id, rest.trim_start().strip_prefix(':')?.trim_start())));
    match reported {
        Some((reporter, text)) => of_node(reporter, text),
        None => of_management(text),
    }
}

fn of_management(text: &str) -> Option<Event> {
    // The line of 8.0 and later; the line of 5.0 and 5.1, which names no kind of program, follows below.
    if let Some((id, rest)) = text.strip_prefix("Nodeid ").and_then(node) {
        return match rest {
            rest if rest.starts_with(" allocated for NDB") => Some(Event::NodeId { node: id }),
            rest if rest.starts_with(" allocated for") => Some(Event::ApiNode { node: id }),
            _ => None,
        };
    }
    let (id, rest) = node_after(text, "Mgmt server state: nodeid ")?;
    rest.starts_with(" reserved").then_some(Event::Reserved { node: id })
}

fn of_node(reporter: Node, text: &str) -> Option<Event> {
    if let Some(rest) = text.strip_prefix("NR Status: node=") {
        let (id, rest) = node(rest)?;
        let (_, new) = rest.split_once(",NEW=")?;
        return Some(Event::Status { reporter, node: id, step: Step::of(new)? });
    }
    if let Some(rest) = text.strip_prefix("Local checkpoint ") {
        let (id, rest) = number(rest)?;
        return match rest {
            " completed" => Some(Event::LcpCompleted { id }),
            rest if rest.starts_with(" started") => Some(Event::LcpStarted { id }),
            _ => None,
        };
    }
    if let Some(rest) = text.strip_prefix("Start phase ") {
        let (phase, rest) = node(rest)?;
        let start = rest.strip_prefix(" completed")?.trim();
        let start = start.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).and_then(Start::of);
        // The kind is correct from phase 2 on only: before, the node does not know it yet.
        return Some(Event::Phase { node: reporter, phase, start: start.filter(|_| phase >= 2) });
    }
    if let Some(rest) = text.strip_prefix("Start node: ") {
        let (id, rest) = node(rest)?;
        return Some(Event::Using { node: id, start: Start::of(rest.strip_prefix(" using ")?)? });
    }
    if let Some(rest) = text.strip_prefix("Start initiated (") {
        return Some(Event::Begins { node: reporter, version: Version::of(rest) });
    }
    if let Some(rest) = text.strip_prefix("Started (") {
        return Some(Event::Started { node: reporter, version: Version::of(rest) });
    }
    of_failure(reporter, text).or_else(|| of_data(reporter, text))
}

fn of_failure(reporter: Node, text: &str) -> Option<Event> {
    if text == "Node shutdown initiated" || text == "Cluster shutdown initiated" {
        return Some(Event::StopAsked { node: reporter });
    }
    if text == "Node shutdown aborted" {
        return Some(Event::StopAborted { node: reporter });
    }
    if text.starts_with("Node shutdown completed") {
        return Some(Event::ProcessEnded { node: reporter, why: None });
    }
    if let Some(rest) = text.strip_prefix("Forced node shutdown completed") {
        let why = ["Initiated by ", "Caused by "].iter().find_map(|by| Some(rest.split_once(by)?.1));
        return Some(Event::ProcessEnded {
            node: reporter,
            why: why.map(|why| why.trim_end_matches('.').to_owned()),
        });
    }
    if let Some(rest) = text.strip_prefix("All nodes completed failure of Node ") {
        return Some(Event::FailureHandled { node: node(rest)?.0 });
    }
    let (id, rest) = node(text.strip_prefix("Node ")?)?;
    match rest {
        rest if rest.starts_with(" has failed") => Some(Event::Failed { reporter, node: id }),
        rest if rest.starts_with(" missed heartbeat") => Some(Event::Silent { node: id }),
        rest if rest.starts_with(" declared dead") => Some(Event::DeclaredDead { node: id }),
        // `Node 2: Node 3: API version 5.1.16`, `API mysql-5.1.35 ndb-7.0.7`: what another node runs.
        rest => Some(Event::Runs { node: id, version: Version::of(rest.strip_prefix(": API ")?) }),
    }
}

fn of_data(reporter: Node, text: &str) -> Option<Event> {
    if let Some(rest) = text.strip_prefix("Node restart starting to copy the fragments to Node ") {
        return Some(Event::DataBegins { node: node(rest)?.0 });
    }
    if let Some(rest) = text.strip_prefix("Node restart completed copying the fragments to Node ") {
        return Some(Event::DataCompleted { node: node(rest)?.0 });
    }
    if let Some((id, _)) = text.strip_prefix("Node Start completed restore of LCP id: ").and_then(number) {
        return Some(Event::RestoredLcp { node: reporter, id });
    }
    if text.starts_with("Table ID = ") {
        let (_, rest) = text.split_once("have been ")?;
        let (id, _) = node_after(rest, "to Node ")?;
        return Some(Event::FragmentCopied { node: id });
    }
    if text.starts_with("Make On-line Database recoverable by waiting for LCP Starting") {
        let (node, rest) = node_after(text, "on node ")?;
        return Some(Event::OwnLcp { node, id: number_after(rest, "LCP id ")?.0 });
    }
    if let Some((_, rest)) = text.split_once("Restored LCP : ") {
        let (fragments, rest) = number(rest)?;
        let (rows, _) = number_after(rest, "fragments, ")?;
        return Some(Event::RestoredFragments { node: reporter, fragments, rows });
    }
    if let Some((_, rest)) = text.split_once("run redo from  gci: ") {
        let (from_gci, rest) = number(rest)?;
        return Some(Event::Redo { node: reporter, from_gci, to_gci: number_after(rest, "gci: ")?.0 });
    }
    if let Some((_, rest)) = text.split_once("CopyFrag complete. ") {
        let (rows, rest) = number_after(rest, "+")?;
        let (rows_removed, rest) = number_after(rest, "/-")?;
        let (bytes, _) = number_after(rest, "rows, ")?;
        return Some(Event::CopyComplete { node: reporter, rows, rows_removed, bytes });
    }
    let (_, rest) = text.split_once("Completed LCP, #frags")?;
    Some(Event::LcpRecords { bytes: number_after(rest, "#bytes = ")?.0 })
}
