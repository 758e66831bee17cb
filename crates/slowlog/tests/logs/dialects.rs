//! Entries of each server, as those write them, and what a parser that knows less makes of them wrongly.

use slowlog::{Item, Limits, Reader, Start};

/// One line an item.
fn events_of(log: &[u8]) -> Vec<String> {
    events_from(log, Start::Whole, Limits::default())
}

fn events_from(log: &[u8], start: Start, limits: Limits) -> Vec<String> {
    let mut reader = Reader::new(limits, start);
    reader.feed(log);
    reader.finish();
    let mut lines = Vec::new();
    while let Some(item) = reader.next() {
        lines.push(line(&item));
    }
    lines
}

fn line(item: &Item<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\n', "\\n");
    match item {
        Item::Event(event) => {
            let marks = [(event.is_cut, " cut"), (event.quoted > 0, " quotes")];
            let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
            let command = match event.command {
                slowlog::Command::Statement(sql) => text(sql),
                slowlog::Command::Administrator(word) => format!("<{}>", text(word)),
                slowlog::Command::Nothing => "-".to_owned(),
            };
            let (schema, how) = match event.schema {
                slowlog::Schema::Own(name) => (text(name), "own"),
                slowlog::Schema::Used(name) => (text(name), "use"),
                slowlog::Schema::Carried(name) => (text(name), "carried"),
                slowlog::Schema::Unknown => (String::new(), "unknown"),
            };
            let connection = event.connection.map_or("?".to_owned(), |id| id.to_string());
            format!("{:?} {connection} {schema}/{how}{marks}: {command}", event.dialect)
        }
        Item::Banner { .. } => "banner".to_owned(),
        Item::Unparsed { why, bytes, .. } => format!("{why:?}: {}", text(bytes)),
    }
}

const MARIADB: &str = "/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-0+deb12u1-log (Debian 12). started with:
Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock
Time\t\t    Id Command\tArgument
# Time: 261122  8:05:01
# User@Host: app[app] @ localhost [127.0.0.1]
# Thread_id: 31  Schema: shop  QC_hit: No
# Query_time: 0.000187  Lock_time: 0.000087  Rows_sent: 1  Rows_examined: 2
# Rows_affected: 0  Bytes_sent: 60
use shop;
SET timestamp=1795334701;
SELECT 1;
# User@Host: app[app] @ localhost [127.0.0.1]
# Thread_id: 32  Schema:   QC_hit: No
# Query_time: 0.000087  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 0
# explain: id\tselect_type\ttable
# explain: 1\tSIMPLE\tt
#
SET timestamp=1795334701;
# administrator command: Quit;
";

#[test]
fn mariadb() {
    assert_eq!(
        events_of(MARIADB.as_bytes()),
        ["banner", "banner", "banner", "MariaDb 31 shop/own: SELECT 1", "MariaDb 32 /own: <Quit>",]
    );
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    reader.feed(MARIADB.as_bytes());
    for _ in 0..3 {
        assert!(matches!(reader.next(), Some(Item::Banner { .. })));
    }
    let Some(Item::Event(event)) = reader.next() else { panic!("an entry") };
    assert_eq!((event.user, event.host, event.address), (&b"app"[..], &b"localhost"[..], &b"127.0.0.1"[..]));
    assert_eq!((event.start_us, event.end_us), (1_795_334_700_999_813, 1_795_334_701_000_000));
    assert_eq!((event.query_time_us, event.lock_time_us), (187, 87));
    assert_eq!((event.rows.sent, event.rows.examined, event.rows.affected), (Some(1), Some(2), Some(0)));
    assert_eq!(event.field("Bytes_sent"), Some(&b"60"[..]));
    assert_eq!(event.kind(), Some(protocol::statement::StatementKind::Read));
}

