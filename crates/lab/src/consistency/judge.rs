//! Compares what the clients were told and read with the rows at the end, without any knowledge of isolation levels. Pure.
//!
//! Every finding here is wrong at any isolation level. Cycles between transactions, which some levels allow, are found by
//! [`super::cycles`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::Serialize;

use super::history::{Step, Transaction};
use crate::ledger::CommitResult;

/// The kinds of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Acknowledged, and not there.
    Lost,
    /// There more than once.
    Doubled,
    /// Failed or never sent, and there, or read.
    Aborted,
    /// A read shows less than was acknowledged, or read, before it began.
    Backward,
    /// A read is not a beginning of the list at the end.
    Order,
    /// Money appeared or vanished.
    Bank,
    /// An id was given twice, or is not the one that the client was told.
    Ids,
    /// Nodes have different rows at the end.
    Differ,
    /// A cycle of dependencies that the workload on one server does not show.
    Cycle,
}

impl Kind {
    /// In a text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Aborted => "aborted",
            Self::Backward => "backward",
            Self::Order => "order",
            Self::Bank => "bank",
            Self::Ids => "ids",
            Self::Differ => "differ",
            Self::Cycle => "cycle",
        }
    }
}

/// Something that must not be.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// The same with its transactions.
    pub text: String,
}

impl Finding {
    /// A finding.
    pub fn new(kind: Kind, text: String) -> Self {
        Self { kind, text }
    }
}

/// Compares outcomes (number, outcome) with the numbers that are on a node.
pub fn appears(what: &str, told: &[(u64, CommitResult)], node: &str, found: &[u64]) -> Vec<Finding> {
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    for id in found {
        *times.entry(*id).or_default() += 1;
    }
    let outcomes: HashMap<u64, CommitResult> = told.iter().copied().collect();
    let mut findings = Vec::new();
    for (id, count) in &times {
        if *count > 1 {
            findings.push(Finding::new(Kind::Doubled, format!("{what} {id} is {count} times on {node}")));
        }
        match outcomes.get(id) {
            Some(CommitResult::Failed) => {
                findings.push(Finding::new(Kind::Aborted, format!("{what} {id} failed, and is on {node}")));
            }
            None => {
                findings.push(Finding::new(
                    Kind::Aborted,
                    format!("{what} {id} was never sent, and is on {node}"),
                ));
            }
            Some(CommitResult::Ok | CommitResult::Unknown) => {}
        }
    }
    for (id, outcome) in told {
        if *outcome == CommitResult::Ok && !times.contains_key(id) {
            let text = format!("{what} {id} was acknowledged, and is not on {node}");
            findings.push(Finding::new(Kind::Lost, text));
        }
    }
    findings
}

/// The lists at the end, as one node has them.
pub type Lists = BTreeMap<u32, Vec<u64>>;

/// Judges the history of one level by the lists at the end.
pub fn lists(history: &[Transaction], end: &Lists) -> Vec<Finding> {
    let appends = appends(history);
    let mut findings = at_the_end(&appends, end);
    for transaction in history.iter().filter(|it| it.outcome == CommitResult::Ok) {
        for step in &transaction.steps {
            if let Step::Read { key, list: Some(list) } = step {
                findings.extend(one_read(transaction, *key, list, &appends, end));
            }
        }
    }
    findings.extend(backward_in_time(history));
    findings.extend(backward_in_sessions(history));
    findings
}

type Appends<'a> = HashMap<u64, (u32, &'a Transaction)>;

fn appends(history: &[Transaction]) -> Appends<'_> {
    let each =
        history.iter().flat_map(|transaction| transaction.steps.iter().map(move |step| (transaction, step)));
    each.filter_map(|(transaction, step)| match step {
        Step::Append { key, value } => Some((*value, (*key, transaction))),
        Step::Read { .. } => None,
    })
    .collect()
}

fn at_the_end(appends: &Appends<'_>, end: &Lists) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut there = BTreeSet::new();
    for (key, list) in end {
        for value in list {
            if !there.insert((*key, *value)) {
                let by = appends.get(value).map(|(_, by)| by.to_string()).unwrap_or_default();
                findings.push(Finding::new(
                    Kind::Doubled,
                    format!("list {key} has {value} twice at the end: {by}"),
                ));
            }
            match appends.get(value) {
                Some((of, by)) if of == key && by.outcome != CommitResult::Failed => {}
                Some((_, by)) => findings.push(Finding::new(
                    Kind::Aborted,
                    format!("list {key} has {value} at the end, which is not to be there: {by}"),
                )),
                None => findings.push(Finding::new(
                    Kind::Aborted,
                    format!("list {key} has {value} at the end, which nobody appended"),
                )),
            }
        }
    }
    let mut acknowledged: Vec<_> =
        appends.iter().filter(|(_, (_, by))| by.outcome == CommitResult::Ok).collect();
    acknowledged.sort_by_key(|(value, _)| **value);
    for (value, (key, by)) in acknowledged {
        if !there.contains(&(*key, *value)) {
            let text = format!("list {key} does not have {value} at the end, which was acknowledged: {by}");
            findings.push(Finding::new(Kind::Lost, text));
        }
    }
    findings
}

