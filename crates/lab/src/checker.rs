//! Compares the clients' history with the nodes' rows: finds lost, doubled and phantom rows. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ledger::{CommitResult, NodeRows, Op};

/// Result of the comparison. The lists of keys hold ledger keys; only all lists empty is a good result.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LedgerCheck {
    /// Acknowledged to the client, but missing on at least one node.
    pub lost: Vec<u64>,
    /// More than once on some node. A transaction may be applied at most once, whatever its outcome.
    pub doubled: Vec<u64>,
    /// On some node, although it certainly failed or was never tried.
    pub phantom: Vec<u64>,
    /// Nodes whose rows or table checksums differ from the first node's.
    pub nodes_that_differ: Vec<String>,
    /// Transactions with an outcome unknown to the client that are on some node. Correct, as is their absence.
    pub unknown_landed: u64,
    /// Transactions with an outcome unknown to the client that are on no node.
    pub unknown_absent: u64,
}

impl LedgerCheck {
    /// True when nothing contradicts the outcomes that clients received.
    pub fn is_good(&self) -> bool {
        self.lost.is_empty()
            && self.doubled.is_empty()
            && self.phantom.is_empty()
            && self.nodes_that_differ.is_empty()
    }
}

/// Compares `history` with each node's rows. The rows of `nodes` are read with causal reads, after the load has ended.
pub fn check(history: &[Op], nodes: &[NodeRows]) -> LedgerCheck {
    let outcomes: HashMap<u64, CommitResult> = history.iter().map(|op| (op.id, op.outcome)).collect();
    let counted: Vec<BTreeMap<u64, u32>> = nodes.iter().map(|node| count(&node.ops)).collect();

    let mut verdict = LedgerCheck::default();
    let (mut doubled, mut phantom) = (BTreeSet::new(), BTreeSet::new());
    for (&op, &times) in counted.iter().flatten() {
        if times > 1 {
            doubled.insert(op);
        }
        if matches!(outcomes.get(&op), None | Some(CommitResult::Failed)) {
            phantom.insert(op);
        }
    }
    verdict.doubled = doubled.into_iter().collect();
    verdict.phantom = phantom.into_iter().collect();

    for op in history {
        let on = counted.iter().filter(|rows| rows.contains_key(&op.id)).count();
        match op.outcome {
            CommitResult::Ok if on < counted.len() => verdict.lost.push(op.id),
            CommitResult::Unknown if on > 0 => verdict.unknown_landed += 1,
            CommitResult::Unknown => verdict.unknown_absent += 1,
            CommitResult::Ok | CommitResult::Failed => {}
        }
    }
    verdict.lost.sort_unstable();
    for (node, rows) in nodes.iter().zip(&counted).skip(1) {
        if rows != &counted[0] || node.checksum != nodes[0].checksum {
            verdict.nodes_that_differ.push(node.node.clone());
        }
    }
    verdict
}

fn count(ops: &[u64]) -> BTreeMap<u64, u32> {
    let mut times = BTreeMap::new();
    for &op in ops {
        *times.entry(op).or_insert(0) += 1;
    }
    times
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ledger::Client;

    fn op(id: u64, outcome: CommitResult) -> Op {
        let at = Duration::ZERO;
        Op { id, client: Client::Naive, due: at, sent: at, done: at, outcome, attempts: 1, troubles: vec![] }
    }

    fn node(name: &str, ops: &[u64]) -> NodeRows {
        NodeRows { node: name.into(), ops: ops.to_vec(), checksum: "same".into() }
    }

    #[test]
    fn a_clean_run_is_good_and_unknown_may_end_either_way() {
        let history = [
            op(1, CommitResult::Ok),
            op(2, CommitResult::Failed),
            op(3, CommitResult::Unknown),
            op(4, CommitResult::Unknown),
        ];
        let verdict = check(&history, &[node("db1", &[1, 3]), node("db2", &[3, 1])]);
        assert!(verdict.is_good(), "{verdict:?}");
        assert_eq!((verdict.unknown_landed, verdict.unknown_absent), (1, 1));
    }

    #[test]
    fn missing_on_one_node_is_lost() {
        let verdict = check(&[op(1, CommitResult::Ok)], &[node("db1", &[1]), node("db2", &[])]);
        assert_eq!((verdict.lost, verdict.nodes_that_differ), (vec![1], vec!["db2".to_owned()]));
    }

    #[test]
    fn twice_is_doubled_whatever_the_client_knew() {
        for outcome in [CommitResult::Ok, CommitResult::Unknown] {
            let verdict = check(&[op(9, outcome)], &[node("db1", &[9, 9])]);
            assert_eq!(verdict.doubled, [9]);
            assert!(verdict.lost.is_empty() && verdict.phantom.is_empty());
        }
    }

    #[test]
    fn failed_or_never_tried_and_present_is_a_phantom() {
        let verdict = check(&[op(1, CommitResult::Failed)], &[node("db1", &[1, 77])]);
        assert_eq!(verdict.phantom, [1, 77]);
    }

    #[test]
    fn a_differing_checksum_is_named() {
        let mut other = node("db3", &[1]);
        other.checksum = "other".into();
        let verdict = check(&[op(1, CommitResult::Ok)], &[node("db1", &[1]), other]);
        assert_eq!(verdict.nodes_that_differ, ["db3"]);
        assert!(!verdict.is_good());
    }
}
