//! Reads a data node's own log: for each start, where its data came from.

use crate::cluster::{Log, Window};
use crate::entry::Writer;
use crate::event::{Start, Version, number, number_after};
use crate::restart::Restart;
use crate::time::Moment;
use crate::wrong::{Note, Wrong};

/// How far the times of one start in the two logs may be apart, in microseconds: the clocks of two machines differ, and some time passes
/// between the node id and the first lines.
const APART_US: i64 = 15_000_000;

/// A data node's own log that is being read.
#[derive(Debug)]
pub struct NodeLog(Log<LogLine>);

/// The content of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LogLine {
    Begins { node: u32 },
    Version(Version),
    Start(Start),
    AskedGci(u64),
    Restorable(bool),
    Restored { from_lcp: u64, by_copy: u64 },
    RestoredTable { rows: u64 },
    KeepGci(u64),
}

/// One start of the process, from its own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnStart {
    /// The data node's id.
    pub node: u32,
    /// The time of the start's first line.
    pub began: Moment,
    /// The version that starts.
    pub version: Option<Version>,
    /// How it starts.
    pub start: Option<Start>,
    /// The global checkpoint up to which it has its own data; 0: it has none.
    pub asked_gci: Option<u64>,
    /// Whether its system file says that the node can be restored.
    pub is_restorable: Option<bool>,
    /// Fragments restored from its own checkpoint, the sum of all threads.
    pub from_lcp: Option<u64>,
    /// Fragments copied whole from another node, the sum of all threads.
    pub by_copy: Option<u64>,
    /// Log lines about tables or fragments of which the RESTORE block has read rows from disk.
    pub restore_lines: u64,
    /// Such lines with 0 rows: nothing was in its checkpoint, or nothing was taken from it.
    pub empty_restore_lines: u64,
    /// The global checkpoint from which its redo log is run, where checkpoints continued without it.
    pub keep_gci: Option<u64>,
}

/// The content of a node's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// The starts, in the order of time.
    pub starts: Vec<OwnStart>,
    /// Oddities of the log.
    pub notes: Vec<Note>,
}

fn said(text: &str) -> Option<LogLine> {
    if let Some((_, rest)) = text.split_once("NDB Cluster -- DB node ") {
        return Some(LogLine::Begins { node: u32::try_from(number(rest)?.0).ok()? });
    }
    if let Some(rest) = text.strip_prefix("We are performing ") {
        return match rest {
            "a node restart" => Some(LogLine::Start(Start::NodeRestart)),
            "initial node restart" => Some(LogLine::Start(Start::InitialNodeRestart)),
            _ => None,
        };
    }
    if text.starts_with("Asking master node to accept our start") {
        return Some(LogLine::AskedGci(number_after(text, "GCI = ")?.0));
    }
    if let Some(rest) = text.strip_prefix("Local sysfile: Node ") {
        let is_restorable = rest.starts_with("restorable");
        return (is_restorable || rest.starts_with("requires initial start"))
            .then_some(LogLine::Restorable(is_restorable));
    }
    if let Some((_, rest)) = text.split_once("Completed fuzzy restore ") {
        let (from_lcp, rest) = number_after(rest, "(")?;
        let (by_copy, _) = number_after(rest, "from LCP, ")?;
        return Some(LogLine::Restored { from_lcp, by_copy });
    }
    if let Some(rest) = text.strip_prefix("GSN_START_RECREQ keepGci: ") {
        return Some(LogLine::KeepGci(number(rest)?.0));
    }
    // `Version 5.1.16 (beta) --`, `mysql-5.1.35 ndb-7.0.7 --`, as the second line of a start.
    if text.ends_with(" --") && (text.starts_with("Version ") || text.starts_with("mysql-")) {
        return Some(LogLine::Version(Version::of(text)?));
    }
    // 9.x: `LDM instance 1: Restored T13F0 LCP 200230 rows, ...` for each fragment.
    if let Some((_, rest)) = text.split_once(": Restored T") {
        return Some(LogLine::RestoredTable { rows: number_after(rest, " LCP ")?.0 });
    }
    // 5.1: `RESTORE table: 5 500000 rows applied`, without a time.
    let (_, rest) = number(text.strip_prefix("RESTORE table: ")?)?;
    let (rows, rest) = number(rest.trim_start())?;
    (rest == " rows applied").then_some(LogLine::RestoredTable { rows })
}

impl NodeLog {
    /// A new log, before its first piece.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self(Log::new(Writer::DataNode, said, window))
    }

    /// Reads the next piece; pieces may be cut anywhere. Returns whether it makes sense to read on.
    pub fn feed(&mut self, piece: &[u8]) -> bool {
        self.0.feed(piece)
    }

    /// Ends the input and returns the starts.
    ///
    /// # Errors
    /// Why it is not a data node's log, or not a usable one.
    pub fn finish(self) -> Result<Own, Wrong> {
        let found = self.0.found()?;
        let mut starts: Vec<OwnStart> = Vec::new();
        for (time, said) in found.kept {
            take(&mut starts, time, &said);
        }
        Ok(Own { starts, notes: found.notes })
    }
}

fn take(starts: &mut Vec<OwnStart>, time: Moment, said: &LogLine) {
    if let LogLine::Begins { node } = *said {
        starts.push(OwnStart {
            node,
            began: time,
            version: None,
            start: None,
            asked_gci: None,
            is_restorable: None,
            from_lcp: None,
            by_copy: None,
            restore_lines: 0,
            empty_restore_lines: 0,
            keep_gci: None,
        });
    }
    let Some(own) = starts.last_mut() else { return };
    match *said {
        LogLine::Begins { .. } => {}
        LogLine::Version(version) => own.version = own.version.or(Some(version)),
        LogLine::Start(start) => own.start = Some(start),
        LogLine::AskedGci(gci) => own.asked_gci = Some(gci),
        LogLine::Restorable(is) => own.is_restorable = Some(is),
        LogLine::Restored { from_lcp, by_copy } => {
            own.from_lcp = Some(own.from_lcp.unwrap_or(0).saturating_add(from_lcp));
            own.by_copy = Some(own.by_copy.unwrap_or(0).saturating_add(by_copy));
        }
        LogLine::RestoredTable { rows: 0 } => own.empty_restore_lines += 1,
        LogLine::RestoredTable { .. } => own.restore_lines += 1,
        LogLine::KeepGci(gci) => own.keep_gci = Some(gci),
    }
}

impl OwnStart {
    /// Whether this is the same start as `restart` of the cluster log.
    pub fn is_of(&self, restart: &Restart) -> bool {
        if self.node != restart.node {
            return false;
        }
        match (restart.node_id, restart.failed, restart.started) {
            (Some(id), ..) => self.began.since_us(id).abs() <= APART_US,
            (None, Some(failed), ended) => {
                self.began >= failed && ended.is_none_or(|ended| self.began <= ended)
            }
            _ => false,
        }
    }
}
