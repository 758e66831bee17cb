//! Where a real MariaDB's answers end: each command is sent under each mix of capabilities that changes the form of answers,
//! the tracker is shown no more of each packet than it asked for, and when it says "ended", the very next thing on the wire
//! must be the answer to a ping.

use crate::server::{LONG, Server, address, app, link_to};
use fixture::packet::{read_packet, write_packet};
use link::{Link, Login};
use protocol::auth::native;
use protocol::capability::Caps;
use protocol::command::{Command, asks_for_cursor};
use protocol::handshake::{AuthSwitch, ChangeUser};
use protocol::ok::{Change, OkPacket, status};
use protocol::packet::Head;
use protocol::response::{Answer, End, Need, Step};
use tokio::time::timeout;

const ALWAYS: Caps = Caps(
    Login::PLAIN.0 & !Caps::DEPRECATE_EOF.0
        | Caps::MULTI_STATEMENTS.0
        | Caps::PS_MULTI_RESULTS.0
        | Caps::LOCAL_FILES.0
        | Caps::STMT_BULK_OPERATIONS.0
        | Caps::PROGRESS.0,
);
const MIXES: [Caps; 6] = [
    Caps::NONE,
    Caps::DEPRECATE_EOF,
    Caps::CACHE_METADATA,
    Caps(Caps::DEPRECATE_EOF.0 | Caps::CACHE_METADATA.0),
    Caps(Caps::DEPRECATE_EOF.0 | Caps::SESSION_TRACK.0),
    Caps(Caps::DEPRECATE_EOF.0 | Caps::SESSION_TRACK.0 | Caps::CACHE_METADATA.0 | Caps::EXTENDED_METADATA.0),
];

/// A connection on which commands are given by the byte.
struct Talk {
    link: Link,
    /// What was answered last: each packet that was asked for wholly.
    whole: Vec<Vec<u8>>,
    packets: usize,
    /// How many of them were rows.
    rows: usize,
    /// What authentication is answered with, when the server asks.
    password: &'static [u8],
}

impl Talk {
    async fn send(&mut self, seq: u8, payload: &[u8]) {
        write_packet(&mut self.link.stream, seq, payload).await.unwrap();
    }

    async fn packet(&mut self) -> (Head, Vec<u8>) {
        let read = timeout(LONG, read_packet(&mut self.link.stream)).await;
        read.expect("a packet: the tracker waits for more than the server sends").unwrap()
    }

    /// Sends a command and follows its answer to the end; all steps but `More`. Of the statements here that ask for a cursor, all
    /// but those run by `execute_call` can have one.
    async fn ask(&mut self, payload: &[u8]) -> Vec<Step> {
        let command = Command::of(payload).unwrap();
        let answer = match asks_for_cursor(payload) {
            true => Answer::with_cursor(command, self.link.caps),
            false => Answer::new(command, self.link.caps),
        };
        self.ask_and_follow(payload, answer).await
    }

    async fn ask_and_follow(&mut self, payload: &[u8], mut answer: Answer) -> Vec<Step> {
        let command = Command::of(payload).unwrap();
        self.send(0, payload).await;
        let mut steps = Vec::new();
        self.whole.clear();
        self.packets = 0;
        self.rows = 0;
        loop {
            let (head, payload) = self.packet().await;
            self.packets += 1;
            let shown = match answer.need(head.len, payload.first().copied()) {
                Need::First => &payload[..payload.len().min(1)],
                Need::Whole => {
                    self.whole.push(payload.clone());
                    &payload
                }
            };
            let is_row = answer.awaits() == "a row or the end of the rows";
            let step = answer
                .step(head.len, shown)
                .unwrap_or_else(|why| panic!("{}", answer.unfollowed(why, head.len, shown)));
            self.rows += usize::from(is_row && step == Step::More);
            match step {
                Step::More => continue,
                Step::LocalInfile => {
                    self.send(head.seq + 1, b"1\n2\n3\n").await;
                    self.send(head.seq + 2, b"").await;
                }
                Step::Auth => {
                    let salt = AuthSwitch::parse(&payload).unwrap().salt().unwrap();
                    let reply = match self.password {
                        b"" => Vec::new(),
                        password => native::reply(&native::stage1(password), &salt).to_vec(),
                    };
                    self.send(head.seq + 1, &reply).await;
                }
                Step::Part { .. } | Step::End(_) => {}
            }
            steps.push(step);
            if matches!(step, Step::End(_)) {
                self.ping(&format!("after {command:?} under {:?}", self.link.caps)).await;
                return steps;
            }
        }
    }

