//! Logs in the forms that servers and tools have given them, each with texts that are hard to tell from heads: every entry is read, with its
//! schema, whatever pieces the log comes in. The nightly run compares with pt-query-digest, whose format this is as much as the servers'.

use std::fmt::Write;
use std::process::Command;

use slowlog::{Item, Limits, Reader, Start};

/// One entry: the number that its values are made of, and its text.
struct Entry<'a> {
    number: u64,
    sql: &'a str,
}

/// A form of heads: its name, whether its entries name their connection, and how it writes one.
type Form = (&'static str, bool, fn(&Entry<'_>) -> String);

const FORMS: [Form; 14] = [
    ("MariaDB", true, |e| {
        format!(
            "# Time: 250101 10:00:{:02}\n# User@Host: app[app] @ localhost []\n# Thread_id: {}  Schema: shop  QC_hit: No\n# Query_time: \
             0.000100  Lock_time: 0.000010  Rows_sent: 1  Rows_examined: 1\n# Rows_affected: 0  Bytes_sent: 60\nSET timestamp=17357256{:02};\n{};\n",
            e.number, e.number, e.number, e.sql
        )
    }),
    ("MariaDB, same second, with a plan", true, |e| {
        format!(
            "# User@Host: app[app] @ localhost [127.0.0.1]\n# Thread_id: {}  Schema: shop  QC_hit: No\n# Query_time: 0.000100  Lock_time: \
             0.000010  Rows_sent: 1  Rows_examined: 1\n# Rows_affected: 0  Bytes_sent: 60\n# Full_scan: Yes  Full_join: No  Tmp_table: No\n#\n# \
             explain: id\tselect_type\ttable\n# explain: 1\tSIMPLE\tNULL\n#\nuse `shop`;\nSET timestamp=1735725600;\n{};\n",
            e.number, e.sql
        )
    }),
    ("MySQL 5.0", false, |e| {
        format!(
            "# Time: 071015 21:43:{:02}\n# User@Host: root[root] @ localhost []\n# Query_time: 2  Lock_time: 0  Rows_sent: 1  Rows_examined: \
             0\nuse shop;\n{};\n",
            e.number, e.sql
        )
    }),
    ("MySQL 5.0, time and user on one line", false, |e| {
        format!(
            "# Time: 071015 21:43:{:02} # User@Host: root[root] @ localhost []\n# Query_time: 2  Lock_time: 0  Rows_sent: 1  Rows_examined: \
             0\nuse shop;\n{};\n",
            e.number, e.sql
        )
    }),
    ("MySQL 5.1", false, |e| {
        format!(
            "# User@Host: root[root] @ localhost []\n# Query_time: 2.000019  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 0\nuse \
             shop;\nSET timestamp=12345678{:02};\n{};\n",
            e.number, e.sql
        )
    }),
    ("MySQL 5.6", true, |e| {
        format!(
            "# Time: 140101 10:00:{:02}\n# User@Host: root[root] @ localhost []  Id: {:5}\n# Query_time: 0.000100  Lock_time: 0.000000 \
             Rows_sent: 1  Rows_examined: 0\nuse shop;\nSET timestamp=13885704{:02};\n{};\n",
            e.number, e.number, e.number, e.sql
        )
    }),
    ("MySQL 5.7", true, |e| {
        format!(
            "# Time: 2025-01-01T10:00:{:02}.123456Z\n# User@Host: root[root] @ localhost []  Id: {:5}\n# Query_time: 0.000100  Lock_time: \
             0.000000 Rows_sent: 1  Rows_examined: 0\nuse shop;\nSET timestamp=17357256{:02};\n{};\n",
            e.number, e.number, e.number, e.sql
        )
    }),
    ("MySQL 5.7, with blanks behind its time", true, |e| {
        format!(
            "# Time: 2025-01-01T10:00:{:02}.123456+01:00 \n# User@Host: root[root] @ localhost []  Id: {:5}\n# Query_time: 0.000100  \
             Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 0\nuse shop;\nSET timestamp=17357256{:02};\n{};\n",
            e.number, e.number, e.number, e.sql
        )
    }),
    ("MySQL 8.0 with log_slow_extra", true, |e| {
        format!(
            "# Time: 2025-01-01T10:00:{0:02}.123456Z\n# User@Host: root[root] @ localhost []  Id: {0:5}\n# Query_time: 0.000100  Lock_time: \
             0.000000 Rows_sent: 1  Rows_examined: 0 Thread_id: {0} Errno: 0 Killed: 0 Bytes_received: 0 Bytes_sent: 57 Start: \
             2025-01-01T10:00:{0:02}.123356Z End: 2025-01-01T10:00:{0:02}.123456Z\nuse shop;\nSET timestamp=17357256{0:02};\n{1};\n",
            e.number, e.sql
        )
    }),
    ("Percona Server 5.5", true, |e| {
        format!(
            "# User@Host: app[app] @ localhost []\n# Thread_id: {}  Schema: shop  Last_errno: 0  Killed: 0\n# Query_time: 0.000173  \
             Lock_time: 0.000048  Rows_sent: 18  Rows_examined: 18  Rows_affected: 0  Rows_read: 18\n# Bytes_sent: 57  Tmp_tables: 0  \
             Tmp_disk_tables: 0  Tmp_table_sizes: 0\n# InnoDB_trx_id: 1A\nSET timestamp=17357256{:02};\n{};\n",
            e.number, e.number, e.sql
        )
    }),
    ("Percona Server 8.0", true, |e| {
        format!(
            "# Time: 2025-01-01T10:00:{0:02}.123456Z\n# User@Host: app[app] @ localhost []  Id: {0:5}\n# Schema: shop  Last_errno: 0  Killed: \
             0\n# Query_time: 0.000173  Lock_time: 0.000048  Rows_sent: 18  Rows_examined: 18  Rows_affected: 0  Bytes_sent: 57\nSET \
             timestamp=17357256{0:02};\n{1};\n",
            e.number, e.sql
        )
    }),
    ("one blank between fields", true, |e| {
        format!(
            "# Time: 250101 10:00:{:02}\n# User@Host: app[app] @ localhost []\n# Thread_id: {} Schema: shop Last_errno: 0 Killed: 0\n# \
             Query_time: 0.000173 Lock_time: 0.000048 Rows_sent: 18 Rows_examined: 18 Rows_affected: 0 Rows_read: 18\nSET \
             timestamp=17357256{:02};\n{};\n",
            e.number, e.number, e.number, e.sql
        )
    }),
    ("as pt-query-digest writes it", true, |e| {
        format!(
            "# Time: 2025-01-01T10:00:{:02}\n# User@Host: app[app] @ localhost []\n# Thread_id: {}\n# Query_time: 0.100000  Lock_time: \
             0.000010  Rows_sent: 1  Rows_examined: 5\nuse shop;\n{};\n",
            e.number, e.number, e.sql
        )
    }),
    ("without users (log-short-format)", true, |e| {
        format!(
            "# Thread_id: {}  Schema: shop  QC_hit: No\n# Query_time: 0.000100  Lock_time: 0.000010  Rows_sent: 1  Rows_examined: 1\nSET \
             timestamp=17357256{:02};\n{};\n",
            e.number, e.number, e.sql
        )
    }),
];