#[test]
fn mysql_8_with_and_without_extra_fields() {
    let log = b"# Time: 2020-01-02T03:04:05.678901Z
# User@Host: root[root] @ localhost []  Id:     8
# Query_time: 1.500000  Lock_time: 0.000045 Rows_sent: 1  Rows_examined: 0
use shop;
SET timestamp=1577934244;
select 1;
# Time: 2020-01-02T03:04:06.000000Z
# User@Host: root[root] @ localhost []  Id:     9
# Query_time: 0.100000  Lock_time: 0.000045 Rows_sent: 1  Rows_examined: 0 Thread_id: 9 Errno: 0 Killed: 0 Bytes_received: 0 Bytes_sent: 57 Start: 2020-01-02T03:04:05.900000Z End: 2020-01-02T03:04:06.000000Z
SET timestamp=1577934245;
# administrator command: Ping;
";
    assert_eq!(events_of(log), ["MySql57 8 shop/use: select 1", "MySql57 9 shop/carried: <Ping>"]);
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    reader.feed(log);
    let Some(Item::Event(event)) = reader.next() else { panic!("an entry") };
    assert_eq!((event.start_us, event.end_us), (1_577_934_244_178_901, 1_577_934_245_678_901));
}

#[test]
fn percona_says_for_how_many_an_entry_stands() {
    let log = b"# Time: 130102  3:04:05
# User@Host: root[root] @ localhost []
# Thread_id: 7  Schema: my db  Last_errno: 0  Killed: 0
# Query_time: 2.000001  Lock_time: 0.000045  Rows_sent: 1  Rows_examined: 0  Rows_affected: 0
# Bytes_sent: 57
# InnoDB_trx_id: A1
# Log_slow_rate_type: session  Log_slow_rate_limit: 10
SET timestamp=1357095843;
select 1;
";
    assert_eq!(events_of(log), ["Percona 7 my db/own: select 1"]);
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    reader.feed(log);
    reader.finish();
    let Some(Item::Event(event)) = reader.next() else { panic!("an entry") };
    assert_eq!(
        (event.start_us, event.end_us),
        (1_357_095_843_000_000, 1_357_095_845_000_001),
        "its timestamp is the start"
    );
    assert_eq!(event.rate, Some(slowlog::Rate { by: slowlog::RateBy::Session, one_in: 10 }));
}

#[test]
fn what_a_warning_and_a_name_bring_along_is_of_the_head() {
    let text = "# User@Host: app[app] @ localhost [127.0.0.1]
# Thread_id: 32  Schema: a
b  QC_hit: No
# Query_time: 0.000087  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 0
# Warnings
# Warning 1292 Truncated incorrect INTEGER value: 'x
it's
# User@Host: me[me] @ here []
'
use `a
b`;
SET timestamp=1795334701;
SELECT 1;
";
    let seen = events_of((text.to_owned() + text).as_bytes());
    assert_eq!(seen, ["MySql55 32 a/own: SELECT 1", "MySql55 32 a/own: SELECT 1"]);
}

#[test]
fn without_a_set_line_the_sql_begins_with_the_first_line_that_is_none_of_the_head() {
    let head = "# User@Host: root[root] @ localhost []\n# Query_time: 1  Lock_time: 0  Rows_sent: 1  Rows_examined: 0\n";
    let log = format!("{head}use shop;\nSELECT '\n';\n{head}SELECT 2;\n");
    assert_eq!(
        events_of(log.as_bytes()),
        ["MySql55 ? shop/use: SELECT '\\n'", "MySql55 ? shop/carried: SELECT 2"]
    );
}

const OLD: &str = "# Time: 200102  3:04:05
# User@Host: root[root] @ localhost []
# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 0
SET timestamp=1577934245;
";

fn old(sql: &str) -> String {
    format!("{OLD}{sql};\n")
}

#[test]
fn text_in_the_form_of_a_head_is_text() {
    let quoted = format!("INSERT INTO note VALUES ('{}')", old("DROP TABLE t") + &old("SELECT 2"));
    let events = events_of((quoted.as_str().to_owned() + ";\n").as_bytes().splice_into(OLD).as_slice());
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].ends_with(&quoted.replace('\n', "\\n")), "{events:?}");
    assert!(events[0].contains("quotes"));
}

trait SpliceInto {
    fn splice_into(&self, head: &str) -> Vec<u8>;
}

impl SpliceInto for [u8] {
    fn splice_into(&self, head: &str) -> Vec<u8> {
        [head.as_bytes(), self].concat()
    }
}

#[test]
fn a_broken_quote_costs_no_other_entry() {
    let sound = old("SELECT 1") + &old("SELECT 'a', \"b\"");
    for broken in
        ["SELECT 'O'Brien'", "SELECT 'a\\'", "SELECT \"", "SELECT /*", "SELECT `", "SELECT 'a\nb'c'"]
    {
        // Once, twice in a row, and again after others.
        let broken = old(broken);
        let log = broken.clone() + &sound + &broken + &broken + &sound + &broken;
        let seen = events_of(log.as_bytes());
        let sqls: Vec<&str> = log.split(OLD).skip(1).map(|sql| &sql[..sql.len() - 2]).collect();
        let wanted: Vec<String> =
            sqls.iter().map(|sql| format!("MySql55 ? /unknown: {}", sql.replace('\n', "\\n"))).collect();
        assert_eq!(seen, wanted);
    }
}

