//! Parses the answer of ANALYZE FORMAT=JSON: how many pages a statement accessed, and how many of those had to be read from disk.

use serde_json::Value;

/// The page accesses of one statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Page accesses; a page that is accessed twice counts twice.
    pub accessed: u64,
    /// Those accesses that had to wait for a disk read.
    pub read: u64,
    /// The plan contains ranges. The optimizer reads pages to estimate them, and neither number includes these (MariaDB 10.11.19).
    pub has_ranges: bool,
}

/// The largest nesting depth of a plan that is accepted; MariaDB itself allows fewer nested subqueries.
const DEPTH_MAX: u32 = 120;

/// Adds up the `r_engine_stats` of all tables. A missing field is 0, because the server leaves out fields that are 0. `None` when the text
/// is not an answer of ANALYZE.
pub fn pages(answer: &str) -> Option<Pages> {
    let plan: Value = serde_json::from_str(answer).ok()?;
    plan.get("query_block")?;
    let mut pages = Pages::default();
    add(&plan, &mut pages, DEPTH_MAX);
    Some(pages)
}

fn add(value: &Value, pages: &mut Pages, depth: u32) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let access = value.as_str().filter(|_| name == "access_type");
                pages.has_ranges |= matches!(access, Some("range" | "index_merge"));
                if name == "r_engine_stats" {
                    let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
                    pages.accessed += number("pages_accessed");
                    pages.read += number("pages_read_count");
                } else {
                    add(value, pages, depth);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| add(value, pages, depth)),
        _ => {}
    }
}

/// Whether ANALYZE of a server with this version (`SELECT VERSION()`) reports pages: MariaDB from 10.6.15, 10.8.8, 10.9.8, 10.10.6,
/// 10.11.5, 11.0.3 and 11.1.2 on, see <https://mariadb.com/kb/en/analyze-format-json/>. MySQL and Percona Server have no such statement.
pub fn tells_pages(version: &str) -> bool {
    if !version.contains("MariaDB") {
        return false;
    }
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else { return false };
    let patch = numbers.next().unwrap_or(0);
    match (major, minor) {
        (10, 6) => patch >= 15,
        (10, 8 | 9) => patch >= 8,
        (10, 10) => patch >= 6,
        (10, 11) => patch >= 5,
        (11, 0) => patch >= 3,
        (11, 1) => patch >= 2,
        (major, _) => major >= 11,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_all_tables_are_summed_up() {
        // A shortened answer of MariaDB 10.11.19: a join within a union, one table of which was entirely in memory.
        let answer = r#"{"query_optimization": {"r_total_time_ms": 0.9}, "query_block": {"union_result": {"table_name": "<union1,3>",
            "query_specifications": [{"query_block": {"nested_loop": [
              {"table": {"table_name": "<subquery2>", "materialized": {"query_block": {"nested_loop": [
                 {"table": {"table_name": "t", "access_type": "range", "r_engine_stats": {"pages_accessed": 3}}}]}}}},
              {"table": {"table_name": "t", "r_engine_stats": {"pages_accessed": 79, "pages_read_count": 13, "pages_read_time_ms": 1.55}}}]}},
              {"query_block": {"select_id": 3, "table": {"message": "No tables used"}}}]}}}"#;
        assert_eq!(pages(answer), Some(Pages { accessed: 82, read: 13, has_ranges: true }));
        assert_eq!(
            pages(r#"{"query_block": {"table": {"message": "No tables used"}}}"#),
            Some(Pages::default())
        );
        for other in ["", "[]", "{}", "not JSON", r#"{"query": 1}"#] {
            assert_eq!(pages(other), None, "{other}");
        }
    }

    #[test]
    fn versions_that_tell_pages_are_known() {
        for version in
            ["10.6.15-MariaDB", "10.11.19-MariaDB-0+deb12u1-log", "11.4.2-MariaDB", "12.0.1-MariaDB"]
        {
            assert!(tells_pages(version), "{version}");
        }
        for version in [
            "10.6.14-MariaDB",
            "10.11.4-MariaDB-1",
            "10.5.26-MariaDB",
            "10.9.7-MariaDB",
            "8.0.36",
            "9.1.0",
            "",
        ] {
            assert!(!tells_pages(version), "{version}");
        }
    }
}