    /// If anything were left of an answer, it would come before this one.
    async fn ping(&mut self, when: &str) {
        self.send(0, &[Command::PING.0]).await;
        let (head, payload) = self.packet().await;
        assert_eq!((head.seq, payload.first(), head.len < 10), (1, Some(&0), true), "{when}: {payload:?}");
    }

    async fn sql(&mut self, sql: &str) -> Vec<Step> {
        self.ask(&[&[Command::QUERY.0], sql.as_bytes()].concat()).await
    }

    async fn end(&mut self, sql: &str) -> End {
        match self.sql(sql).await.pop() {
            Some(Step::End(end)) => end,
            other => panic!("{sql}: {other:?}"),
        }
    }

    async fn prepare(&mut self, sql: &str) -> (u32, u16, u16) {
        match self.ask(&[&[Command::STMT_PREPARE.0], sql.as_bytes()].concat()).await[..] {
            [Step::End(End::Prepared { id, columns, params })] => (id, columns, params),
            ref other => panic!("{sql}: {other:?}"),
        }
    }

    /// Runs a prepared statement; each parameter is a BIGINT.
    async fn execute(&mut self, id: u32, cursor: bool, params: &[u64]) -> Vec<Step> {
        self.ask(&execution(id, cursor, params)).await
    }
}

/// A COM_STMT_EXECUTE.
fn execution(id: u32, cursor: bool, params: &[u64]) -> Vec<u8> {
    let mut payload = vec![Command::STMT_EXECUTE.0];
    payload.extend_from_slice(&id.to_le_bytes());
    payload.push(u8::from(cursor));
    payload.extend_from_slice(&1u32.to_le_bytes());
    if !params.is_empty() {
        payload.extend(vec![0; params.len().div_ceil(8)]);
        payload.push(1);
        for _ in params {
            payload.extend_from_slice(&[8, 0]);
        }
        for param in params {
            payload.extend_from_slice(&param.to_le_bytes());
        }
    }
    payload
}

fn is_ok(end: End) -> bool {
    matches!(end, End::Ok { .. })
}

/// The end of rows: an EOF, or an OK in its place.
fn is_end_of_rows(end: End, caps: Caps) -> bool {
    matches!((end, caps.has(Caps::DEPRECATE_EOF)), (End::Ok { .. }, true) | (End::Eof { .. }, false))
}

fn code(end: End) -> u16 {
    match end {
        End::Err { code } => code,
        other => panic!("an error was expected, not {other:?}"),
    }
}

#[tokio::test]
async fn answers_end_where_the_tracker_says() {
    let server = Server::start(&["--max-allowed-packet=64M", "--local-infile=ON"]);
    let mut setup = link_to(&server).await;
    for sql in [
        "CREATE TABLE shop.t (a INT PRIMARY KEY, b VARCHAR(20) DEFAULT 'x')",
        "CREATE TABLE shop.empty (a INT, b INT)",
        "CREATE PROCEDURE shop.p() BEGIN SELECT 1; SELECT 2, 3; END",
        "CREATE PROCEDURE shop.o(OUT x INT) BEGIN SELECT 1; SET x = 5; END",
        "CREATE PROCEDURE shop.bad() BEGIN SELECT 1; SELECT * FROM shop.nothing; END",
    ] {
        setup.query(sql, LONG).await.unwrap();
    }
    for mix in MIXES {
        let login = Login { caps: ALWAYS | mix, database: Some(b"shop".to_vec()), ..app() };
        let link = Link::connect(&address(&server), &login, LONG).await.unwrap();
        assert!(link.caps.has(mix), "{:?}", link.caps);
        println!("---- {mix:?}");
        let mut talk = Talk { link, whole: Vec::new(), packets: 0, rows: 0, password: b"secret" };
        talk.end("TRUNCATE t").await;
        texts(&mut talk).await;
        several_results(&mut talk).await;
        small_commands(&mut talk).await;
        prepared(&mut talk).await;
        cursors(&mut talk).await;
        session_changes(&mut talk).await;
        long_rows(&mut talk).await;
        logging_in_anew(&mut talk).await;
    }
}

