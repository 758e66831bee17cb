//! Tests the rounds of queries on one connection, against a scripted server: old versions, refusals and missing answers that no real server
//! at hand can be made to show. Real servers are tested where `understudy check` is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::packet::read_packet;
use health::answer::{Answer, AnswerKind};
use health::refresh::{self, Settings, State};
use link::{Endpoint, Login, Secret};
use protocol::auth::native;
use protocol::command::{Command, query_text};
use protocol::handshake::{Greeting, LoginRequest};
use protocol::ok::{EOF, OK, put_err, put_ok, status};
use protocol::packet::{put, put_packet};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use topology::galera::sql;
use topology::health::{Question, Rules};

/// Long enough for anything on a busy machine; a test that takes longer has failed.
const LONG: Duration = Duration::from_secs(60);
/// The interval between rounds where it does not matter.
const SHORT: Duration = Duration::from_millis(20);
/// The defaults of `understudy check`: the interval, the deadline, and the greatest age of its answers.
const INTERVAL: Duration = Duration::from_millis(200);
const DEADLINE: Duration = Duration::from_millis(720);
const AGE_MAX: Duration = Duration::from_secs(1);
/// The tolerance for a timer on a busy machine.
const LITTLE: Duration = Duration::from_millis(200);

const MEMBER: Question = Question::Member(Rules::STRICT);
const REPLICA: Question = Question::Replica { lag_max: Some(Duration::from_secs(1)) };

const STATUS: &str = "the status";
const VARIABLES: &str = "the variables";
const NEW_FORM: &str = "SHOW REPLICA STATUS";
const OLD_FORM: &str = "SHOW SLAVE STATUS";
const MARIADB_FORM: &str = "SHOW ALL SLAVES STATUS";

const MARIADB: &str = "5.5.5-10.11.19-MariaDB";

/// A statement that the server has received.
#[derive(Clone, Debug)]
struct Asked {
    /// The number of its connection, from 1 on.
    link: usize,
    /// The number of its round, from 1 on: each round begins with the query for the status.
    round: usize,
    /// [`STATUS`], [`VARIABLES`], or the statement itself.
    what: String,
    at: Instant,
}

/// What the server does with a statement.
enum Reply {
    Rows {
        columns: Vec<&'static str>,
        rows: Vec<Vec<&'static str>>,
    },
    Err(u16),
    Silence,
    /// Closes the connection without an answer.
    Hangup,
}

type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A server with a given version that accepts any login and follows a script.
struct Server {
    place: Endpoint,
    log: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    async fn start(version: &str, script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = Endpoint::Tcp(listener.local_addr().unwrap().to_string());
        let log = Arc::<Mutex<Vec<Asked>>>::default();
        let (version, kept, script) = (version.to_owned(), log.clone(), Arc::new(script));
        tokio::spawn(async move {
            for link in 1.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (version, log, script) = (version.clone(), kept.clone(), script.clone());
                // An error means that the client has closed the connection, which the tests check on the client's side.
                tokio::spawn(async move { talk(stream, link, version, &log, &*script).await });
            }
        });
        Server { place, log }
    }

    fn settings(&self, interval: Duration, deadline: Duration) -> Settings {
        Settings {
            whereabouts: self.place.clone().into(),
            login: Login::new("monitor", Secret::Password("secret".into())),
            interval,
            deadline,
            disabled_file: None,
        }
    }

    /// Starts to poll the server, until the test ends.
    fn watched(&self, interval: Duration, deadline: Duration) -> watch::Receiver<Arc<State>> {
        let (sender, states) = refresh::channel();
        let settings = self.settings(interval, deadline);
        let (_, logins) = watch::channel(settings.login.clone());
        tokio::spawn(refresh::run(settings, logins, sender));
        states
    }

    /// The number of connections so far.
    fn links(&self) -> usize {
        self.log.lock().unwrap().iter().map(|asked| asked.link).max().unwrap_or_default()
    }

    /// The statements of one round.
    fn round(&self, round: usize) -> Vec<Asked> {
        self.log.lock().unwrap().iter().filter(|asked| asked.round == round).cloned().collect()
    }

    /// Fails unless the round had these statements, in this order, on this connection.
    fn assert_round(&self, round: usize, link: usize, want: &[&str]) {
        let found = self.round(round);
        let what: Vec<&str> = found.iter().map(|asked| asked.what.as_str()).collect();
        assert_eq!(what, want, "round {round}");
        assert!(found.iter().all(|asked| asked.link == link), "round {round} on link {link}: {found:?}");
    }
}

