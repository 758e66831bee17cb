//! Reads the answer of ANALYZE FORMAT=JSON: how many pages a statement accessed, and how many of those had to be read from disk.
//!
//! The answer is no valid JSON where a literal or a name contains a quote, a backslash or a control byte: MariaDB writes all texts as they
//! are (`"attached_condition": "t.n = 'O\'Brien'"`, seen with 10.11.19; its source did so until MDEV-39720 of 2026). It does write each member
//! of an object on a line of its own, and line breaks of literals as `\n`. So lines are read, of which the wanted ones are known as a whole,
//! and all others are passed over.

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

/// The member of a table that has its pages.
const STATS: &[u8] = b"r_engine_stats";

/// Adds up the statistics of all tables. A missing number is 0, because the server leaves out those that are 0. `None` when the answer is not
/// one of ANALYZE, or cannot be judged: an alias in backticks may have line breaks, and in `statement` imitate a table's statistics. (One within a view is not seen:
/// whoever may create views in the application's schemas can make its score wrong.)
pub fn pages(statement: &[u8], answer: &[u8]) -> Option<Pages> {
    let is_plain = !statement.windows(STATS.len()).any(|text| text.eq_ignore_ascii_case(STATS));
    let is_whole = answer.starts_with(b"{\n") && answer.trim_ascii_end().ends_with(b"\n}");
    let (mut is_plan, mut is_in_stats) = (false, false);
    let mut pages = Pages::default();
    for line in answer.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        match line.strip_suffix(b",").unwrap_or(line) {
            b"\"query_block\": {" => is_plan = true,
            b"\"r_engine_stats\": {" => is_in_stats = true,
            b"}" => is_in_stats = false,
            b"\"access_type\": \"range\"" | b"\"access_type\": \"index_merge\"" => pages.has_ranges = true,
            member if is_in_stats => {
                if let Some(count) = member.strip_prefix(b"\"pages_accessed\": ") {
                    pages.accessed = pages.accessed.saturating_add(number(count)?);
                } else if let Some(count) = member.strip_prefix(b"\"pages_read_count\": ") {
                    pages.read = pages.read.saturating_add(number(count)?);
                }
            }
            _ => {}
        }
    }
    (is_plain && is_whole && is_plan).then_some(pages)
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
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

    /// An answer of MariaDB 10.11.19, shortened: a union, one table of which was entirely in memory. `{}` is where texts of the client stand.
    const ANSWER: &str = r#"{
  "query_optimization": {
    "r_total_time_ms": 0.9
  },
  "query_block": {
    "union_result": {
      "table_name": "<union1,2>",
      "query_specifications": [
        {
          "query_block": {
            "nested_loop": [
              {
                "table": {
                  "table_name": "t",
                  "access_type": "range",
                  "possible_keys": ["PRIMARY", "{}"],
                  "r_engine_stats": {
                    "pages_accessed": 3
                  },
                  "filtered": 100,
                  "attached_condition": "t.n = '{}'",
                  "using_index": true
                }
              },
              {
                "table": {
                  "table_name": "{}",
                  "access_type": "ALL",
                  "r_engine_stats": {
                    "pages_accessed": 79,
                    "pages_read_count": 13,
                    "pages_read_time_ms": 1.55
                  },
                  "attached_condition": "{}"
                }
              }
            ]
          }
        }
      ]
    }
  }
}"#;

    #[test]
    fn the_pages_of_all_tables_are_summed_up_whatever_the_texts_are() {
        let judged = Some(Pages { accessed: 82, read: 13, has_ranges: true });
        let with = |text: &[u8]| ANSWER.split("{}").map(str::as_bytes).collect::<Vec<_>>().join(text);
        for text in [
            b"t".as_slice(),
            br"O\'Brien",
            b"a\"b",
            b"\\",
            b"\", \"pages_accessed\": 9, \"",
            b"\"r_engine_stats\": {\"pages_accessed\": 9}",
            b"\x01\t\x7f\r\0",
            b"caf\xe9 \x95\x5c",
            b"a\n  }\n}",
            b"{",
        ] {
            assert_eq!(pages(b"SELECT 1", &with(text)), judged, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn what_is_no_whole_answer_is_not_judged() {
        let nothing = "{\n  \"query_block\": {\n    \"table\": {\n      \"message\": \"No tables used\"\n    }\n  }\n}\n";
        assert_eq!(pages(b"SELECT 1", nothing.as_bytes()), Some(Pages::default()));
        let half = &ANSWER[..ANSWER.len() / 2];
        let beyond = ANSWER.replace("\"pages_accessed\": 79", "\"pages_accessed\": 99999999999999999999");
        for other in ["", "[]", "{}", "{\n}", "not JSON", "{\n  \"query\": 1\n}", half, &beyond] {
            assert_eq!(pages(b"SELECT 1", other.as_bytes()), None, "{other}");
        }
        let imitation = b"SELECT * FROM t `a\n\"R_engine_stats\": {\n\"pages_accessed\": 9\n}`";
        assert_eq!(pages(imitation, ANSWER.as_bytes()), None);
    }

    /// What the server writes, whatever it is asked: the same pages as with a plain literal, and as a JSON reader finds where it is JSON.
    #[tokio::test]
    async fn the_pages_are_those_that_a_server_tells() {
        const LIMIT: std::time::Duration = std::time::Duration::from_secs(30);
        let server = fixture::Server::start(&[]);
        server.sql(
            "CREATE TABLE shop.t (id INT PRIMARY KEY, n VARCHAR(40), l VARCHAR(40) CHARACTER SET latin1, KEY (n)) ENGINE = InnoDB; \
             INSERT INTO shop.t SELECT seq, CONCAT('n', seq), 'l' FROM shop.seq_1_to_5000; \
             CREATE TABLE shop.`a\"\\x\n},` (`k\"` INT PRIMARY KEY, KEY `i\"{` (`k\"`)); INSERT INTO shop.`a\"\\x\n},` VALUES (1), (2)",
        );
        let login = link::Login::new("app", link::Secret::Password("secret".into()));
        let mut link = link::Link::connect(&server.address().to_string(), &login, LIMIT).await.unwrap();
        link.query("USE shop", LIMIT).await.unwrap();
        let mut valid = 0;
        for mode in ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"] {
            link.query(&format!("SET sql_mode = '{mode}'"), LIMIT).await.unwrap();
            let mut plain = None;
            for literal in [
                b"'plain'".as_slice(),
                b"'O''Brien'",
                b"'\"'",
                b"'\", \"pages_accessed\": 7'",
                b"'a\nb\r\x01\x1f\x7f\t\x1a'",
                b"'\xc3\xa4 \xe4\xb8\xad'",
                b"'\xff\xfe'",
                b"_binary'\xff\"'",
                b"_latin1'\xe4'",
                b"_gbk'\x95\x5c\x5c'",
                b"X'00220a5c'",
                b"CONCAT('{\n', '\n}')",
                b"REPLACE('a\\\\b', 'b', '\"')",
                br"'O\'Brien'",
                br"'\\\''",
                br"'\0\Z\n\b\t\%'",
            ] {
                let sql = [b"SELECT l FROM t WHERE id > 0 AND CONCAT(n, '') <> ", literal].concat();
                // Some are no literal in some modes.
                let asked = [b"ANALYZE FORMAT=JSON ", &*sql].concat();
                let Ok(rows) = link.query_bytes(&asked, LIMIT).await else { continue };
                let told = pages(&sql, rows.rows[0][0].as_deref().unwrap());
                assert!(
                    told.is_some_and(|pages| pages.accessed > 10),
                    "{mode} {}: {told:?}",
                    sql.escape_ascii()
                );
                assert_eq!(told, *plain.get_or_insert(told), "{mode} {}: {rows:?}", sql.escape_ascii());
            }
            for sql in [
                "SELECT 1",
                "SELECT l FROM t WHERE id < 0 LIMIT 0",
                "SELECT * FROM t a JOIN t b ON a.n = b.n WHERE a.id BETWEEN 5 AND 50 ORDER BY b.l",
                "SELECT n FROM t WHERE id = 7 UNION SELECT l FROM t WHERE n LIKE 'n1%' GROUP BY l",
                "SELECT (SELECT MAX(n) FROM t b WHERE b.l = a.l AND b.id < 9) FROM t a WHERE id IN (SELECT COUNT(*) FROM t GROUP BY l)",
                "WITH c AS (SELECT id FROM t WHERE id < 100) SELECT COUNT(*) FROM c JOIN t USING (id)",
                "SELECT * FROM t WHERE n = 'n5' OR id = 9",
                "SELECT * FROM `a\"\\x\n},` AS `b\"\n}` WHERE `k\"` + 0 > 0",
            ] {
                let rows = link.query(&format!("ANALYZE FORMAT=JSON {sql}"), LIMIT).await.unwrap();
                let answer = rows.rows[0][0].as_deref().unwrap();
                let told = pages(sql.as_bytes(), answer).expect(sql);
                if let Ok(json) = serde_json::from_slice(answer) {
                    assert_eq!((told.accessed, told.read), summed(&json), "{sql}: {rows:?}");
                    valid += 1;
                } else {
                    assert!(told.accessed > 0, "{sql}: {rows:?}");
                }
            }
        }
        // With ANSI_QUOTES the server quotes names as JSON quotes texts.
        assert!(valid >= 14, "{valid}");
    }

    fn summed(json: &serde_json::Value) -> (u64, u64) {
        let children: Vec<&serde_json::Value> = match json {
            serde_json::Value::Object(members) => members.values().collect(),
            serde_json::Value::Array(values) => values.iter().collect(),
            _ => Vec::new(),
        };
        let number = |name| json[STATS_NAME][name].as_u64().unwrap_or(0);
        let own = (number("pages_accessed"), number("pages_read_count"));
        children.into_iter().map(summed).fold(own, |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    const STATS_NAME: &str = "r_engine_stats";

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