async fn texts(talk: &mut Talk) {
    let caps = talk.link.caps;
    for sql in ["SELECT 1", "SELECT * FROM empty", "SELECT NULL, '' FROM seq_1_to_300", "SHOW STATUS"] {
        let end = talk.end(sql).await;
        assert!(is_end_of_rows(end, caps), "{sql}: {end:?}");
    }
    assert!(is_ok(talk.end("INSERT INTO t (a) VALUES (1), (2)").await));
    assert!(is_ok(talk.end("DO 1").await));
    assert!(is_end_of_rows(talk.end("INSERT INTO t (a) VALUES (3) RETURNING a, b").await, caps));
    assert_eq!(code(talk.end("SELEC").await), 1064);
    // An error behind some rows, and one behind the columns.
    let sql = "SELECT (SELECT 1 UNION ALL SELECT 2 FROM seq_1_to_1 WHERE s.seq > 2) FROM seq_1_to_5 s";
    assert_eq!(code(talk.end(sql).await), 1242);
    assert!(talk.packets > 3, "{} packets", talk.packets);
    assert_eq!(talk.sql("LOAD DATA LOCAL INFILE 'x' INTO TABLE empty (a)").await.len(), 2);
    assert_eq!(code(talk.end("LOAD DATA LOCAL INFILE 'x' INTO TABLE nothing").await), 1146);
    assert!(is_ok(talk.end("TRUNCATE empty").await));
}

async fn several_results(talk: &mut Talk) {
    let steps = talk.sql("SELECT 1; DO 1; SELECT 2 FROM seq_1_to_3; INSERT INTO t (a) VALUES (10)").await;
    assert!(
        matches!(
            steps[..],
            [Step::Part { .. }, Step::Part { .. }, Step::Part { .. }, Step::End(End::Ok { .. })]
        ),
        "{steps:?}"
    );
    let steps = talk.sql("SELECT 1; SELEC; SELECT 2").await;
    assert!(matches!(steps[..], [Step::Part { .. }, Step::End(End::Err { code: 1064 })]), "{steps:?}");
    let steps = talk.sql("CALL p()").await;
    assert!(
        matches!(steps[..], [Step::Part { .. }, Step::Part { .. }, Step::End(End::Ok { .. })]),
        "{steps:?}"
    );
    let steps = talk.sql("CALL bad()").await;
    assert!(matches!(steps[..], [Step::Part { .. }, Step::End(End::Err { code: 1146 })]), "{steps:?}");
}

async fn small_commands(talk: &mut Talk) {
    let caps = talk.link.caps;
    for (payload, is_wanted) in [
        (&b"\x0e"[..], (|end| is_ok(end)) as fn(End) -> bool), // PING
        (b"\x02shop", |end| is_ok(end)),                       // INIT_DB
        (b"\x02nowhere", |end| code(end) == 1049),             // INIT_DB
        (b"\x09", |end| end == End::Text),                     // STATISTICS
        (b"\x07\x01", |end| is_ok(end)),                       // REFRESH
        (b"\x1b\x00\x00", |end| !matches!(end, End::Err { .. })), // SET_OPTION: multi-statements on
        (b"\x0d", |end| !matches!(end, End::Err { .. })),      // DEBUG
        (b"\x04t\x00", |end| !matches!(end, End::Err { .. })), // FIELD_LIST
        (b"\x04nothing\x00", |end| code(end) == 1146),         // FIELD_LIST
        (b"\x0c\xff\xff\xff\x7f", |end| code(end) == 1094),    // PROCESS_KILL
        (b"\x0a", |end| !matches!(end, End::Err { .. })),      // PROCESS_INFO
        (b"\x63", |end| code(end) == 1047),                    // no command at all
    ] {
        let steps = talk.ask(payload).await;
        let [Step::End(end)] = steps[..] else { panic!("{payload:?} under {caps:?}: {steps:?}") };
        assert!(is_wanted(end), "{payload:?} under {caps:?}: {end:?}");
        if matches!(payload[0], 4 | 13 | 27) {
            println!("{:?}: {} packets, {end:?}", Command(payload[0]), talk.packets);
        }
    }
}