/// Serves one connection, until the client closes it.
async fn talk(
    mut stream: TcpStream,
    link: usize,
    version: String,
    log: &Mutex<Vec<Asked>>,
    script: &Script,
) -> io::Result<()> {
    let greeting = Greeting {
        version,
        connection_id: link as u32,
        salt: *b"abcdefghijklmnopqrst",
        caps: Login::PLAIN,
        charset: 45,
        status: status::AUTOCOMMIT,
        plugin: native::PLUGIN.into(),
    };
    say(&mut stream, 0, &[greeting.encode()]).await?;
    let (seq, login) = hear(&mut stream).await?;
    let caps = LoginRequest::parse(&login).unwrap().caps;
    say(&mut stream, seq, &[ok(OK)]).await?;
    loop {
        let (seq, payload) = hear(&mut stream).await?;
        if Command::of(&payload) != Some(Command::QUERY) {
            return Ok(()); // COM_QUIT
        }
        let sql = std::str::from_utf8(query_text(&payload, caps).unwrap()).unwrap();
        let what = match sql {
            sql::STATUS => STATUS,
            sql::VARIABLES => VARIABLES,
            sql => sql,
        };
        let asked = {
            let mut log = log.lock().unwrap();
            let round = log.last().map_or(0, |last| last.round) + usize::from(what == STATUS);
            let asked = Asked { link, round, what: what.into(), at: Instant::now() };
            log.push(asked.clone());
            asked
        };
        match script(&asked) {
            Reply::Rows { columns, rows } => say(&mut stream, seq, &packets(&columns, &rows)).await?,
            Reply::Err(errno) => say(&mut stream, seq, &[err(errno)]).await?,
            Reply::Silence => {}
            Reply::Hangup => return Ok(()),
        }
    }
}

/// A packet's payload, and the sequence number to answer with.
async fn hear(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let (head, payload) = read_packet(stream).await?;
    Ok((head.seq.wrapping_add(1), payload))
}

async fn say(stream: &mut TcpStream, mut seq: u8, payloads: &[Vec<u8>]) -> io::Result<()> {
    let mut out = Vec::new();
    for payload in payloads {
        put_packet(&mut out, &mut seq, payload);
    }
    stream.write_all(&out).await
}

fn ok(header: u8) -> Vec<u8> {
    let mut out = Vec::new();
    put_ok(&mut out, header, 0, 0, status::AUTOCOMMIT, 0, b"");
    out
}

/// An error packet with the server's text for this number.
fn err(errno: u16) -> Vec<u8> {
    let (state, message) = match errno {
        1064 => (b"42000", "You have an error in your SQL syntax"),
        1227 => (b"42000", "Access denied; you need (at least one of) the REPLICATION CLIENT privilege(s)"),
        1317 => (b"70100", "Query execution was interrupted"),
        _ => panic!("no words for error {errno}"),
    };
    let mut out = Vec::new();
    put_err(&mut out, errno, state, message);
    out
}

/// A result set with DEPRECATE_EOF: the column count, the columns, the rows, and an OK packet in place of EOF.
fn packets(columns: &[&str], rows: &[Vec<&str>]) -> Vec<Vec<u8>> {
    let column = |name: &&str| {
        let mut out = Vec::new();
        // catalog, schema, table twice, name twice
        for text in ["def", "", "", "", name, name] {
            put::lenenc_bytes(&mut out, text.as_bytes());
        }
        out.push(0x0c); // length of the rest
        put::u16(&mut out, 45);
        put::u32(&mut out, 1024);
        out.push(0xfd); // VAR_STRING
        out.extend_from_slice(&[0; 5]); // flags, decimals, filler
        out
    };
    let row = |values: &Vec<&str>| {
        let mut out = Vec::new();
        for value in values {
            put::lenenc_bytes(&mut out, value.as_bytes());
        }
        out
    };
    let head = vec![vec![columns.len() as u8]];
    [head, columns.iter().map(column).collect(), rows.iter().map(row).collect(), vec![ok(EOF)]].concat()
}