fn one_read(by: &Transaction, key: u32, list: &[u64], appends: &Appends<'_>, end: &Lists) -> Option<Finding> {
    let failed = list.iter().find(|value| {
        appends.get(value).is_none_or(|(of, by)| *of != key || by.outcome == CommitResult::Failed)
    });
    if let Some(value) = failed {
        let writer = appends.get(value).map_or_else(|| "nobody".to_owned(), |(_, by)| by.to_string());
        let text =
            format!("a read shows {value}, which is not to be in list {key}: {by}; appended by {writer}");
        return Some(Finding::new(Kind::Aborted, text));
    }
    let distinct: BTreeSet<&u64> = list.iter().collect();
    if distinct.len() < list.len() {
        return Some(Finding::new(Kind::Doubled, format!("a read shows a value of list {key} twice: {by}")));
    }
    let end = end.get(&key).map(Vec::as_slice).unwrap_or_default();
    (!end.starts_with(list)).then(|| {
        let text = format!("a read of list {key} is not a beginning of the list at the end, {end:?}: {by}");
        Finding::new(Kind::Order, text)
    })
}

/// Finds reads through the port for writes that are shorter than what was known before their transaction began.
fn backward_in_time(history: &[Transaction]) -> Vec<Finding> {
    // All begins and ends in order; a begin at the same time as an end comes first, so that the two count as concurrent.
    let mut moments: Vec<(Duration, bool, usize)> = Vec::new();
    let ok = |it: &&Transaction| it.outcome == CommitResult::Ok && !it.may_be_old;
    let current: Vec<&Transaction> = history.iter().filter(ok).collect();
    for (at, transaction) in current.iter().enumerate() {
        moments.push((transaction.invoked, false, at));
        moments.push((transaction.done, true, at));
    }
    moments.sort_unstable();
    // The longest list that is known, and the transaction that showed it.
    let mut floor: HashMap<u32, (usize, usize)> = HashMap::new();
    let mut appended: HashMap<u32, BTreeMap<usize, usize>> = HashMap::new();
    let mut at_begin: Vec<HashMap<u32, (usize, usize)>> = vec![HashMap::new(); current.len()];
    for (_, is_end, at) in moments {
        for step in &current[at].steps {
            match (step, is_end) {
                (Step::Read { key, .. }, false) => {
                    if let Some(known) = floor.get(key) {
                        at_begin[at].insert(*key, *known);
                    }
                }
                (Step::Read { key, list: Some(list) }, true) => {
                    let known = floor.entry(*key).or_default();
                    if list.len() > known.0 {
                        *known = (list.len(), at);
                    }
                }
                (Step::Append { key, .. }, true) => {
                    // Each acknowledged append makes the list longer by one, whatever its place.
                    let by = appended.entry(*key).or_default();
                    *by.entry(at).or_default() += 1;
                    let count = by.values().sum();
                    let known = floor.entry(*key).or_default();
                    if count > known.0 {
                        *known = (count, at);
                    }
                }
                _ => {}
            }
        }
    }
    let mut findings = Vec::new();
    for (by, known) in current.iter().zip(&at_begin) {
        for step in &by.steps {
            if let Step::Read { key, list: Some(list) } = step
                && let Some((length, earlier)) = known.get(key).filter(|(length, _)| list.len() < *length)
            {
                let earlier = current[*earlier];
                let text = format!(
                    "list {key} had {length} values before this read began: {by}; known from {earlier}"
                );
                findings.push(Finding::new(Kind::Backward, text));
            }
        }
    }
    findings
}

