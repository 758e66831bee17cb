//! What was found, and what is to be done, for people and for programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use topology::flavor::Flavor;
use topology::galera::bootstrap::{Candidate, Decision, Disk, Refusal, Way, Word};

use report::table::{Lean, Table};

/// Of the longest column.
const WIDTH_MAX: usize = 80;

/// All that is shown.
pub(super) struct Page<'a> {
    pub(super) nodes: &'a [Candidate],
    pub(super) decision: &'a Result<Decision, Refusal>,
    pub(super) datadirs: &'a BTreeMap<String, PathBuf>,
    /// Whose servers they are, where that is known.
    pub(super) flavor: Option<Flavor>,
}

/// What a service is called, and how a cluster is begun with it.
struct Commands {
    begin: &'static str,
    start: &'static str,
    recover: &'static str,
    /// For the node that began, once the others are there.
    at_the_end: Option<&'static str>,
}

const MARIADB: Commands = Commands {
    begin: "galera_new_cluster",
    start: "systemctl start mariadb",
    recover: "mariadbd --wsrep-recover --user=mysql --disable-log-error",
    at_the_end: None,
};

/// By Percona XtraDB Cluster's manual: the first node runs as another service, and is started as usual in the end.
const PERCONA: Commands = Commands {
    begin: "systemctl start mysql@bootstrap",
    start: "systemctl start mysql",
    recover: "mysqld --wsrep-recover --user=mysql --disable-log-error",
    at_the_end: Some("systemctl stop mysql@bootstrap && systemctl start mysql"),
};