async fn prepared(talk: &mut Talk) {
    let caps = talk.link.caps;
    assert_eq!(code_of_prepare(talk, "SELEC").await, 1064);
    for (sql, columns, params) in [
        ("DO 1", 0, 0),
        ("SELECT 1, 2, 3", 3, 0),
        ("INSERT INTO t (a) VALUES (?)", 0, 1),
        ("SELECT a, b FROM t WHERE a > ? AND a < ?", 2, 2),
    ] {
        let (id, found_columns, found_params) = talk.prepare(sql).await;
        assert_eq!((found_columns, found_params), (columns, params), "{sql}");
        let values: Vec<u64> = (0..u64::from(params)).map(|n| 20 + n * 1000).collect();
        // By the third time, columns that did not change are left out when that was agreed on.
        let mut packets = Vec::new();
        for nth in 0..3 {
            let values: Vec<u64> = values.iter().map(|value| value + nth).collect();
            let steps = talk.execute(id, false, &values).await;
            let [Step::End(end)] = steps[..] else { panic!("{sql}: {steps:?}") };
            assert!(if columns > 0 { is_end_of_rows(end, caps) } else { is_ok(end) }, "{sql}: {end:?}");
            packets.push(talk.packets);
        }
        if columns > 0 {
            // The number of columns, the end, and perhaps an EOF between; one row of the constants, none of the table.
            let around = if caps.has(Caps::DEPRECATE_EOF) { 2 } else { 3 } + usize::from(params == 0);
            let described = if caps.has(Caps::CACHE_METADATA) { 0 } else { usize::from(columns) };
            assert_eq!(packets[2], around + described, "{sql}: {packets:?}");
        }
        let mut reset = vec![Command::STMT_RESET.0];
        reset.extend_from_slice(&id.to_le_bytes());
        assert!(matches!(talk.ask(&reset).await[..], [Step::End(End::Ok { .. })]));
        // Not answered: what comes next is the answer to the ping.
        for command in [Command::STMT_SEND_LONG_DATA, Command::STMT_CLOSE] {
            assert!(!command.answers());
            let mut payload = vec![command.0];
            payload.extend_from_slice(&id.to_le_bytes());
            if command == Command::STMT_SEND_LONG_DATA {
                if params == 0 {
                    continue; // no parameter to send a piece of
                }
                payload.extend_from_slice(b"\x00\x00piece");
            }
            talk.send(0, &payload).await;
            talk.ping(command.name()).await;
        }
        let steps = talk.execute(id, false, &values).await;
        assert!(matches!(steps[..], [Step::End(End::Err { code: 1243 })]), "{steps:?}");
    }
    // A procedure: results, OUT parameters as one result more, and the end.
    let (id, ..) = talk.prepare("CALL p()").await;
    let steps = talk.execute(id, false, &[]).await;
    assert!(
        matches!(steps[..], [Step::Part { .. }, Step::Part { .. }, Step::End(End::Ok { .. })]),
        "{steps:?}"
    );
    let (id, ..) = talk.prepare("CALL o(?)").await;
    let steps = talk.execute(id, false, &[1]).await;
    let [Step::Part { .. }, Step::Part { status: out, .. }, Step::End(End::Ok { .. })] = steps[..] else {
        panic!("{steps:?}");
    };
    assert_ne!(out & status::PS_OUT_PARAMS, 0);
    bulk(talk).await;
}

