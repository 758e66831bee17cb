//! What differs between two configurations, setting by setting, and whether a running `serve` can take it up.

use std::collections::BTreeSet;
use std::fmt;

use super::document::{Document, LISTS};
use super::password::PasswordSource;
use super::table::{Applies, Row, TABLE, ValueKind};
use super::value::Value;
use super::{Node, Settings, table as t};

/// The value of each setting of a configuration, defaults included, except those of tables that may stand many times. Debug shows none: passwords are among them.
#[derive(Clone)]
pub struct Values(Vec<(&'static Row, Option<Value>)>);

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Values({})", self.0.len())
    }
}

impl Values {
    /// Those of this document.
    pub fn of(document: &Document) -> Self {
        let rows = TABLE.iter().filter(|row| !LISTS.contains(&row.section()));
        Self(rows.map(|row| (*row, document.value(row))).collect())
    }

    /// The value of this row, or its default.
    pub fn of_row(&self, row: &Row) -> Option<&Value> {
        self.0.iter().find(|(other, _)| other.path == row.path)?.1.as_ref()
    }
}

/// One setting that differs, or one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The setting's path, or `cluster.node` and the node's name.
    pub path: String,
    /// "hold.time_ms: 60000 -> 5000". A password is not shown.
    pub sentence: String,
    /// Its line in the newer file, where it has one.
    pub line: Option<usize>,
    /// When it comes into force.
    pub applies: Applies,
}

/// What differs, in the table's order, nodes last.
pub fn changes(old: &Settings, new: &Settings) -> Vec<Change> {
    let pairs = old.values.0.iter().zip(&new.values.0).filter(|(old, new)| old.1 != new.1);
    let mut changes: Vec<Change> = pairs
        .map(|((row, was), (_, is))| Change {
            path: row.path.to_owned(),
            sentence: match row.kind {
                ValueKind::Secret => format!("{} is another one", row.path),
                _ => format!("{}: {} -> {}", row.path, shown(was.as_ref()), shown(is.as_ref())),
            },
            line: new.lines.get(row.path).copied(),
            applies: row.applies,
        })
        .collect();
    changes.extend(clients(old, new));
    changes.extend(nodes(&old.nodes, &new.nodes));
    changes
}

/// Of the accounts whose clients sign, those whose passwords are elsewhere, or are other ones.
fn clients(old: &Settings, new: &Settings) -> Vec<Change> {
    let of = |settings: &'_ Settings, user: &str| -> Vec<PasswordSource> {
        let all = settings.clients.iter().filter(|(account, _)| account.user == user);
        all.map(|(account, _)| account.password.clone()).collect()
    };
    let users: BTreeSet<&String> =
        old.clients.iter().chain(&new.clients).map(|(account, _)| &account.user).collect();
    let section = t::PROXY_ACCOUNT_USER.section();
    let change = |user: &String| {
        let what = match (of(old, user), of(new, user)) {
            (was, is) if was == is => return None,
            (was, _) if was.is_empty() => "is added",
            (_, is) if is.is_empty() => "is taken out",
            _ => "has another password",
        };
        Some(Change {
            path: format!("{section} {user}"),
            sentence: format!("{section} {user:?} {what}"),
            line: new.clients.iter().find(|(account, _)| account.user == *user).map(|(_, line)| *line),
            applies: t::PROXY_ACCOUNT_USER.applies,
        })
    };
    users.into_iter().filter_map(change).collect()
}

