//! Finds cycles of dependencies between transactions, with the crate `adya`, a port of Elle's checker of list histories.
//!
//! Which cycles are wrong depends on the isolation level: InnoDB's REPEATABLE READ, where a write sees more than the reads around it,
//! shows several on one server, too. They are therefore compared by [`Family`] with those of the same workload on one server. What is
//! wrong at every level is found by [`super::judge`] without this crate.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use adya::history::{Id, Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{History, Opts, Workload};
use serde::Serialize;

use super::history::{Step, Transaction};
use super::judge::{Finding, Kind, Lists};
use crate::ledger::CommitResult;

/// Limit for the search in each group of transactions that depend on one another.
const SEARCH_WITHIN: Duration = Duration::from_secs(20);
/// How much of an explanation is kept.
const TEXT_MAX: usize = 4000;

/// Groups of anomalies that have one cause in an isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Writes in a cycle, or reads of what was never committed: no level of InnoDB in use here allows it.
    Dirty,
    /// A read that a later write in the cycle contradicts: snapshots that writes do not obey.
    Snapshot,
    /// The same, only if the order of completion counts.
    SnapshotInTime,
    /// The search ended at its limit, or the history has no dependencies: nothing is known.
    Unknown,
}

impl Family {
    /// The family of an anomaly by Elle's name; a name that is not known is the gravest.
    fn of(name: &str) -> Self {
        let in_time =
            name.ends_with("-realtime") || name.ends_with("-process") || name.starts_with("strong-");
        let bare = name.trim_end_matches("-realtime").trim_end_matches("-process");
        let with_reads = ["G-single", "G-nonadjacent", "G2"].iter().any(|start| bare.starts_with(start))
            || ["internal", "lost-update"].contains(&bare)
            || ["PL-SI-", "PL-2.99-", "PL-3-", "PL-SS-", "snapshot-isolation-", "serializable-"].iter().any(
                |part| bare.trim_start_matches("strong-").trim_start_matches("session-").starts_with(part),
            );
        match (with_reads, in_time) {
            (true, true) => Self::SnapshotInTime,
            (true, false) => Self::Snapshot,
            (false, _) if ["cycle-search-timeout", "empty-transaction-graph"].contains(&bare) => {
                Self::Unknown
            }
            (false, _) => Self::Dirty,
        }
    }
}

/// The anomalies of one history.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cycles {
    /// How many there are by Elle's names; of cycles, one of each name and group of transactions is told.
    pub count_by_name: BTreeMap<String, usize>,
    /// One explanation of each name, with its transactions.
    pub explained: BTreeMap<String, String>,
}

impl Cycles {
    fn families(&self) -> BTreeSet<Family> {
        self.count_by_name.keys().map(|name| Family::of(name)).collect()
    }

    /// The anomalies of a family that `direct` does not show.
    pub fn beyond(&self, direct: &Self, level: &str) -> Vec<Finding> {
        let mut allowed = direct.families();
        if allowed.contains(&Family::Snapshot) {
            // A write that sees more than the reads around it also contradicts the order of completion; a read that misses what was
            // acknowledged before it began does too, and is found without cycles.
            allowed.insert(Family::SnapshotInTime);
        }
        let beyond = self.explained.iter().filter(|(name, _)| !allowed.contains(&Family::of(name)));
        beyond
            .map(|(name, text)| {
                let count = self.count_by_name.get(name).copied().unwrap_or(1);
                Finding::new(Kind::Cycle, format!("{level}: {name}, {count} times, for example:\n{text}"))
            })
            .collect()
    }
}

/// Finds the anomalies in a history; `end` are the lists at the end, read after all transactions.
pub fn find(history: &[Transaction], end: &Lists) -> Cycles {
    let found = adya::check(&as_history(history, end), Workload::ListAppend, &options());
    let mut cycles = Cycles::default();
    for (name, anomalies) in found.anomalies {
        if let Some(first) = anomalies.first() {
            let text: String = first.explanation.chars().take(TEXT_MAX).collect();
            cycles.explained.insert(name.clone(), text);
        }
        cycles.count_by_name.insert(name, anomalies.len());
    }
    cycles
}

/// All anomalies of the strictest model: which of them count is decided by comparison.
fn options() -> Opts {
    Opts { models: vec!["strict-serializable".into()], timeout: SEARCH_WITHIN, ..Opts::default() }
}

/// Numbers of keys and values as the crate keeps them.
#[derive(Default)]
struct Names {
    all: Interner,
    ids: HashMap<(bool, u64), Id>,
}

impl Names {
    fn id(&mut self, is_key: bool, number: u64) -> Id {
        let all = &mut self.all;
        *self.ids.entry((is_key, number)).or_insert_with(|| {
            all.intern(if is_key {
                Scalar::Str(format!("list {number}"))
            } else {
                Scalar::Int(i64::try_from(number).unwrap_or(i64::MAX))
            })
        })
    }

    fn step(&mut self, step: &Step, answered: bool) -> Mop {
        match step {
            Step::Append { key, value } => {
                Mop::Append { key: self.id(true, (*key).into()), value: self.id(false, *value) }
            }
            Step::Read { key, list } => {
                let value = match list {
                    Some(list) if answered => {
                        ReadValue::List(list.iter().map(|value| self.id(false, *value)).collect())
                    }
                    _ => ReadValue::Nil,
                };
                Mop::Read { key: self.id(true, (*key).into()), value }
            }
        }
    }
}