/// Finds reads on the port for reads that are shorter than an earlier one of the same session.
fn backward_in_sessions(history: &[Transaction]) -> Vec<Finding> {
    let mut old: Vec<&Transaction> =
        history.iter().filter(|it| it.may_be_old && it.outcome == CommitResult::Ok).collect();
    old.sort_by_key(|it| (it.session, it.invoked));
    let mut seen: HashMap<(u64, u32), usize> = HashMap::new();
    let mut findings = Vec::new();
    for by in old {
        for step in &by.steps {
            let Step::Read { key, list: Some(list) } = step else { continue };
            let longest = seen.entry((by.session, *key)).or_default();
            if list.len() < *longest {
                let text = format!("this session has read {longest} values of list {key} before: {by}");
                findings.push(Finding::new(Kind::Backward, text));
            }
            *longest = list.len().max(*longest);
        }
    }
    findings
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn append(key: u32, value: u64) -> Step {
        Step::Append { key, value }
    }

    pub fn read(key: u32, list: &[u64]) -> Step {
        Step::Read { key, list: Some(list.to_vec()) }
    }

    /// An acknowledged transaction of a client of its own; times in ms.
    pub fn ok(from_ms: u64, to_ms: u64, steps: Vec<Step>) -> Transaction {
        Transaction {
            client: 1,
            session: 1,
            may_be_old: false,
            invoked: Duration::from_millis(from_ms),
            done: Duration::from_millis(to_ms),
            steps,
            outcome: CommitResult::Ok,
            error: None,
        }
    }

    fn kinds(history: &[Transaction], end: &[(u32, &[u64])]) -> Vec<Kind> {
        let end = end.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        lists(history, &end).iter().map(|finding| finding.kind).collect()
    }

    fn with(outcome: CommitResult, transaction: Transaction) -> Transaction {
        Transaction { outcome, ..transaction }
    }

    #[test]
    fn a_good_history_has_no_findings_and_an_unknown_append_may_be_there_or_not() {
        let history = [
            ok(0, 1, vec![append(1, 1)]),
            with(CommitResult::Unknown, ok(1, 2, vec![append(1, 2)])),
            with(CommitResult::Failed, ok(1, 2, vec![append(1, 3)])),
            ok(3, 4, vec![read(1, &[1, 2]), append(1, 4), read(1, &[1, 2, 4])]),
        ];
        assert_eq!(kinds(&history, &[(1, &[1, 2, 4])]), []);
        assert_eq!(kinds(&history[..2], &[(1, &[1])]), []);
    }

    #[test]
    fn lost_doubled_and_aborted_appends_are_found_at_the_end() {
        let one = [ok(0, 1, vec![append(1, 1)])];
        assert_eq!(kinds(&one, &[]), [Kind::Lost]);
        assert_eq!(kinds(&one, &[(1, &[1, 1])]), [Kind::Doubled]);
        assert_eq!(kinds(&one, &[(1, &[1, 9])]), [Kind::Aborted]);
        assert_eq!(kinds(&one, &[(1, &[1]), (2, &[1])]), [Kind::Aborted]);
        assert_eq!(kinds(&[with(CommitResult::Failed, one[0].clone())], &[(1, &[1])]), [Kind::Aborted]);
    }

    #[test]
    fn aborted_doubled_and_reordered_reads_are_found() {
        let write = ok(0, 1, vec![append(1, 1), append(1, 2)]);
        let seen = |list: &[u64]| [write.clone(), ok(0, 2, vec![read(1, list)])];
        assert_eq!(kinds(&seen(&[1, 2]), &[(1, &[1, 2])]), []);
        assert_eq!(kinds(&seen(&[1, 1]), &[(1, &[1, 2])]), [Kind::Doubled]);
        assert_eq!(kinds(&seen(&[2]), &[(1, &[1, 2])]), [Kind::Order]);
        let failed = [with(CommitResult::Failed, write.clone()), ok(0, 2, vec![read(1, &[1])])];
        assert_eq!(kinds(&failed, &[]), [Kind::Aborted]);
        // Read, and then gone: what a failover to a server that lacks it would do.
        let unknown = [with(CommitResult::Unknown, write.clone()), ok(0, 2, vec![read(1, &[1, 2])])];
        assert_eq!(kinds(&unknown, &[]), [Kind::Order]);
    }

    #[test]
    fn backward_reads_are_found_but_not_among_concurrent_transactions() {
        let write = ok(0, 10, vec![append(1, 1)]);
        let end: &[(u32, &[u64])] = &[(1, &[1])];
        assert_eq!(kinds(&[write.clone(), ok(11, 12, vec![read(1, &[])])], end), [Kind::Backward]);
        assert_eq!(kinds(&[write.clone(), ok(10, 12, vec![read(1, &[])])], end), []);
        // Another reader has seen it before it was acknowledged.
        let reads = [ok(1, 2, vec![read(1, &[1])]), ok(3, 4, vec![read(1, &[])])];
        assert_eq!(kinds(&[std::slice::from_ref(&write), &reads[..]].concat(), end), [Kind::Backward]);
        // On the port for reads only a session's own earlier read counts.
        let old = |session, from, list: &[u64]| Transaction {
            may_be_old: true,
            session,
            ..ok(from, from + 1, vec![read(1, list)])
        };
        assert_eq!(kinds(&[write.clone(), old(1, 20, &[1]), old(2, 30, &[])], end), []);
        assert_eq!(kinds(&[write, old(1, 20, &[1]), old(1, 30, &[])], end), [Kind::Backward]);
    }
}