/// A synced member's answers to the first two queries; the script answers the others.
fn member_or(asked: &Asked, replication: impl FnOnce(&str) -> Reply) -> Reply {
    let pairs = |pairs: &[(&'static str, &'static str)]| Reply::Rows {
        columns: vec!["Variable_name", "Value"],
        rows: pairs.iter().map(|&(name, value)| vec![name, value]).collect(),
    };
    match asked.what.as_str() {
        STATUS => pairs(&[
            ("wsrep_local_state", "4"),
            ("wsrep_local_state_comment", "Synced"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_ready", "ON"),
            ("wsrep_connected", "ON"),
        ]),
        VARIABLES => pairs(&[("read_only", "OFF"), ("wsrep_reject_queries", "NONE")]),
        other => replication(other),
    }
}

/// A replica with one source, with the column names of the old statement.
fn running() -> Reply {
    let (columns, row) = [
        ("Master_Host", "db1"),
        ("Master_Port", "3306"),
        ("Slave_IO_Running", "Yes"),
        ("Slave_SQL_Running", "Yes"),
        ("Seconds_Behind_Master", "0"),
        ("Last_IO_Error", ""),
        ("Last_SQL_Error", ""),
    ]
    .into_iter()
    .unzip();
    Reply::Rows { columns, rows: vec![row] }
}

/// The next published state: that of the next round, unless a connection ends.
async fn next(states: &mut watch::Receiver<Arc<State>>) -> Arc<State> {
    timeout(LONG, states.changed()).await.expect("another round").expect("it asks for ever");
    states.borrow_and_update().clone()
}

/// Fails unless the answer is of this kind and its reason contains these words.
fn assert_answer(answer: &Answer, kind: AnswerKind, words: &str, when: &str) {
    assert!(answer.kind == kind && answer.reason.contains(words), "{when}: {answer:?}");
}

#[tokio::test]
async fn mysql_before_8_0_22_is_asked_in_the_old_form_from_the_second_round_on() {
    let script = |asked: &Asked| {
        member_or(asked, |statement| match statement {
            OLD_FORM => running(),
            _ => Reply::Err(1064),
        })
    };
    let server = Server::start("8.0.20", script).await;
    let mut states = server.watched(SHORT, LONG);
    for round in 1..=8 {
        let state = next(&mut states).await;
        assert_eq!(&*state.version, "8.0.20");
        assert_answer(&state.answer(REPLICA, LONG), AnswerKind::Good, "follows", &format!("round {round}"));
        assert_answer(&state.answer(MEMBER, LONG), AnswerKind::Good, "", &format!("round {round}"));
    }
    server.assert_round(1, 1, &[STATUS, VARIABLES, NEW_FORM, OLD_FORM]);
    for round in 2..=8 {
        server.assert_round(round, 1, &[STATUS, VARIABLES, OLD_FORM]);
    }

    // A command that runs only one round gets the answer, too.
    let server = Server::start("8.0.20", script).await;
    let state = refresh::once(&server.settings(INTERVAL, LONG)).await;
    assert_answer(&state.answer(REPLICA, LONG), AnswerKind::Good, "follows", "once");
    server.assert_round(1, 1, &[STATUS, VARIABLES, NEW_FORM, OLD_FORM]);
}

#[tokio::test]
async fn an_interrupted_statement_is_asked_again_in_the_next_round() {
    // A KILL QUERY in the third round, while the only form that this server knows is running.
    for (version, form) in [(MARIADB, MARIADB_FORM), ("8.0.20", OLD_FORM)] {
        let script = move |asked: &Asked| {
            member_or(asked, |statement| match asked.round {
                _ if statement != form => Reply::Err(1064),
                3 => Reply::Err(1317),
                _ => running(),
            })
        };
        let server = Server::start(version, script).await;
        let mut states = server.watched(SHORT, LONG);
        for round in 1..=6 {
            let state = next(&mut states).await;
            let (kind, words) = match round {
                3 => (AnswerKind::Unknown, "does not tell whether it replicates: 1317 Query execution"),
                _ => (AnswerKind::Good, "follows"),
            };
            let when = format!("{version}, round {round}");
            assert_answer(&state.answer(REPLICA, LONG), kind, words, &when);
            assert_answer(&state.answer(MEMBER, LONG), AnswerKind::Good, "", &when);
        }
        for round in 2..=6 {
            server.assert_round(round, 1, &[STATUS, VARIABLES, form]);
        }
    }
}

#[tokio::test]
async fn a_statement_that_the_account_may_not_use_is_asked_once_on_each_link() {
    // The server closes the connection in the fifth round. Global privileges count from the next login on, so the second connection may use
    // the statement.
    let script = |asked: &Asked| match (asked.round, asked.link) {
        (5, 1) => Reply::Hangup,
        _ => member_or(asked, |_| if asked.link == 1 { Reply::Err(1227) } else { running() }),
    };
    let server = Server::start("8.0.36", script).await;
    let mut states = server.watched(SHORT, LONG);
    for round in 1..=4 {
        let state = next(&mut states).await;
        let when = format!("round {round}");
        let words = "does not tell whether it replicates: 1227 Access denied; you need";
        assert_answer(&state.answer(REPLICA, LONG), AnswerKind::Unknown, words, &when);
        assert_answer(&state.answer(MEMBER, LONG), AnswerKind::Good, "", &when);
    }
    let allowed = timeout(LONG, states.wait_for(|state| state.answer(REPLICA, LONG).is_good())).await;
    drop(allowed.expect("the second link's answer").unwrap());
    server.assert_round(1, 1, &[STATUS, VARIABLES, NEW_FORM, OLD_FORM]);
    for round in 2..=4 {
        server.assert_round(round, 1, &[STATUS, VARIABLES]);
    }
    server.assert_round(5, 1, &[STATUS]);
    server.assert_round(6, 2, &[STATUS, VARIABLES, NEW_FORM]);
}

/// MySQL 8.4 does not know the old form; that error would not help its administrator.
#[tokio::test]
async fn of_two_refusals_the_one_that_says_what_is_wrong_is_told() {
    let script = |asked: &Asked| {
        member_or(asked, |statement| Reply::Err(if statement == NEW_FORM { 1227 } else { 1064 }))
    };
    let server = Server::start("8.4.0", script).await;
    let mut states = server.watched(SHORT, LONG);
    for round in 1..=3 {
        let state = next(&mut states).await;
        let words = "does not tell whether it replicates: 1227 ";
        assert_answer(&state.answer(REPLICA, LONG), AnswerKind::Unknown, words, &format!("round {round}"));
    }
}

#[tokio::test]
async fn a_server_that_never_tells_of_replication_is_a_member_without_a_gap() {
    for (version, form) in [(MARIADB, MARIADB_FORM), ("8.0.36", NEW_FORM)] {
        let script = |asked: &Asked| member_or(asked, |_| Reply::Silence);
        let server = Server::start(version, script).await;
        let mut states = server.watched(INTERVAL, DEADLINE);
        let mut last = next(&mut states).await;
        for round in 1..=6 {
            let when = format!("{version}, round {round}");
            assert_answer(&last.answer(MEMBER, AGE_MAX), AnswerKind::Good, "", &when);
            let words = "does not tell whether it replicates: it gave no answer in time";
            assert_answer(&last.answer(REPLICA, AGE_MAX), AnswerKind::Unknown, words, &when);
            // A server whose thread waits for a lock keeps the abandoned connection: it is not queried in each round.
            match round {
                1 => server.assert_round(1, 1, &[STATUS, VARIABLES, form]),
                2..=4 => server.assert_round(round, 2, &[STATUS, VARIABLES]),
                _ => {}
            }
            // A good answer is valid until here, and the next one must have arrived.
            let fresh = timeout_at(last.at + AGE_MAX, states.changed()).await;
            fresh.unwrap_or_else(|_| panic!("{when}: the yes got older than {AGE_MAX:?}")).unwrap();
            last = states.borrow_and_update().clone();
        }

        // It is queried again after 1 s: in seven rounds of 200 ms once more at most.
        let links = server.links();
        assert!((2..=3).contains(&links), "{links} links");

        let server = Server::start(version, script).await;
        let state = refresh::once(&server.settings(INTERVAL, DEADLINE)).await;
        assert_answer(&state.answer(MEMBER, AGE_MAX), AnswerKind::Good, "", "once");
        assert_answer(&state.answer(REPLICA, AGE_MAX), AnswerKind::Unknown, "no answer in time", "once");
    }
}

#[tokio::test]
async fn a_server_that_no_longer_answers_is_no_member_after_the_deadline() {
    const LAST_GOOD: usize = 3;
    for silent in [STATUS, VARIABLES] {
        let script = move |asked: &Asked| match asked.what.as_str() {
            what if what == silent && asked.round > LAST_GOOD => Reply::Silence,
            _ => member_or(asked, |_| running()),
        };
        let server = Server::start(MARIADB, script).await;
        let mut states = server.watched(INTERVAL, DEADLINE);
        for round in 1..=LAST_GOOD {
            let when = format!("round {round}");
            assert_answer(&next(&mut states).await.answer(MEMBER, AGE_MAX), AnswerKind::Good, "", &when);
        }
        // The connection that hangs is closed; so is each one that is tried after it.
        for (round, link) in [(LAST_GOOD + 1, 1), (LAST_GOOD + 2, 2), (LAST_GOOD + 3, 3)] {
            let state = next(&mut states).await;
            let when = format!("{silent}, round {round}");
            for question in [MEMBER, REPLICA] {
                let answer = state.answer(question, AGE_MAX);
                assert_answer(&answer, AnswerKind::Unknown, "no answer within 720 ms", &when);
            }
            let asked = server.round(round);
            assert!(asked.iter().all(|asked| asked.link == link), "{when}: {asked:?}");
            assert_eq!(asked.last().unwrap().what, silent, "{when}");
            // The deadline began a moment before the statement arrived.
            let took = state.at - asked[0].at;
            assert!(took > DEADLINE / 2 && took < DEADLINE + LITTLE, "{when}: the no came after {took:?}");
        }
    }

    // A command that runs only one round gets its answer in time, too.
    let server = Server::start(MARIADB, |_: &Asked| Reply::Silence).await;
    let begun = Instant::now();
    let state = refresh::once(&server.settings(INTERVAL, DEADLINE)).await;
    assert!(begun.elapsed() < DEADLINE + LITTLE, "once: the no came after {:?}", begun.elapsed());
    assert_answer(&state.answer(MEMBER, AGE_MAX), AnswerKind::Unknown, "no answer within", "once");
}