async fn code_of_prepare(talk: &mut Talk, sql: &str) -> u16 {
    match talk.ask(&[&[Command::STMT_PREPARE.0], sql.as_bytes()].concat()).await[..] {
        [Step::End(End::Err { code })] => code,
        ref other => panic!("{other:?}"),
    }
}

/// MariaDB's bulk execution, of the statement prepared last, without and with rows in return.
async fn bulk(talk: &mut Talk) {
    for (sql, returns) in
        [("INSERT INTO t (a) VALUES (?)", false), ("INSERT INTO t (a) VALUES (?) RETURNING a", true)]
    {
        talk.end("DELETE FROM t").await;
        talk.prepare(sql).await;
        let mut payload = vec![Command::STMT_BULK_EXECUTE.0];
        payload.extend_from_slice(&protocol::command::LAST_PREPARED.to_le_bytes());
        payload.extend_from_slice(&[128, 0, 3, 0]); // types follow: LONG
        for value in 1..=5u32 {
            payload.push(0);
            payload.extend_from_slice(&value.to_le_bytes());
        }
        let steps = talk.ask(&payload).await;
        let Some(&Step::End(end)) = steps.last() else { panic!("{steps:?}") };
        assert!(if returns { is_end_of_rows(end, talk.link.caps) } else { is_ok(end) }, "{sql}: {steps:?}");
        talk.end("DELETE FROM t").await;
    }
}

async fn cursors(talk: &mut Talk) {
    let (id, ..) = talk.prepare("SELECT seq, 'x' FROM seq_1_to_10").await;
    for _ in 0..2 {
        let steps = talk.execute(id, true, &[]).await;
        let [Step::End(end)] = steps[..] else { panic!("{steps:?}") };
        assert_ne!(end.status().unwrap() & status::CURSOR_EXISTS, 0, "{end:?}");
        let mut rows = 0;
        loop {
            let mut fetch = vec![Command::STMT_FETCH.0];
            fetch.extend_from_slice(&id.to_le_bytes());
            fetch.extend_from_slice(&4u32.to_le_bytes());
            let steps = talk.ask(&fetch).await;
            let [Step::End(end)] = steps[..] else { panic!("{steps:?}") };
            rows += talk.packets - 1;
            if end.status().unwrap() & status::LAST_ROW_SENT != 0 {
                break;
            }
        }
        assert_eq!(rows, 10);
    }
    let fetch = [&[Command::STMT_FETCH.0][..], &[99, 0, 0, 0, 1, 0, 0, 0]].concat();
    assert!(matches!(talk.ask(&fetch).await[..], [Step::End(End::Err { code: 1243 })]));
}