#[test]
fn logs_in_strings_are_strings() {
    let quoted =
        old("SELECT 1") + &old("SELECT 2") + &old("SELECT 'a'").replace('\'', "''") + &old("SELECT 3");
    for insert in [
        format!("INSERT INTO note VALUES ('x;\n{quoted}')"),
        format!("INSERT INTO note VALUES (\"x;\n{quoted}\", 'y;\n{quoted}', 5)"),
        format!("/* x;\n{quoted} */ INSERT INTO note VALUES (5)"),
    ] {
        let seen = events_of((old("SELECT 1") + &old(&insert) + &old("SELECT 2")).as_bytes());
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert_eq!(seen[1], format!("MySql55 ? /unknown quotes: {}", insert.replace('\n', "\\n")));
        assert_eq!(seen[2], "MySql55 ? /unknown: SELECT 2");
        // As the last of a log without an end of line.
        let log = old("SELECT 1") + old(&insert).trim_end();
        assert_eq!(events_of(log.as_bytes()).len(), 2, "{log}");
    }
    // Only a comment's apostrophe closes what another text opened.
    let log = old("SELECT 'O'Brien'")
        + &old("SELECT 1").repeat(50)
        + &old("-- it's the report;\nSELECT 2")
        + &old("SELECT 3");
    assert_eq!(events_of(log.as_bytes()).len(), 53);
}

#[test]
fn a_crash_within_an_entry_and_the_banner_of_the_next_start() {
    let banner = MARIADB.split_inclusive('\n').take(3).collect::<String>();
    let log = format!("{OLD}DELETE FROM t WHERE a = {banner}{}", old("SELECT 1"));
    assert_eq!(
        events_of(log.as_bytes()),
        [
            "MySql55 ? /unknown cut: DELETE FROM t WHERE a = ",
            "banner",
            "banner",
            "banner",
            "MySql55 ? /unknown: SELECT 1",
        ]
    );
    let log = format!("{OLD}DELETE FROM t WHERE a = 'b{banner}{}", old("SELECT 1"));
    assert_eq!(events_of(log.as_bytes())[0], "MySql55 ? /unknown cut: DELETE FROM t WHERE a = 'b");
    assert_eq!(events_of(log.as_bytes()).len(), 5);
}

#[test]
fn ends_that_are_cut_off_are_told() {
    let log = old("SELECT 1") + &old("SELECT 2");
    assert_eq!(
        events_of(&log.as_bytes()[..log.len() - 3]),
        ["MySql55 ? /unknown: SELECT 1", "MySql55 ? /unknown cut: SELECT ",]
    );
    let first = old("SELECT 1");
    for length in first.len() + 1..first.len() + OLD.len() {
        let seen = events_of(&log.as_bytes()[..length]);
        assert_eq!(seen[0], "MySql55 ? /unknown: SELECT 1", "{length}");
        assert_eq!(seen.len(), 2, "{length}: {seen:?}");
        assert!(seen[1].starts_with("Cut: "), "{length}: {seen:?}");
    }
}

#[test]
fn what_is_no_log_is_shown_and_counted() {
    let log = format!("\x1f\u{8b} not a log\nat all\n{}rubbish\n{}", old("SELECT 1"), old("SELECT 2"));
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    reader.feed(log.as_bytes());
    reader.finish();
    let mut lines = Vec::new();
    while let Some(item) = reader.next() {
        lines.push(line(&item));
    }
    assert_eq!(
        lines,
        [
            "Stray: \x1f\u{8b} not a log\\nat all\\n",
            "MySql55 ? /unknown cut: SELECT 1;\\nrubbish\\n",
            "MySql55 ? /unknown: SELECT 2",
        ]
    );
    let counts = reader.counts();
    assert_eq!((counts.events, counts.cut, counts.unparsed), (2, 1, 1));
    assert_eq!(counts.unparsed_bytes, lines[0].len() as u64 - "Stray: ".len() as u64 - 2);
}