impl Page<'_> {
    pub(super) fn text(&self) -> String {
        let mut table =
            Table::new(&[("NODE", Lean::Left), ("HAS UP TO", Lean::Right), ("STATE", Lean::Left)])
                .wrapping([WIDTH_MAX]);
        for node in self.nodes {
            let (_, seqno) = position(&node.word);
            let bound = if is_lower_bound(&node.word) { ">= " } else { "" };
            let seqno = seqno.map_or_else(|| "?".to_owned(), |seqno| format!("{bound}{seqno}"));
            table.row([node.name.clone(), seqno, state(&node.word)]);
        }
        let verdict = match self.decision {
            Ok(Decision::Survivor { via, .. }) => self.survivor(*via),
            Ok(Decision::Start { first, level }) => self.start(*first, level),
            Err(refusal) => format!("refused: {}\n{}", refusal.condition, self.way_out(&refusal.way_out)),
        };
        format!("{}\n{verdict}", table.text())
    }

    fn survivor(&self, via: usize) -> String {
        let name = self.name(via);
        format!(
            "{name} is the most advanced, and every other node is down. To go on from there:\n\n    on {name}: {};\n\n",
            topology::galera::sql::BOOTSTRAP_BY_HAND
        )
    }

    fn start(&self, first: usize, level: &[usize]) -> String {
        let name = self.name(first);
        let also: Vec<&str> = level.iter().map(|place| self.name(*place)).collect();
        let also = match also.as_slice() {
            [] => String::new(),
            names => format!(" ({} level with it)", are(names)),
        };
        let mut text = format!("no node runs. {name} is the most advanced{also}. In this order:\n\n");
        if !self.nodes.get(first).is_some_and(|node| is_safe(&node.word)) {
            let file = self.file(name);
            text.push_str(&format!(
                "    on {name}: sed -i 's/^safe_to_bootstrap: 0/safe_to_bootstrap: 1/' {file}\n"
            ));
        }
        let commands = self.commands();
        text.push_str(&format!("    on {name}: {}\n", commands.begin));
        for node in self.nodes.iter().filter(|node| node.name != name) {
            text.push_str(&format!("    on {}: {}     (when {name} is Synced)\n", node.name, commands.start));
        }
        if let Some(last) = commands.at_the_end {
            text.push_str(&format!("    on {name}: {last}     (when all are Synced)\n"));
        }
        if self.flavor.is_none() {
            text.push_str(&format!(
                "\nWith Percona XtraDB Cluster it is `{}` in place of {}, and `{}` in place of {}.\n",
                PERCONA.begin, MARIADB.begin, PERCONA.start, MARIADB.start
            ));
        }
        text.push_str(&self.what_a_crash_may_leave_out());
        text.push_str("Nothing was changed: servers are not started from here.\n");
        text
    }

    fn commands(&self) -> &'static Commands {
        match self.flavor {
            Some(Flavor::MySql) => &PERCONA,
            Some(Flavor::MariaDb) | None => &MARIADB,
        }
    }

    fn what_a_crash_may_leave_out(&self) -> String {
        let bounds = self.nodes.iter().filter(|node| is_lower_bound(&node.word));
        let bounds: Vec<&str> = bounds.map(|node| node.name.as_str()).collect();
        if bounds.is_empty() {
            return "\nAfter a crash a disk has all that its server acknowledged only with innodb_flush_log_at_trx_commit = 1.\n".to_owned();
        }
        format!(
            "\nAfter a crash {} not known to have all on disk that was acknowledged (innodb_flush_log_at_trx_commit is not 1): what was committed \
             last may be on no disk. Where a binlog was written with sync_binlog = 1, it may have more.\n",
            are(&bounds)
        )
    }

    fn way_out(&self, way: &Way) -> String {
        match way {
            Way::Needless => "there is nothing to bootstrap\n".to_owned(),
            Way::None => String::new(),
            Way::TwoClusters => "look which of them has what was acknowledged last (understudy status, where it runs), stop the nodes of the other \
                 one, and ask again; remove their grastate.dat before they are started, so that they take a full copy\n"
                .to_owned(),
            Way::Confirm(node) => format!(
                "look on its host; when its server does not run there: --dead {node} --position {node}=UUID:SEQNO, or --datadir {node}=DIR where \
                 its data is on this host\nthe position tells, on its host: understudy recovery position --datadir {}; its output as a file: --report {node}=FILE\n",
                self.datadir(node)
            ),
            Way::Tell(node) => format!(
                "run on its host: understudy recovery position --datadir {} > FILE, then add --report {node}=FILE\n    (or: {} 2>&1 | \
                 grep 'Recovered position'; then add --position {node}=UUID:SEQNO)\nif its data is gone for good: --lost {node}\n",
                self.datadir(node),
                self.commands().recover
            ),
            Way::GiveUp(node) => format!("to give up what only {node} has: --lost {node}\n"),
            Way::Choose => "look which of them is the cluster's. Then, for each node that has another: --lost NODE; it gets a full copy, and what it has is lost\n"
                .to_owned(),
        }
    }

    fn name(&self, place: usize) -> &str {
        self.nodes.get(place).map_or("?", |node| node.name.as_str())
    }

    fn datadir(&self, node: &str) -> String {
        self.datadirs.get(node).map_or_else(|| "/var/lib/mysql".to_owned(), |dir| dir.display().to_string())
    }

    fn file(&self, node: &str) -> String {
        format!("{}/grastate.dat", self.datadir(node))
    }

    pub(super) fn json(&self) -> Value {
        let nodes = self.nodes.iter().map(|node| {
            let (uuid, seqno) = position(&node.word);
            json!({ "node": node.name, "uuid": uuid, "seqno": seqno, "is_lower_bound": is_lower_bound(&node.word),
                    "state": state(&node.word), "runs": runs(&node.word) })
        });
        let decision = match self.decision {
            Ok(Decision::Survivor { via, .. }) => json!({ "do": "pc.bootstrap", "on": self.name(*via) }),
            Ok(Decision::Start { first, .. }) => json!({ "do": "start", "first": self.name(*first) }),
            Err(refusal) => {
                json!({ "do": null, "refused": refusal.condition, "lifted_by": self.way_out(&refusal.way_out).trim_end() })
            }
        };
        json!({ "nodes": nodes.collect::<Vec<_>>(), "decision": decision })
    }
}