fn nodes(old: &[Node], new: &[Node]) -> Vec<Change> {
    let change = |name: &str, sentence: String, line: Option<usize>| Change {
        path: format!("{} {name}", t::NODE_NAME.section()),
        sentence,
        line,
        applies: t::NODE_NAME.applies,
    };
    let same_name = |all: &'_ [Node], name: &str| all.iter().position(|node| node.name == name);
    let mut changes = Vec::new();
    for node in old {
        if same_name(new, &node.name).is_none() {
            changes.push(change(
                &node.name,
                format!("node {} ({}) is taken out", node.name, node.address),
                None,
            ));
        }
    }
    for node in new {
        let line = Some(node.line);
        let Some(was) = same_name(old, &node.name).and_then(|place| old.get(place)) else {
            changes.push(change(&node.name, format!("node {} ({}) is added", node.name, node.address), line));
            continue;
        };
        if was.address != node.address {
            let text = format!("node {}: address {} -> {}", node.name, was.address, node.address);
            changes.push(change(&node.name, text, line));
        }
        if was.priority != node.priority {
            let text = format!("node {}: priority {} -> {}", node.name, was.priority, node.priority);
            changes.push(change(&node.name, text, line));
        }
    }
    let kept = |all: &[Node], others: &[Node]| -> Vec<String> {
        let kept = all.iter().filter(|node| same_name(others, &node.name).is_some());
        kept.map(|node| node.name.clone()).collect()
    };
    if kept(old, new) != kept(new, old) {
        let text = format!("the nodes' order: {}", kept(new, old).join(", "));
        changes.push(change("order", text, new.first().map(|node| node.line)));
    }
    changes
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "unset".to_owned(),
        Some(Value::Text(text)) => format!("{text:?}"),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::List(list)) => format!("{list:?}"),
        Some(Value::Switch(is_on)) => is_on.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const BASE: &str = "[cluster]\nname = \"shop\"\n[cluster.monitor]\nuser = \"m\"\npassword = \"old\"\n";

    fn settings(rest: &str) -> Settings {
        Settings::parse(Path::new("understudy.toml"), &format!("{BASE}{rest}")).unwrap()
    }

    fn node(name: &str, port: u16, rest: &str) -> String {
        format!("[[cluster.node]]\nname = \"{name}\"\naddress = \"127.0.0.1:{port}\"\n{rest}")
    }

    fn sentences(old: &Settings, new: &Settings) -> Vec<String> {
        changes(old, new).into_iter().map(|change| change.sentence).collect()
    }

    #[test]
    fn a_value_that_is_written_out_is_no_change_and_another_one_is() {
        let nodes = node("db1", 1, "");
        let old = settings(&nodes);
        assert_eq!(changes(&old, &settings(&format!("{nodes}\n[hold]\ntime_ms = 60000\n"))), []);
        let new = settings(&format!("{nodes}\n[hold]\ntime_ms = 5000\n[listen]\nmysql = \"127.0.0.1:1\"\n"));
        let found = changes(&old, &new);
        assert_eq!(
            found.iter().map(|change| (&*change.sentence, change.line, change.applies)).collect::<Vec<_>>(),
            [
                ("listen.mysql: [\"0.0.0.0:6033\"] -> [\"127.0.0.1:1\"]", Some(13), Applies::Restart),
                ("hold.time_ms: 60000 -> 5000", Some(11), Applies::Reload),
            ]
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let text = format!("{BASE}{}", node("db1", 1, ""));
        let old = settings(&node("db1", 1, ""));
        let new = Settings::parse(Path::new("understudy.toml"), &text.replace("\"old\"", "\"new\"")).unwrap();
        assert_eq!(sentences(&old, &new), ["cluster.monitor.password is another one"]);
        let proven = |command: &str| {
            let policy = format!("bootstrap = \"proven\"\nproof_command = \"ssh -i {command}\"\n");
            let text = BASE.replace("[cluster.monitor]", &format!("{policy}[cluster.monitor]"));
            Settings::parse(Path::new("understudy.toml"), &(text + &node("db1", 1, ""))).unwrap()
        };
        let found = sentences(&proven("a"), &proven("token"));
        assert_eq!(found, ["cluster.proof_command is another one"], "it may hold a secret");
        assert!(!format!("{old:?}").contains("\"old\""));
    }

    #[test]
    fn nodes_are_told_apart_by_name() {
        let old = settings(&[node("db1", 1, ""), node("db2", 2, ""), node("db3", 3, "")].concat());
        let new =
            settings(&[node("db3", 3, "priority = 5\n"), node("db1", 9, ""), node("db4", 4, "")].concat());
        assert_eq!(
            sentences(&old, &new),
            [
                "node db2 (127.0.0.1:2) is taken out",
                "node db3: priority 0 -> 5",
                "node db1: address 127.0.0.1:1 -> 127.0.0.1:9",
                "node db4 (127.0.0.1:4) is added",
                "the nodes' order: db3, db1",
            ]
        );
    }
}