#[test]
fn an_entry_that_is_too_long_is_counted_and_the_next_is_whole() {
    let limits = Limits { event_bytes_max: 1_000, ..Limits::default() };
    let long = old(&format!("SELECT '{}'", "x\n".repeat(2_000)));
    let log = old("SELECT 1") + &long + &old("SELECT 2");
    let mut reader = Reader::new(limits, Start::Whole);
    let mut lines = Vec::new();
    let mut kept_max = 0;
    for piece in log.as_bytes().chunks(100) {
        reader.feed(piece);
        while let Some(item) = reader.next() {
            if !matches!(item, Item::Unparsed { .. }) {
                lines.push(line(&item));
            }
        }
        kept_max = kept_max.max(reader.pending_bytes());
    }
    reader.finish();
    while let Some(item) = reader.next() {
        lines.push(line(&item));
    }
    assert_eq!(lines, ["MySql55 ? /unknown: SELECT 1", "MySql55 ? /unknown: SELECT 2"]);
    assert_eq!((reader.counts().too_long, reader.counts().unparsed_bytes), (1, long.len() as u64));
    assert!(kept_max < 1_400, "{kept_max} bytes were kept");
}

#[test]
fn the_last_entry_is_given_out_when_the_log_is_quiet() {
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    reader.feed(old("SELECT 1").as_bytes());
    assert!(reader.next().is_none(), "a statement may have `;` and an end of line in it");
    reader.settle();
    assert!(reader.next().is_some_and(|item| line(&item) == "MySql55 ? /unknown: SELECT 1"));
    assert!(reader.next().is_none());
    reader.feed(old("SELECT 2").trim_end().as_bytes());
    reader.settle();
    assert!(reader.next().is_none(), "it is being written");
    reader.feed(b"\n");
    reader.settle();
    assert!(reader.next().is_some_and(|item| line(&item) == "MySql55 ? /unknown: SELECT 2"));
    assert_eq!(reader.pending_bytes(), 0);
}

#[test]
fn from_the_middle_of_a_string_that_quotes_an_entry_the_first_is_a_real_one() {
    let quoted = format!("INSERT INTO note VALUES ('{}')", old("DROP TABLE t"));
    let log = old(&quoted) + &old("SELECT 1") + &old("SELECT 2");
    let from = log.find("VALUES").unwrap();
    let seen = events_from(&log.as_bytes()[from..], Start::Middle, Limits::default());
    let events: Vec<_> = seen.iter().filter(|line| !line.starts_with("Before")).collect();
    assert_eq!(events, ["MySql55 ? /unknown: SELECT 1", "MySql55 ? /unknown: SELECT 2"]);
}

#[test]
fn an_entry_that_lost_those_before_it_stands_alone() {
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    let second = "# User@Host: root[root] @ localhost []  Id: 4\n# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 0\n\
                  SET timestamp=1577934245;\nSELECT 2;\n";
    reader.feed(OLD.replace("SET", "use shop;\nSET").as_bytes());
    reader.feed(format!("SELECT 1;\n{second}").as_bytes());
    reader.finish();
    assert!(reader.next().is_some());
    let Some(Item::Event(event)) = reader.next() else { panic!("an entry") };
    let mut out = Vec::new();
    let rate = Some(slowlog::Rate { by: slowlog::RateBy::Event, one_in: 5 });
    slowlog::alone::write(&event, rate, b"", &mut out);
    assert_eq!(
        String::from_utf8(out.clone()).unwrap(),
        "# Time: 200102  3:04:05\n# User@Host: root[root] @ localhost []  Id: 4\n\
         # Log_slow_rate_type: query  Log_slow_rate_limit: 5\n\
         # Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 0\nuse shop;\nSET timestamp=1577934245;\nSELECT 2;\n"
    );
    // Again: nothing is put in twice, and the rate is the new one.
    let mut again = Reader::new(Limits::default(), Start::Whole);
    again.feed(&out);
    again.finish();
    let Some(Item::Event(event)) = again.next() else { panic!("an entry") };
    let mut twice = Vec::new();
    let rate = Some(slowlog::Rate { by: slowlog::RateBy::Event, one_in: 10 });
    slowlog::alone::write(&event, rate, b"", &mut twice);
    assert_eq!(
        String::from_utf8(twice).unwrap(),
        String::from_utf8(out).unwrap().replace("limit: 5", "limit: 10")
    );
}