/// What becomes of a log on its way.
type Way = (&'static str, fn(String) -> String);

const WAYS: [Way; 4] = [
    ("as it is", |log| log),
    ("with carriage returns", |log| log.replace('\n', "\r\n")),
    ("with blank lines between entries", |log| log.replace(";\n# ", ";\n\n\n# ")),
    ("without an end of line at its end", |log| log.trim_end().to_owned()),
];

/// Restarts, which stand between entries.
const BANNERS: [&str; 4] = [
    "/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:\nTcp port: 3306  Unix socket: \
     /run/mysqld/mysqld.sock\nTime\t\t    Id Command\tArgument\n",
    "C:\\Program Files\\MariaDB 10.11\\bin\\mysqld.exe, Version: 10.11.19-MariaDB-log (mariadb.org binary distribution). started with:\nTCP \
     Port: 3306, Named Pipe: MySQL\nTime\t\t    Id Command\tArgument\n",
    "/opt/my sql/bin/mysqld, Version: 8.0.36 (Source). started with:\nTcp port: 3306  Unix socket: (null)\nTime                 Id Command    \
     Argument\n",
    "mysqld, Version: 5.0.96-log. started with:\nTcp port: 3306  Unix socket: /tmp/mysql.sock\nTime                 Id Command    Argument\n",
];

/// Texts, each of which follows on the others. `PT_TOO`: those that a tool reads alike that does not look at quotes.
const TEXTS: [&[&str]; 6] = [
    &["SELECT 1", "SELECT 'a'", "SELECT 2"],
    &["SELECT a,\n  b\nFROM t", "SELECT 'it''s;'", "SELECT \"x\" # it's\n + 1", "SELECT 3"],
    &[
        "SELECT 'O'Brien'<>''",
        "SELECT 1",
        "SELECT 'a'",
        "SELECT 'O'Brien'<>''",
        "SELECT 'O'Brien'<>''",
        "SELECT 2",
    ],
    &[
        "SELECT 'C:\\'",
        "SELECT 'D:\\', 'b'",
        "SELECT 'a\\\\'",
        "SELECT /* broken",
        "SELECT `broken",
        "SELECT 1",
    ],
    &["SELECT ';\n;\n'", "INSERT INTO t VALUES (1);\nSELECT 'a;\nb'", "SELECT 1"],
    &[
        "INSERT INTO note VALUES ('x;\n# User@Host: a[a] @ b []\n# Query_time: 1  Lock_time: 0  Rows_sent: 1  Rows_examined: 0\nSELECT ''a'';\n')",
        "SELECT 1",
        "INSERT INTO note VALUES (\"x;\n# User@Host: a[a] @ b []\n# Query_time: 1  Lock_time: 0  Rows_sent: 1  Rows_examined: 0\nSELECT 1;\n\
         # User@Host: a[a] @ b []\n# Query_time: 1  Lock_time: 0  Rows_sent: 1  Rows_examined: 0\nSELECT 2;\n\", 'b')",
        "SELECT 2",
    ],
];
const PT_TOO: usize = 5;

/// A log, and a line for each of its entries.
fn log(form: &Form, texts: &[&str], way: &Way, banner: &str) -> (String, Vec<String>) {
    let (mut log, mut wanted) = (banner.to_owned(), Vec::new());
    for (number, sql) in (1..).zip(texts) {
        log += &form.2(&Entry { number, sql });
        if number == 2 {
            log += banner;
        }
        let connection = if form.1 { number.to_string() } else { "?".to_owned() };
        wanted.push(format!("{connection} shop: {}", way.1((*sql).to_owned())));
    }
    (way.1(log), wanted)
}

fn read(log: &[u8], piece_bytes: usize) -> Vec<String> {
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    let mut seen = Vec::new();
    let mut take = |reader: &mut Reader| {
        while let Some(item) = reader.next() {
            let Item::Event(event) = item else { continue };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let connection = event.connection.map_or("?".to_owned(), |id| id.to_string());
            let schema = text(event.schema.name().unwrap_or_default());
            assert!(
                event.end_us > 1_100_000_000_000_000 && event.query_time_us > 0,
                "{}",
                log.escape_ascii()
            );
            let cut = if event.is_cut { " (cut)" } else { "" };
            seen.push(format!("{connection} {schema}: {}{cut}", text(event.sql().unwrap_or_default())));
        }
    };
    for piece in log.chunks(piece_bytes) {
        reader.feed(piece);
        take(&mut reader);
    }
    reader.finish();
    take(&mut reader);
    let counts = reader.counts();
    assert_eq!((counts.cut, counts.heads, counts.unparsed_bytes), (0, 0, 0), "{}", log.escape_ascii());
    seen
}

#[test]
fn every_entry_is_read_in_whatever_form_and_pieces() {
    let mut logs = 0;
    for form in &FORMS {
        for texts in TEXTS {
            for (way, banner) in WAYS.iter().zip(BANNERS) {
                let (log, wanted) = log(form, texts, way, banner);
                for piece_bytes in [1, 7, 61, 4_096, log.len()] {
                    let seen = read(log.as_bytes(), piece_bytes);
                    assert_eq!(
                        seen, wanted,
                        "{}, {}, in pieces of {piece_bytes} bytes:\n{log}",
                        form.0, way.0
                    );
                }
                logs += 1;
            }
        }
    }
    assert_eq!(logs, FORMS.len() * TEXTS.len() * WAYS.len());
}

/// What pt-query-digest (percona-toolkit) prints for a log: its entries in one form.
fn as_pt_reads(log: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("slow.log");
    std::fs::write(&file, log).unwrap();
    let run = Command::new("pt-query-digest")
        .args(["--no-version-check", "--no-report", "--output", "slowlog", "--type", "slowlog"])
        .arg(&file)
        .output()
        .expect("pt-query-digest runs (Debian: percona-toolkit)");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
#[ignore = "starts a Perl program for each form: part of `make nightly`"]
fn pt_query_digest_reads_the_same_entries() {
    for form in &FORMS {
        for way in &WAYS {
            // Without restarts: it takes their lines for SQL.
            let (mut all, mut wanted) = (String::new(), String::new());
            for texts in &TEXTS[..PT_TOO] {
                let (log, _) = log(form, texts, way, "");
                all += &log;
                if !all.ends_with('\n') {
                    all.push('\n');
                }
                for sql in *texts {
                    let _ = writeln!(wanted, "{sql};");
                }
            }
            let printed = as_pt_reads(&all);
            // It prints what it does not understand of a head, too, and closes a last text that a carriage return ends.
            let is_head = |line: &&str| {
                matches!(line.trim_end(), "" | "#")
                    || ["# ", "use ", "SET timestamp="].iter().any(|head| line.starts_with(head))
            };
            let seen = printed.lines().filter(|line| !is_head(line));
            let seen: String = seen.map(|line| line.trim_end().to_owned() + "\n").collect();
            let seen = seen.strip_suffix("\n;\n").map_or(seen.clone(), |seen| seen.to_owned() + "\n");
            assert_eq!(seen, wanted, "{}, {}", form.0, way.0);
        }
    }
}
