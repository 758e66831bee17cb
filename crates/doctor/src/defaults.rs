//! Nodes that give their sessions other values than the first one does: what a session has not set itself changes with each move.

use topology::session_defaults::{Difference, SessionDefaults};

use super::judge::{Finding, Weight};

/// A finding for each node that differs from the first; `nodes`: by name, those that have answered.
pub fn apart<'a>(mut nodes: impl Iterator<Item = (&'a str, &'a SessionDefaults)>) -> Vec<Finding> {
    let Some((first, wanted)) = nodes.next() else { return vec![] };
    nodes.filter_map(|(name, defaults)| finding(name, &defaults.differences(wanted), first)).collect()
}

fn finding(name: &str, differences: &[Difference<'_>], first: &str) -> Option<Finding> {
    let told: Vec<String> = differences.iter().map(|it| it.text(first)).collect();
    let sql: Vec<String> =
        differences.iter().filter_map(Difference::statement).map(|text| format!("{text};")).collect();
    (!told.is_empty()).then(|| Finding {
        weight: Weight::Warning,
        nodes: vec![name.to_owned()],
        what: format!("sessions begin with other values than on {first}: {}", told.join(", ")),
        because: "a session that moves takes along what it has set itself; the rest is the next node's, so that statements may mean something else there. \
                  Make them alike, on whichever node it is wrong"
            .into(),
        sql,
        my_cnf: differences.iter().filter_map(Difference::line).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_are_compared_with_the_first() {
        let of = |mode| SessionDefaults::new([("sql_mode", mode), ("version", "10.11.19")].into_iter());
        let (plain, other) = (of(""), of("ANSI_QUOTES"));
        let nodes = [("db1", &plain), ("db2", &other), ("db3", &plain)];
        let found = apart(nodes.into_iter());
        let [finding] = &*found else { panic!("{found:?}") };
        assert_eq!(finding.nodes, ["db2"]);
        assert!(
            finding.what.ends_with("than on db1: sql_mode = 'ANSI_QUOTES' ('' on db1)"),
            "{}",
            finding.what
        );
        assert_eq!(
            (&*finding.sql, &*finding.my_cnf),
            (&["SET GLOBAL sql_mode = '';".to_owned()][..], &["sql_mode = ''".to_owned()][..])
        );
        assert!(apart([("db1", &plain)].into_iter()).is_empty() && apart([].into_iter()).is_empty());
    }
}
