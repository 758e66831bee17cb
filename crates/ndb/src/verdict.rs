//! Two independent results about a restart: what the logs show, and what the rule of three checkpoints predicts.
//!
//! The rule is of 5.1: at each local checkpoint that starts without a node, the master's DBDIH block counts one more missed checkpoint for
//! that node, and at the third the node's state is taken over from another node, which is a full copy (`Dbdih::setLcpActiveStatusStart`;
//! the states `NS_ActiveMissed_1` and `_2`). Before 5.1 a restarted node copied everything, however little it had missed. The sources of
//! 7.x set `NS_ActiveMissed_1` regardless of how many are missed. Since 7.6.4 checkpoints are partial (release notes of 2018-01-31): each
//! writes what changed and a share of the rest, and a node restores its own, however old, runs its redo log, and fetches the rows that
//! changed since. Recordings of 9.7.4 show a restore from disk after eleven missed checkpoints.

use std::fmt;

use crate::event::{Start, Version};
use crate::node_log::OwnStart;
use crate::restart::Restart;

/// The first version in which a node restart uses local data at all.
const LOCAL_DATA: Version = Version(5, 1, 0);
/// From this version on the rule has no effect: checkpoints are partial.
pub const PARTIAL_CHECKPOINTS: Version = Version(7, 6, 4);
/// With this many missed checkpoints the rule predicts a full copy.
pub const RULE_MISSED: usize = 3;

/// Where a node's data came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Its own checkpoint and redo log; changed rows from another node.
    Disk,
    /// All of it from another node.
    FullCopy,
    /// Some fragments from its own checkpoint, some copied whole.
    Both {
        /// Fragments from its own checkpoint.
        from_lcp: u64,
        /// Fragments copied.
        by_copy: u64,
    },
    /// The given logs do not show it.
    NotKnown,
    /// Not a restart of one node: the whole cluster started.
    WholeCluster,
}

/// What happened, by the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Where the data came from, or was coming from when the start was aborted.
    pub source: Source,
    /// The evidence, with its figures; or which log would show it.
    pub because: String,
    /// Whether the start reached `Started`.
    pub is_finished: bool,
}

/// Whether the rule applies in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Before 5.1: a restarted node copies everything.
    AlwaysCopies,
    /// 5.1: three missed checkpoints cause a full copy.
    Decides,
    /// 6.0 to 7.6.3.
    NotEstablished,
    /// The log names no version.
    VersionNotNamed,
    /// 7.6.4 and later.
    DecidesNothing,
}

impl Rule {
    /// For a version, as far as it is known.
    pub fn of(version: Option<Version>) -> Self {
        match version {
            None => Self::VersionNotNamed,
            Some(version) if version < LOCAL_DATA => Self::AlwaysCopies,
            Some(Version(5, 1, _)) => Self::Decides,
            Some(version) if version < PARTIAL_CHECKPOINTS => Self::NotEstablished,
            Some(_) => Self::DecidesNothing,
        }
    }
}

/// What the rule predicts for a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// Disk or full copy; not known where the log does not show enough checkpoints to tell.
    pub source: Source,
    /// How many checkpoints were missed, as far as the log shows.
    pub missed: usize,
    /// How many at most; `None` where the log does not cover the whole absence.
    pub missed_max: Option<usize>,
    /// Whether the log shows any checkpoints at all.
    pub has_checkpoints: bool,
    /// Whether the prediction applies in this version.
    pub rule: Rule,
}

/// What the logs show about a restart; `own` is the same start in the node's own log.
pub fn happened(restart: &Restart, own: Option<&OwnStart>) -> Happened {
    let (source, because) = source(restart, own);
    Happened { source, because, is_finished: restart.started.is_some() }
}