/// The history as the crate wants it: a begin and an end of each transaction, in order. Each transaction is a process of its own, as
/// the order within a client is part of the order in time. Transactions on the port for reads may show the past: they are left out.
fn as_history(history: &[Transaction], end: &Lists) -> History {
    let current: Vec<&Transaction> = history.iter().filter(|it| !it.may_be_old).collect();
    let mut moments: Vec<(Duration, bool, usize)> = Vec::new();
    for (at, transaction) in current.iter().enumerate() {
        moments.push((transaction.invoked, false, at));
        moments.push((transaction.done, true, at));
    }
    // At one moment begins come before ends, so that the two count as concurrent.
    moments.sort_unstable();
    let mut names = Names::default();
    let mut ops: Vec<Op> = Vec::new();
    let mut push = |kind, process: usize, value| {
        ops.push(Op {
            index: ops.len() as u64,
            kind,
            process: i64::try_from(process).ok(),
            value,
            time: None,
        });
    };
    for (_, is_end, at) in moments {
        let transaction = current[at];
        let kind = match (is_end, transaction.outcome) {
            (false, _) => OpType::Invoke,
            (true, CommitResult::Ok) => OpType::Ok,
            (true, CommitResult::Failed) => OpType::Fail,
            (true, CommitResult::Unknown) => OpType::Info,
        };
        let answered = kind == OpType::Ok;
        push(kind, at, transaction.steps.iter().map(|step| names.step(step, answered)).collect());
    }
    let last: Vec<Step> =
        end.iter().map(|(key, list)| Step::Read { key: *key, list: Some(list.clone()) }).collect();
    for (kind, answered) in [(OpType::Invoke, false), (OpType::Ok, true)] {
        push(kind, current.len(), last.iter().map(|step| names.step(step, answered)).collect());
    }
    History::from_ops(ops, names.all)
}

#[cfg(test)]
mod tests {
    use super::super::judge::tests::{append, ok, read};
    use super::*;

    fn names(history: &[Transaction], end: &[(u32, &[u64])]) -> Vec<String> {
        let end = end.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        find(history, &end).count_by_name.into_keys().collect()
    }

    #[test]
    fn a_serial_history_has_no_cycles() {
        let history = [ok(0, 1, vec![append(1, 1)]), ok(2, 3, vec![read(1, &[1]), append(2, 2)])];
        assert_eq!(names(&history, &[(1, &[1]), (2, &[2])]), Vec::<String>::new());
    }

    #[test]
    fn write_skew_a_lost_update_and_a_cycle_of_writes_are_found() {
        let skew = [ok(0, 9, vec![read(1, &[]), append(2, 2)]), ok(0, 9, vec![read(2, &[]), append(1, 1)])];
        assert_eq!(names(&skew, &[(1, &[1]), (2, &[2])]), ["G2-item"]);
        let update = [ok(0, 9, vec![read(1, &[]), append(1, 1)]), ok(0, 9, vec![read(1, &[]), append(1, 2)])];
        assert!(names(&update, &[(1, &[1, 2])]).contains(&"lost-update".to_owned()));
        let single =
            [ok(0, 9, vec![append(1, 1), append(2, 2)]), ok(0, 9, vec![read(1, &[1]), read(2, &[])])];
        assert_eq!(names(&single, &[(1, &[1]), (2, &[2])]), ["G-single-item"]);
        let writes = [ok(0, 9, vec![append(1, 1), append(2, 2)]), ok(0, 9, vec![append(1, 3), append(2, 4)])];
        assert_eq!(names(&writes, &[(1, &[1, 3]), (2, &[4, 2])]), ["G0"]);
    }

    #[test]
    fn lost_aborted_and_backward_reads_are_found_here_too() {
        assert_eq!(names(&[ok(0, 1, vec![append(1, 1)])], &[(1, &[])]), ["G-single-item-realtime"]);
        let failed = Transaction { outcome: CommitResult::Failed, ..ok(0, 1, vec![append(1, 1)]) };
        assert!(names(&[failed, ok(2, 3, vec![read(1, &[1])])], &[(1, &[])]).contains(&"G1a".to_owned()));
        let backward = [ok(0, 1, vec![append(1, 1)]), ok(2, 3, vec![read(1, &[])])];
        assert_eq!(names(&backward, &[(1, &[1])]), ["G-single-item-realtime"]);
    }

    #[test]
    fn only_families_that_one_server_does_not_show_count() {
        let of = |names: &[&str]| Cycles {
            count_by_name: names.iter().map(|name| ((*name).to_owned(), 1)).collect(),
            explained: names.iter().map(|name| ((*name).to_owned(), String::new())).collect(),
        };
        let snapshot = of(&["G2-item"]);
        assert!(
            of(&["internal", "G-single-item", "G-single-item-realtime"]).beyond(&snapshot, "").is_empty()
        );
        assert_eq!(of(&["G1a", "G0", "incompatible-order", "G1c-realtime"]).beyond(&snapshot, "").len(), 4);
        assert_eq!(of(&["G2-item", "strong-snapshot-isolation-cycle-exists"]).beyond(&of(&[]), "").len(), 2);
        assert_eq!(of(&["cycle-search-timeout"]).beyond(&snapshot, "").len(), 1);
        assert_eq!(Family::of("something-new"), Family::Dirty);
        assert_eq!(Family::of("PL-2-cycle-exists"), Family::Dirty);
        assert_eq!(Family::of("PL-SI-cycle-exists"), Family::Snapshot);
        assert_eq!(Family::of("strong-session-serializable-cycle-exists"), Family::SnapshotInTime);
    }
}