/// Servers say CURSOR_EXISTS, too, while a cursor is open inside a procedure or a block; the rows of a SELECT there come all the same.
#[tokio::test]
async fn a_cursor_inside_a_procedure_is_none_of_the_clients() {
    let server = Server::start(&[]);
    let mut setup = link_to(&server).await;
    for sql in [
        "CREATE TABLE shop.t (a INT PRIMARY KEY)",
        "INSERT INTO shop.t VALUES (1), (2), (3)",
        "CREATE PROCEDURE shop.opened() BEGIN
            DECLARE c CURSOR FOR SELECT * FROM t; OPEN c; SELECT 1; SELECT * FROM t; CLOSE c; SELECT 2; END",
        "CREATE PROCEDURE shop.handled() BEGIN
            DECLARE x INT; DECLARE c CURSOR FOR SELECT a FROM t;
            DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SELECT 'handled', x;
            OPEN c; FETCH c INTO x; SIGNAL SQLSTATE '45000'; SELECT x; END",
        "CREATE PROCEDURE shop.left_open() BEGIN
            DECLARE x INT; DECLARE c CURSOR FOR SELECT a FROM t;
            OPEN c; FETCH c INTO x; SELECT x; UPDATE t SET a = a + 10 WHERE a = 3; UPDATE t SET a = 3 WHERE a = 13; END",
        "CREATE FUNCTION shop.f(n INT) RETURNS INT BEGIN
            DECLARE x INT; DECLARE c CURSOR FOR SELECT a FROM t; OPEN c; FETCH c INTO x; RETURN x + n; END",
    ] {
        setup.query(sql, LONG).await.unwrap();
    }
    for mix in MIXES {
        let login = Login { caps: ALWAYS | mix, database: Some(b"shop".to_vec()), ..app() };
        let link = Link::connect(&address(&server), &login, LONG).await.unwrap();
        let mut talk = Talk { link, whole: Vec::new(), packets: 0, rows: 0, password: b"secret" };
        for (sql, results, rows) in [
            ("CALL opened()", 3, 5),
            ("CALL handled()", 2, 2),
            ("CALL left_open()", 1, 1),
            ("FOR rec IN (SELECT a FROM t) DO SELECT rec.a; END FOR", 3, 3),
            ("FOR rec IN (SELECT a FROM t) DO SELECT rec.a, t.a FROM t; END FOR; SELECT 1", 4, 10),
            (
                "BEGIN NOT ATOMIC DECLARE c CURSOR FOR SELECT * FROM t; OPEN c; SELECT * FROM t; CLOSE c; END",
                1,
                3,
            ),
            ("SELECT f(a) FROM t", 0, 3),
        ] {
            let steps = talk.sql(sql).await;
            check_inner(&talk, sql, &steps, results, rows);
            if sql.contains("; SELECT 1") {
                continue; // two statements, which nobody prepares as one
            }
            let (id, ..) = talk.prepare(sql).await;
            for asks in [false, true] {
                let payload = execution(id, asks, &[]);
                assert_eq!(asks_for_cursor(&payload), asks);
                if asks && results == 0 {
                    let steps = talk.ask(&payload).await;
                    let [Step::End(end)] = steps[..] else { panic!("{sql}: {steps:?}") };
                    assert_eq!(
                        (end.status().unwrap() & status::CURSOR_EXISTS, talk.rows),
                        (status::CURSOR_EXISTS, 0)
                    );
                    continue;
                }
                // Whatever was asked for: what runs code has no cursor.
                let answer = Answer::new(Command::STMT_EXECUTE, talk.link.caps);
                let steps = talk.ask_and_follow(&payload, answer).await;
                check_inner(&talk, sql, &steps, results, rows);
            }
        }
    }
}

/// The answer to `sql` had so many results before its last, and so many rows in all.
fn check_inner(talk: &Talk, sql: &str, steps: &[Step], results: usize, rows: usize) {
    let caps = talk.link.caps;
    assert_eq!((steps.len() - 1, talk.rows), (results, rows), "{sql} under {caps:?}: {steps:?}");
    // That the server does say it is what makes this worth a test.
    let says_cursor =
        |step: &Step| matches!(step, Step::Part { status, .. } if status & status::CURSOR_EXISTS != 0);
    assert_eq!(steps.iter().any(says_cursor), results > 0, "{sql} under {caps:?}: {steps:?}");
}