/// "db1 is", "db1 and db2 are".
fn are(names: &[&str]) -> String {
    format!("{} {}", names.join(" and "), if names.len() == 1 { "is" } else { "are" })
}

fn position(word: &Word) -> (Option<&str>, Option<u64>) {
    match word {
        Word::Answers(answer) => (Some(answer.uuid.as_str()), Some(answer.last_committed)),
        Word::Stopped(Disk::Read(left)) => (Some(left.position.uuid.as_str()), Some(left.position.seqno)),
        _ => (None, None),
    }
}

fn runs(word: &Word) -> Option<bool> {
    match word {
        Word::Answers(_) | Word::Alive(_) => Some(true),
        Word::Stopped(_) => Some(false),
        Word::Silent(_) => None,
    }
}

fn is_lower_bound(word: &Word) -> bool {
    matches!(word, Word::Stopped(Disk::Read(left)) if left.is_lower_bound)
}

fn is_safe(word: &Word) -> bool {
    matches!(word, Word::Stopped(Disk::Read(left)) if left.safe_to_bootstrap)
}

fn state(word: &Word) -> String {
    match word {
        Word::Answers(answer) => {
            format!("answers: {}, {} in its component", answer.cluster_status, answer.size)
        }
        Word::Stopped(Disk::Read(left)) if left.is_lower_bound => {
            "does not run; may have acknowledged more than its disk shows".to_owned()
        }
        Word::Stopped(Disk::Read(_)) => "does not run".to_owned(),
        Word::Stopped(Disk::Unread(why)) => format!("does not run; what it has is not known: {why}"),
        Word::Stopped(Disk::GivenUp) => "given up (--lost)".to_owned(),
        Word::Silent(how) => format!("no answer: {how}"),
        Word::Alive(how) => format!("runs: {how}"),
    }
}

#[cfg(test)]
mod tests {
    use topology::galera::position::Left;

    use super::*;

    fn start(flavor: Option<Flavor>, is_lower_bound: bool) -> String {
        let left = Left::at("6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1:7".parse().unwrap());
        let left = Left { is_lower_bound, safe_to_bootstrap: true, ..left };
        let nodes = ["db1", "db2"].map(|name| Candidate {
            name: name.to_owned(),
            address: format!("{name}:3306"),
            word: Word::Stopped(Disk::Read(left.clone())),
        });
        let decision = Ok(Decision::Start { first: 0, level: vec![1] });
        Page { nodes: &nodes, decision: &decision, datadirs: &BTreeMap::new(), flavor }.text()
    }

    #[test]
    fn the_commands_are_those_of_the_servers() {
        let mariadb = start(Some(Flavor::MariaDb), false);
        assert!(
            mariadb.contains("on db1: galera_new_cluster\n    on db2: systemctl start mariadb"),
            "{mariadb}"
        );
        assert!(!mariadb.contains("Percona"), "{mariadb}");
        let percona = start(Some(Flavor::MySql), false);
        assert!(
            percona.contains(
                "on db1: systemctl start mysql@bootstrap\n    on db2: systemctl start mysql     (when db1 is Synced)\n    \
                 on db1: systemctl stop mysql@bootstrap && systemctl start mysql"
            ),
            "{percona}"
        );
        let unknown = start(None, false);
        assert!(
            unknown.contains("With Percona XtraDB Cluster it is `systemctl start mysql@bootstrap`"),
            "{unknown}"
        );
    }

    #[test]
    fn what_may_be_missing_on_a_disk_is_shown() {
        let text = start(None, true);
        assert!(
            text.contains(">= 7") && text.contains("After a crash db1 and db2 are not known to have all"),
            "{text}"
        );
        assert!(start(None, false).contains("only with innodb_flush_log_at_trx_commit = 1"));
    }
}
