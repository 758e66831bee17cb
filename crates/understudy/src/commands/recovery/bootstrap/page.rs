//! What was found, and what is to be done, for people and for programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use topology::galera::bootstrap::{Candidate, Decision, Disk, Refusal, Way, Word};

use crate::table::{Lean, Table};

/// Of the longest column.
const WIDTH_MAX: usize = 80;

/// All that is shown.
pub(super) struct Page<'a> {
    pub(super) nodes: &'a [Candidate],
    pub(super) decision: &'a Result<Decision, Refusal>,
    pub(super) datadirs: &'a BTreeMap<String, PathBuf>,
}

impl Page<'_> {
    pub(super) fn text(&self) -> String {
        let mut table =
            Table::new(&[("NODE", Lean::Left), ("HAS UP TO", Lean::Right), ("STATE", Lean::Left)])
                .wrapping([WIDTH_MAX]);
        for node in self.nodes {
            let (_, seqno) = position(&node.word);
            let seqno = seqno.map_or_else(|| "?".to_owned(), |seqno| seqno.to_string());
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
            topology::galera::sql::BOOTSTRAP
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
        text.push_str(&format!("    on {name}: galera_new_cluster\n"));
        for node in self.nodes.iter().filter(|node| node.name != name) {
            text.push_str(&format!(
                "    on {}: systemctl start mariadb     (when {name} is Synced)\n",
                node.name
            ));
        }
        text.push_str(
            "\nAfter a crash a disk has all that its server acknowledged only with innodb_flush_log_at_trx_commit = 1.\nNothing was changed: servers are not started from here.\n",
        );
        text
    }

    fn way_out(&self, way: &Way) -> String {
        match way {
            Way::Needless => "there is nothing to bootstrap\n".to_owned(),
            Way::None => String::new(),
            Way::Confirm(node) => format!(
                "look on its host; when its server does not run there: --dead {node} --position {node}=UUID:SEQNO, or --datadir {node}=DIR where \
                 its data is on this host\nthe position tells, on its host: understudy recovery position --datadir {}\n",
                self.datadir(node)
            ),
            Way::Tell(node) => format!(
                "run on its host: understudy recovery position --datadir {0}\n    (or: mariadbd --wsrep-recover --user=mysql --disable-log-error 2>&1 | \
                 grep 'Recovered position')\nthen add --position {node}=UUID:SEQNO; if its data is gone for good: --lost {node}\n",
                self.datadir(node)
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
            json!({ "node": node.name, "uuid": uuid, "seqno": seqno, "state": state(&node.word), "runs": runs(&node.word) })
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

fn is_safe(word: &Word) -> bool {
    matches!(word, Word::Stopped(Disk::Read(left)) if left.safe_to_bootstrap)
}

fn state(word: &Word) -> String {
    match word {
        Word::Answers(answer) => {
            format!("answers: {}, {} in its component", answer.cluster_status, answer.size)
        }
        Word::Stopped(Disk::Read(_)) => "does not run".to_owned(),
        Word::Stopped(Disk::Unread(why)) => format!("does not run; what it has is not known: {why}"),
        Word::Stopped(Disk::GivenUp) => "given up (--lost)".to_owned(),
        Word::Silent(how) => format!("no answer: {how}"),
        Word::Alive(how) => format!("runs: {how}"),
    }
}