async fn session_changes(talk: &mut Talk) {
    let tracks = talk.link.caps.has(Caps::SESSION_TRACK);
    talk.end("SET session_track_system_variables='*', session_track_state_change=1, session_track_transaction_info='CHARACTERISTICS'")
        .await;
    for sql in [
        "USE shop",
        "SET autocommit=0, sql_mode='', character_set_results=NULL",
        "START TRANSACTION READ ONLY",
        "SELECT 1",
        "COMMIT",
        "SET @a=1",
        "CREATE TEMPORARY TABLE tmp (a INT)",
        "SET NAMES utf8mb4",
        "SET autocommit=1",
    ] {
        let steps = talk.sql(sql).await;
        let last = talk.whole.last().unwrap();
        let Some(&Step::End(End::Ok { changed, .. })) = steps.last() else {
            assert!(!tracks, "{sql}: {steps:?}");
            continue;
        };
        let ok = OkPacket::parse(last, talk.link.caps).unwrap();
        let changes: Vec<Change<'_>> = ok.changes().map(Result::unwrap).collect();
        assert_eq!(changed, !changes.is_empty());
        if !tracks {
            assert_eq!(changes, [], "{sql}");
            continue;
        }
        println!("{sql}: {}", show(&changes));
        let has = |name: &str, wanted: &str| {
            changes.contains(&Change::Variable { name: name.as_bytes(), value: wanted.as_bytes() })
        };
        match sql {
            "USE shop" => assert!(changes.contains(&Change::Schema(b"shop"))),
            "SET autocommit=1" => assert!(has("autocommit", "ON")),
            "START TRANSACTION READ ONLY" => {
                assert!(changes.contains(&Change::Characteristics(b"START TRANSACTION READ ONLY;")));
            }
            "SET NAMES utf8mb4" => assert!(has("character_set_client", "utf8mb4")),
            _ => {}
        }
        let bare = protocol::ok::without_track(last, talk.link.caps).unwrap();
        let bare = OkPacket::parse(&bare, talk.link.caps.without(Caps::SESSION_TRACK)).unwrap();
        assert_eq!((bare.affected, bare.warnings, bare.info), (ok.affected, ok.warnings, ok.info));
    }
}

fn show(changes: &[Change<'_>]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let each = changes.iter().map(|change| match change {
        Change::Variable { name, value } => format!("{}={}", text(name), text(value)),
        Change::Schema(name) => format!("schema {}", text(name)),
        Change::Characteristics(sql) => format!("characteristics {:?}", text(sql)),
        Change::TransactionState(state) => format!("transaction {}", text(state)),
        other => format!("{other:?}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Rows around and beyond the length of one packet.
async fn long_rows(talk: &mut Talk) {
    let caps = talk.link.caps;
    // The value is as long as said, and 4 (or 9) bytes more for its length.
    for (len, packets_a_row) in
        [(0xFF_FFFF - 5, 1), (0xFF_FFFF - 4, 2), (0xFF_FFFF - 3, 2), (0xFF_FFFF, 2), (2 * 0xFF_FFFF - 9, 3)]
    {
        // The first column's first byte leads the row, and 0xFF and 0xFE lead its continuation.
        for byte in ["FE", "FF", "00"] {
            let sql = format!("SELECT REPEAT(x'{byte}', {len})");
            let end = talk.end(&sql).await;
            assert!(is_end_of_rows(end, caps), "{sql}: {end:?}");
            let around = if caps.has(Caps::DEPRECATE_EOF) { 3 } else { 4 };
            assert_eq!(talk.packets, around + packets_a_row, "{sql}");
        }
    }
}

async fn logging_in_anew(talk: &mut Talk) {
    let steps = talk.ask(&[Command::RESET_CONNECTION.0]).await;
    assert!(matches!(steps[..], [Step::End(End::Ok { .. })]), "{steps:?}");
    let change = ChangeUser {
        user: b"app".to_vec(),
        auth: vec![1; 20], // not for this challenge: the server asks again
        database: b"shop".to_vec(),
        charset: Some(45),
        plugin: Some("mysql_clear_password".into()),
        attrs: Vec::new(),
    };
    let caps = talk.link.caps;
    let steps = talk.ask(&change.encode(caps)).await;
    assert!(matches!(steps[..], [Step::Auth, Step::End(End::Ok { .. })]), "{steps:?}");
    // Afterwards the old database and the old user are gone.
    let open = ChangeUser { user: b"open".to_vec(), auth: Vec::new(), database: Vec::new(), ..change };
    let open = ChangeUser { plugin: Some(native::PLUGIN.into()), ..open };
    talk.password = b"";
    let steps = talk.ask(&open.encode(caps)).await;
    assert!(matches!(steps.last(), Some(Step::End(End::Ok { .. }))), "{steps:?}");
    assert_eq!(code(talk.end("SELECT * FROM t").await), 1046);
    let ok = talk.ask(&[&[Command::RESET_CONNECTION.0][..]].concat()).await;
    assert!(matches!(ok[..], [Step::End(End::Ok { .. })]));
}