fn source(restart: &Restart, own: Option<&OwnStart>) -> (Source, String) {
    if let Some(start @ (Start::SystemRestart | Start::Initial)) = restart.start {
        return (Source::WholeCluster, format!("the log says `{}`", start.name()));
    }
    let version = restart.version.or_else(|| own?.version);
    let rule = Rule::of(version);
    if let (Rule::AlwaysCopies, Some(version)) = (rule, version) {
        // Fragments are copied to a single node only, not at the start of a whole cluster.
        return if is_one_node(restart) {
            (
                Source::FullCopy,
                format!("NDB {version}: before {LOCAL_DATA} a restarted node copies everything"),
            )
        } else {
            (Source::NotKnown, "the cluster log does not say what kind of start it is".to_owned())
        };
    }
    if let Some((from_lcp, by_copy)) =
        own.and_then(|own| Some((own.from_lcp?, own.by_copy?))).filter(|both| *both != (0, 0))
    {
        let because =
            format!("its own log: {from_lcp} fragments from its checkpoint, {by_copy} copied whole");
        let source = match (from_lcp, by_copy) {
            (_, 0) => Source::Disk,
            (0, _) => Source::FullCopy,
            _ => Source::Both { from_lcp, by_copy },
        };
        return (source, because);
    }
    let is_initial = restart.start == Some(Start::InitialNodeRestart)
        || own.is_some_and(|own| own.start == Some(Start::InitialNodeRestart) || own.asked_gci == Some(0));
    if let Some(fragments) = restart.restored_fragments.filter(|fragments| *fragments > 0) {
        let id = restart.restored_lcp.map_or_else(String::new, |id| format!(" {id}"));
        return (
            Source::Disk,
            format!("cluster log: {fragments} fragments restored from its checkpoint{id}"),
        );
    }
    if restart.restored_fragments == Some(0) && (is_initial || restart.restored_lcp == Some(0)) {
        return (Source::FullCopy, "cluster log: no fragment restored from a checkpoint".to_owned());
    }
    if is_initial {
        return (Source::FullCopy, "an initial node restart: it began with nothing of its own".to_owned());
    }
    if let Some(lines) = own.map(|own| own.restore_lines).filter(|lines| *lines > 0) {
        return (Source::Disk, format!("its own log: {lines} lines of rows that RESTORE read from disk"));
    }
    if rule == Rule::DecidesNothing && restart.start == Some(Start::NodeRestart) {
        // Since partial checkpoints a node that has nothing to restore starts as an initial one.
        return (Source::Disk, "cluster log: a node restart, not an initial one".to_owned());
    }
    let because = if own.is_some_and(|own| own.empty_restore_lines > 0) {
        "its own log: RESTORE has applied 0 rows to each table: they were empty in its checkpoint, or all was copied"
    } else if own.is_some() {
        "neither the cluster log nor its own log says it"
    } else if restart.has_begun() {
        "the cluster log does not say it; the node's own log does (--node-log)"
    } else {
        "it has not been started again in this log"
    };
    (Source::NotKnown, because.to_owned())
}

/// It was not the start of a whole cluster.
fn is_one_node(restart: &Restart) -> bool {
    restart.start.is_some() || restart.data.is_some() || restart.fragments_copied > 0
}

/// What the rule of three checkpoints predicts. `has_checkpoints`: whether the log shows any checkpoints at all.
pub fn predicted(restart: &Restart, has_checkpoints: bool) -> Predicted {
    let (missed, missed_max) = (restart.lcps_missed, restart.lcps_missed_max);
    let rule = Rule::of(restart.version);
    let source = match restart.start {
        Some(Start::SystemRestart | Start::Initial) => Source::WholeCluster,
        _ if rule == Rule::AlwaysCopies && is_one_node(restart) => Source::FullCopy,
        _ if rule == Rule::AlwaysCopies => Source::NotKnown,
        _ if !has_checkpoints => Source::NotKnown,
        _ if missed >= RULE_MISSED => Source::FullCopy,
        _ if missed_max.is_some_and(|max| max < RULE_MISSED) => Source::Disk,
        _ => Source::NotKnown,
    };
    Predicted { source, missed, missed_max, has_checkpoints, rule }
}

impl Predicted {
    /// How many checkpoints were missed: `2`, `2 to 3`, `2 or more`, `not known`.
    pub fn count(&self) -> String {
        match self.missed_max {
            _ if !self.has_checkpoints => "not known".to_owned(),
            Some(max) if max == self.missed => max.to_string(),
            Some(max) => format!("{} to {max}", self.missed),
            None => format!("{} or more", self.missed),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk => write!(f, "restored from disk"),
            Self::FullCopy => write!(f, "full copy"),
            Self::Both { from_lcp, by_copy } => write!(f, "{from_lcp} fragments from disk, {by_copy} copied"),
            Self::NotKnown => write!(f, "not known"),
            Self::WholeCluster => write!(f, "start of the whole cluster"),
        }
    }
}

impl fmt::Display for Predicted {
    /// A sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Source::WholeCluster => return write!(f, "does not apply to a start of the whole cluster"),
            _ if self.rule == Rule::AlwaysCopies => {
                return write!(
                    f,
                    "does not apply before {LOCAL_DATA}: full copy, whatever was missed ({})",
                    self.count()
                );
            }
            _ if !self.has_checkpoints => {
                return write!(
                    f,
                    "the log shows no checkpoints, so none could be counted: ALL CLUSTERLOG CHECKPOINT=8 and NODERESTART=15 (--enable-logging) show them"
                );
            }
            source => {
                let were = if self.missed_max == Some(1) && self.missed == 1 {
                    "checkpoint was"
                } else {
                    "checkpoints were"
                };
                write!(f, "{} {were} started without it: {source}", self.count())?;
            }
        }
        match self.missed_max {
            Some(max) if max > self.missed => {
                write!(f, "; the log does not show when its data was complete")?;
            }
            None => write!(f, "; the log does not show its whole absence")?,
            Some(_) => {}
        }
        match self.rule {
            Rule::AlwaysCopies => Ok(()),
            Rule::Decides => write!(f, " (5.1: the rule decides)"),
            Rule::NotEstablished => {
                write!(f, " (the rule is of 5.1; whether it decides in this version is not established)")
            }
            Rule::VersionNotNamed => {
                write!(f, " (the rule is of 5.1; the log does not say which version this is)")
            }
            Rule::DecidesNothing => {
                write!(f, " (since {PARTIAL_CHECKPOINTS} the rule decides nothing: checkpoints are partial)")
            }
        }
    }
}
