//! Transcripts of one session: commands in, answers in, what it decides out.

use super::*;
use crate::command::Cost;
use crate::names::{List, Names};
use protocol::ok::{put_eof, put_ok, status};
use protocol::packet::put;
use std::sync::Arc;
use topology::catalogue::Catalogue;

const CAPS: Caps = Caps(Caps::PROTOCOL_41.0 | Caps::SESSION_TRACK.0);
const SENT: Progress = Progress { sent: true, delivered: false };

/// A session and the link that it stands on.
struct On {
    session: Session,
    link: Standing,
}

impl On {
    fn new() -> Self {
        Self { session: Session::new(None, 2), link: Standing::default() }
    }

    fn command(&mut self, payload: &[u8], whole: bool, caps: Caps) -> Next {
        self.session.command(payload, whole, caps, Some(&mut self.link), &|_| Names::Nothing)
    }

    fn ended(&mut self, flight: &InFlight, end: &End, payload: &[u8], text: &[u8]) {
        self.session.ended(&mut self.link, flight, end, payload, text, CAPS);
    }

    fn unsure(&self, flight: &InFlight, end: &End) -> bool {
        self.session.unsure(&self.link, flight, end)
    }

    /// The link is gone with whatever stood on it.
    fn lose(&mut self) -> Standing {
        let fresh = self.session.standing(true);
        std::mem::replace(&mut self.link, fresh)
    }

    fn lost_idle(&mut self) {
        let link = self.lose();
        self.session.lost_idle(&link);
    }

    fn lost(&mut self, flight: &InFlight, progress: Progress) -> LossDecision {
        let link = self.lose();
        self.session.lost(&link, flight, progress)
    }

    fn lost_unsure(&mut self, flight: &InFlight) {
        let link = self.lose();
        self.session.lost_unsure(&link, flight);
    }

    fn refused(&mut self, flight: &InFlight, code: u16) -> LossDecision {
        let link = self.lose();
        self.session.refused(&link, flight, code)
    }

    fn has_forgotten(&self, flight: &InFlight) -> bool {
        !Session::forgotten(&self.link, flight).is_empty()
    }

    fn pins(&self) -> Pins {
        self.link.pins()
    }
}

fn query(sql: &str) -> Vec<u8> {
    [&[Command::QUERY.0], sql.as_bytes()].concat()
}

fn on_statement(command: Command, id: u32, rest: &[u8]) -> Vec<u8> {
    [&[command.0], &id.to_le_bytes()[..], rest].concat()
}

fn flight(session: &mut On, payload: &[u8]) -> InFlight {
    match session.command(payload, true, CAPS) {
        Next::Forward(flight) => flight,
        other => panic!("not forwarded: {other:?}"),
    }
}

fn ok_packet(status: u16) -> Vec<u8> {
    let mut payload = vec![];
    put_ok(&mut payload, ok::OK, 0, 0, status, 0, b"");
    payload
}

/// A command that the node answers with OK and these flags.
fn run(session: &mut On, payload: &[u8], status: u16) {
    let flight = flight(session, payload);
    let end = End::Ok { status, warnings: 0, changed: false };
    session.ended(&flight, &end, &ok_packet(status), payload);
}

/// A query that the node answers with rows, in the old form.
fn gives_rows(session: &mut On, sql: &str, warnings: u16) {
    let flight = flight(session, &query(sql));
    let mut eof = vec![];
    put_eof(&mut eof, warnings, AUTO);
    session.ended(&flight, &End::Eof { status: AUTO }, &eof, &query(sql));
}

fn fails(session: &mut On, payload: &[u8], code: u16) -> bool {
    let flight = flight(session, payload);
    let end = End::Err { code };
    session.ended(&flight, &end, b"", payload);
    session.unsure(&flight, &end)
}

fn prepared(session: &mut On, sql: &str, params: u16) -> u32 {
    let payload = [&[Command::STMT_PREPARE.0], sql.as_bytes()].concat();
    let flight = flight(session, &payload);
    session.ended(&flight, &End::Prepared { id: 77, columns: 0, params }, b"", &payload);
    session.session.wanted.last_prepared().unwrap()
}

const AUTO: u16 = status::AUTOCOMMIT;
const IN_TRANS: u16 = status::AUTOCOMMIT | status::IN_TRANS;

/// A session whose transaction is lost, the client not yet told.
fn lost() -> On {
    let mut session = On::new();
    run(&mut session, &query("BEGIN"), IN_TRANS);
    run(&mut session, &query("INSERT INTO t VALUES (1)"), IN_TRANS);
    session.lost_idle();
    assert_eq!(session.session.owed(), Some(&Owed::RolledBack));
    session
}

#[test]
fn a_lost_transaction_is_told_until_a_statement_has_been_told() {
    let mut session = lost();
    assert!(matches!(lost().command(&[Command::PING.0], true, CAPS), Next::Close), "not even an error");
    for command in [Command::STATISTICS, Command::STATISTICS, Command::SET_OPTION] {
        let next = session.command(&[command.0], true, CAPS);
        assert!(matches!(next, Next::Tell(Owed::RolledBack)), "{command:?}: {next:?}");
        session.session.attached(AUTO);
        assert_eq!(session.session.owed(), Some(&Owed::RolledBack));
    }
    assert!(matches!(session.command(&query("COMMIT"), true, CAPS), Next::Tell(Owed::RolledBack)));
    assert_eq!(session.session.owed(), None);
    let kill = lost().command(&query("KILL 1073741824"), true, CAPS);
    assert!(matches!(kill, Next::Tell(Owed::RolledBack)), "{kill:?}");
    assert!(matches!(lost().command(&query("ROLLBACK"), true, CAPS), Next::AnswerOk));
    for chained in ["ROLLBACK AND CHAIN", "ROLLBACK WORK AND CHAIN", "COMMIT AND CHAIN"] {
        assert!(
            matches!(lost().command(&query(chained), true, CAPS), Next::Tell(Owed::RolledBack)),
            "{chained}"
        );
    }
    assert!(matches!(lost().command(&[Command::RESET_CONNECTION.0], true, CAPS), Next::Reset));
}

#[test]
fn an_ok_of_the_proxys_own_has_the_flags_of_the_servers() {
    let lasting = IN_TRANS | status::IN_TRANS_READONLY | status::NO_BACKSLASH_ESCAPES;
    let mut session = On::new();
    run(&mut session, &query("START TRANSACTION READ ONLY"), lasting | status::NO_INDEX_USED);
    assert_eq!(session.session.status(Some(&session.link)), lasting);
    // Its node is lost.
    assert_eq!(session.session.status(None), AUTO | status::NO_BACKSLASH_ESCAPES);
    let mut off = Session::new(None, status::ANSI_QUOTES);
    assert_eq!(off.status(None), status::ANSI_QUOTES);
    off.reset(AUTO);
    assert_eq!(off.status(None), AUTO);
}

#[test]
fn completion_type_chains_too() {
    let mut session = On::new();
    let set = query("SET completion_type = CHAIN");
    let flight = flight(&mut session, &set);
    let mut pair = vec![];
    put::lenenc_bytes(&mut pair, b"completion_type");
    put::lenenc_bytes(&mut pair, b"CHAIN");
    let mut track = vec![0];
    put::lenenc_bytes(&mut track, &pair);
    let mut payload = vec![];
    put_ok(&mut payload, ok::OK, 0, 0, AUTO, 0, b"");
    payload[3..5].copy_from_slice(&(AUTO | status::SESSION_STATE_CHANGED).to_le_bytes());
    put::lenenc_bytes(&mut payload, b"");
    put::lenenc_bytes(&mut payload, &track);
    session.ended(&flight, &End::Ok { status: AUTO, warnings: 0, changed: true }, &payload, &set);
    run(&mut session, &query("BEGIN"), IN_TRANS);
    session.lost_idle();
    assert!(matches!(session.command(&query("ROLLBACK"), true, CAPS), Next::Tell(Owed::RolledBack)));
}

#[test]
fn a_loss_while_nothing_is_asked_of_the_transaction_is_told_then_and_later() {
    for command in [Command::PING, Command::STATISTICS, Command::SET_OPTION] {
        let mut session = On::new();
        run(&mut session, &query("BEGIN"), IN_TRANS);
        let flight = flight(&mut session, &[command.0]);
        let decision = session.lost(&flight, SENT);
        assert_eq!(decision, LossDecision::RolledBack, "{command:?}");
        assert_eq!(session.session.owed(), Some(&Owed::RolledBack), "{command:?}");
    }
    let mut session = On::new();
    run(&mut session, &query("BEGIN"), IN_TRANS);
    let rollback = flight(&mut session, &query("ROLLBACK"));
    assert_eq!(session.lost(&rollback, SENT), LossDecision::Done);
    let mut session = On::new();
    run(&mut session, &query("BEGIN"), IN_TRANS);
    let chained = flight(&mut session, &query("ROLLBACK AND CHAIN"));
    assert_eq!(session.lost(&chained, SENT), LossDecision::RolledBack);
}

#[test]
fn a_transaction_opened_by_an_answer_that_fails_is_asked_about() {
    let mut session = On::new();
    assert!(!fails(&mut session, &query("INSERT INTO t VALUES (1)"), 1062));
    assert!(fails(&mut session, &query("CALL p()"), 1062));
    // A part of an answer counts, whether it ended with an OK or an EOF.
    let mut eof = vec![];
    put_eof(&mut eof, 0, IN_TRANS | status::MORE_RESULTS);
    for part in [ok_packet(IN_TRANS | status::MORE_RESULTS), eof] {
        let mut session = On::new();
        let text = query("START TRANSACTION; INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)");
        let flight = flight(&mut session, &text);
        session.session.part(&mut session.link, &flight, &part, CAPS);
        assert!(session.link.in_transaction());
        let end = End::Err { code: 1062 };
        session.ended(&flight, &end, b"", &text);
        assert!(session.unsure(&flight, &end));
    }
    // The node dies before it can say: the client is told that a transaction may be gone.
    let after = |before: &[&str], sql: &str, status: u16| {
        let mut session = On::new();
        for text in before {
            run(&mut session, &query(text), status);
        }
        let flight = flight(&mut session, &query(sql));
        session.lost_unsure(&flight);
        session.command(&query("COMMIT"), true, CAPS)
    };
    assert!(matches!(after(&[], "CALL p()", AUTO), Next::Tell(Owed::RolledBack)));
    assert!(matches!(after(&["BEGIN"], "INSERT INTO t VALUES (1)", IN_TRANS), Next::Tell(Owed::RolledBack)));
    assert!(matches!(
        after(&["SET autocommit = 0"], "INSERT INTO t VALUES (1)", 0),
        Next::Tell(Owed::RolledBack)
    ));
    // One statement under autocommit leaves none: the next is not told of what never was.
    assert!(matches!(after(&[], "ALTER TABLE t ADD b INT", AUTO), Next::Forward(_)));
}

#[test]
fn what_ran_with_autocommit_on_is_never_sent_twice() {
    let insert = query("INSERT INTO t VALUES (1)");
    let mut session = On::new();
    session.session.attached(0);
    let planned = flight(&mut session, &insert);
    assert_eq!(session.lost(&planned, SENT), LossDecision::Again);
    // Looked at for one node, run on another, which has autocommit on.
    let planned = flight(&mut session, &insert);
    session.session.attached(AUTO);
    assert_eq!(session.lost(&planned, SENT), LossDecision::Unknown);
}

#[test]
fn a_single_write_that_was_refused_did_not_run_whatever_it_looks_like() {
    let refused = |sql: &str, whole: bool, caps: Caps| {
        let mut session = On::new();
        let Next::Forward(flight) = session.command(&query(sql), whole, caps) else { panic!("{sql}") };
        session.refused(&flight, errno::UNKNOWN_COM_ERROR)
    };
    let commented = " insert /*!50001 IGNORE */ INTO t VALUES (1)";
    for (sql, whole) in [(commented, true), ("REPLACE INTO t VALUES ('...", false)] {
        assert_eq!(refused(sql, whole, CAPS), LossDecision::Again, "{sql}");
        assert_eq!(refused(sql, whole, CAPS | Caps::MULTI_STATEMENTS), LossDecision::Unknown, "{sql}");
    }
    for sql in ["/*!99999 INSERT */ CALL p()", "CALL /*! p */ ()", "INSERTED /*! x */ ", "INSERT"] {
        let whole = sql != "INSERT"; // cut off: it may go on as another word
        assert_eq!(refused(sql, whole, CAPS), LossDecision::Unknown, "{sql}");
    }
}

/// A trigger may have written its row, which is not rolled back, before the node refused the rest.
#[test]
fn what_may_write_where_nothing_is_rolled_back_is_not_sent_again_after_a_refusal() {
    let catalogue = Arc::new(Catalogue::new(["audited".to_owned()], []));
    let names = |list| Names::of(Some(&catalogue), list);
    for (sql, decision) in [
        ("INSERT INTO audited VALUES (1)", LossDecision::Unknown),
        ("INSERT INTO plain VALUES (1)", LossDecision::Again),
        ("SELECT * FROM audited", LossDecision::Again),
    ] {
        let mut session = On::new();
        let mut flight = flight(&mut session, &query(sql));
        flight.look_up(sql.as_bytes(), AUTO, &names);
        assert_eq!(session.refused(&flight, errno::UNKNOWN_COM_ERROR), decision, "{sql}");
    }
}

#[test]
fn what_runs_several_statements_may_have_run_before_a_refusal() {
    for (sql, decision) in [
        ("INSERT INTO t VALUES (1)", LossDecision::Again),
        ("ALTER TABLE t ADD b INT", LossDecision::Again),
        ("CALL p()", LossDecision::Unknown),
        ("EXECUTE s", LossDecision::Unknown),
        ("BEGIN NOT ATOMIC INSERT INTO t VALUES (1); END", LossDecision::Unknown),
        ("COMMIT", LossDecision::Again), // of nothing
    ] {
        for code in [errno::UNKNOWN_COM_ERROR, errno::OPTION_PREVENTS_STATEMENT, errno::READ_ONLY_MODE] {
            let mut session = On::new();
            let flight = flight(&mut session, &query(sql));
            assert_eq!(session.refused(&flight, code), decision, "{sql} {code}");
        }
    }
    let mut session = On::new();
    let id = prepared(&mut session, "INSERT INTO t VALUES (?)", 1);
    let bulk = flight(&mut session, &on_statement(Command::STMT_BULK_EXECUTE, id, &[128, 0, 8, 0]));
    assert_eq!(session.refused(&bulk, errno::UNKNOWN_COM_ERROR), LossDecision::Unknown);
    // In a transaction it is certain all the same.
    run(&mut session, &query("BEGIN"), IN_TRANS);
    let bulk = flight(&mut session, &on_statement(Command::STMT_BULK_EXECUTE, id, &[128, 0, 8, 0]));
    assert_eq!(session.lost(&bulk, SENT), LossDecision::RolledBack);
}

#[test]
fn only_the_sessions_own_statements_reach_a_node() {
    let mut session = On::new();
    let id = prepared(&mut session, "SELECT 1", 0);
    let unknown = id + 1;
    for command in
        [Command::STMT_EXECUTE, Command::STMT_FETCH, Command::STMT_RESET, Command::STMT_BULK_EXECUTE]
    {
        let next = session.command(&on_statement(command, unknown, &[0; 5]), true, CAPS);
        assert!(matches!(next, Next::UnknownStatement(found) if found == unknown), "{command:?}: {next:?}");
    }
    for command in [Command::STMT_SEND_LONG_DATA, Command::STMT_CLOSE] {
        let next = session.command(&on_statement(command, unknown, &[0; 5]), true, CAPS);
        assert!(matches!(next, Next::Nothing), "{command:?}: {next:?}");
    }
    let last = on_statement(Command::STMT_EXECUTE, LAST_PREPARED, &[0; 5]);
    assert_eq!(flight(&mut session, &last).statement, Some(id));
    // What was prepared last did not come to be: an older statement must not run in its place.
    fails(&mut session, &[&[Command::STMT_PREPARE.0], &b"SELEKT"[..]].concat(), 1064);
    assert!(matches!(session.command(&last, true, CAPS), Next::UnknownStatement(LAST_PREPARED)));
}

#[test]
fn prepared_texts_are_kept_within_a_limit() {
    let mut session = On::new();
    let sql = format!("SELECT '{}'", "x".repeat(1_000_000));
    let kept = |session: &On| -> usize {
        session.session.wanted.statements.values().map(|statement| statement.sql.len()).sum()
    };
    let ids: Vec<u32> = (0..16).map(|_| prepared(&mut session, &sql, 0)).collect();
    assert!(session.pins().is_empty());
    assert_eq!(kept(&session), 16 * sql.len());
    let beyond = prepared(&mut session, &sql, 0);
    assert_eq!((kept(&session), session.pins()), (16 * sql.len(), Pins::LONG_STATEMENT), "on this node only");
    for id in [beyond, ids[0]] {
        session.session.wanted.close(id);
        session.link.closed(id);
    }
    prepared(&mut session, &sql, 0);
    assert_eq!((kept(&session), session.pins()), (16 * sql.len(), Pins::NONE), "there is room again");
}

/// The execution has the error of its long data, whatever was told meanwhile.
#[test]
fn long_data_that_was_dropped_is_missed_by_its_execution_only() {
    let mut session = On::new();
    let id = prepared(&mut session, "INSERT INTO t VALUES (?)", 1);
    let other = prepared(&mut session, "INSERT INTO t VALUES (?)", 1);
    run(&mut session, &query("BEGIN"), IN_TRANS);
    session.lost_idle();
    let piece = on_statement(Command::STMT_SEND_LONG_DATA, id, b"\0\0piece");
    assert!(matches!(session.command(&piece, true, CAPS), Next::Nothing));
    assert!(matches!(session.command(&query("SELECT 1"), true, CAPS), Next::Tell(Owed::RolledBack)));
    let parameters = [0, 1, 0, 0, 0, 0, 1, 252, 0];
    let execute = |id| on_statement(Command::STMT_EXECUTE, id, &parameters);
    let mut refused = |id| {
        let flight = flight(&mut session, &execute(id));
        session.session.take_refused(&flight)
    };
    assert_eq!(refused(other), None);
    let Some(Finish::Fail { failure: Failure::Forgotten, detail, .. }) = refused(id) else {
        panic!("it is run")
    };
    assert_eq!(detail, LOST_DATA);
    assert_eq!(refused(id), None, "once");
}

#[test]
fn long_data_is_never_doubled() {
    let mut session = On::new();
    let id = prepared(&mut session, "INSERT INTO t VALUES (?)", 1);
    run(&mut session, &query("BEGIN"), IN_TRANS);
    session.lost_idle();
    let piece = on_statement(Command::STMT_SEND_LONG_DATA, id, b"\0\0piece");
    assert!(matches!(session.command(&piece, true, CAPS), Next::Nothing));
    assert!(session.pins().is_empty());
    let execute = on_statement(Command::STMT_EXECUTE, id, &[0, 1, 0, 0, 0, 0, 1, 252, 0]);
    assert!(matches!(session.command(&execute, true, CAPS), Next::Tell(Owed::RolledBack)));
    session.link.prepared(id, 78, false);
    let piece = flight(&mut session, &piece);
    Session::sent(&mut session.link, &piece);
    let flight = flight(&mut session, &execute);
    assert!(
        Session::left_long_data(&mut session.link, &flight)
            && !Session::left_long_data(&mut session.link, &flight)
    );
}

#[test]
fn parameter_types_are_kept_and_told_again() {
    let mut session = On::new();
    let id = prepared(&mut session, "INSERT INTO t VALUES (?, ?)", 2);
    let types = |session: &On| {
        let statement = &session.session.wanted.statements[&id];
        let told = session.link.statement(id).unwrap().types_told;
        (statement.types.clone(), statement.types_unseen, told)
    };
    let execute = on_statement(Command::STMT_EXECUTE, id, &[0, 1, 0, 0, 0, 0, 1, 8, 0, 252, 0, 9, 9]);
    flight(&mut session, &execute);
    assert_eq!(types(&session), (vec![8, 0, 252, 0], false, false));
    session.link.change(id, |on_node| on_node.types_told = true);
    // Bound anew in a command of which only the beginning is at hand.
    let Next::Forward(_) = session.command(&execute[..14], false, CAPS) else { panic!() };
    assert_eq!(types(&session), (vec![], true, false));
    let bulk = on_statement(Command::STMT_BULK_EXECUTE, id, &[128, 0, 3, 0, 8, 0, 0, 1]);
    flight(&mut session, &bulk);
    assert_eq!(types(&session), (vec![3, 0, 8, 0], false, false));
    flight(&mut session, &on_statement(Command::STMT_EXECUTE, id, &[0, 1, 0, 0, 0, 0, 0, 9]));
    assert_eq!(types(&session).0, [3, 0, 8, 0]);
}

#[test]
fn a_statement_too_long_to_be_kept_is_taken_for_anything() {
    let mut session = On::new();
    let payload = [&[Command::STMT_PREPARE.0], &b"SELECT ..."[..]].concat();
    let Next::Forward(flight) = session.command(&payload, false, CAPS) else { panic!() };
    session.ended(&flight, &End::Prepared { id: 1, columns: 1, params: 0 }, b"", b"");
    assert_eq!(session.pins(), Pins::LONG_STATEMENT);
    let statement = session.session.wanted.statements[&1].scanned;
    assert!(statement.kind == StatementKind::Write && statement.may_commit);
}

#[test]
fn what_was_left_behind_stays_forgotten_until_it_is_made_anew() {
    let mut session = On::new();
    session.lose();
    run(&mut session, &[Command::PING.0], AUTO);
    let warnings = flight(&mut session, &query("SHOW WARNINGS"));
    assert!(session.has_forgotten(&warnings));
    run(&mut session, &query("SET sql_mode = ''"), AUTO);
    let rows = flight(&mut session, &query("SELECT FOUND_ROWS()"));
    let sequence = flight(&mut session, &query("SELECT LASTVAL(s)"));
    assert!(session.has_forgotten(&rows) && session.has_forgotten(&sequence));
    // Of row counts the node knows again: it is the SET's. The warnings are those of an earlier statement still.
    let count = flight(&mut session, &query("SELECT ROW_COUNT()"));
    assert!(!session.has_forgotten(&count) && session.has_forgotten(&warnings));
    gives_rows(&mut session, "SELECT 1 FROM DUAL", 0);
    assert!(!session.has_forgotten(&rows) && session.has_forgotten(&sequence));
    assert!(session.has_forgotten(&warnings), "only a table clears them");
    gives_rows(&mut session, "SELECT a FROM t", 0);
    assert!(!session.has_forgotten(&warnings));
    session.link.forget(Recalls::WARNINGS);
    gives_rows(&mut session, "SELECT 1/0", 1);
    assert!(!session.has_forgotten(&warnings));
    session.link.forget(Recalls::WARNINGS);
    fails(&mut session, &query("SELECT nosuch"), 1054);
    assert!(!session.has_forgotten(&warnings));
    run(&mut session, &query("SELECT NEXTVAL(s)"), AUTO);
    assert!(!session.has_forgotten(&sequence));
}

#[test]
fn an_error_pins_what_may_have_been_done_before_it() {
    let mut session = On::new();
    fails(&mut session, &query("CREATE TEMPORARY TABLE"), errno::PARSE_ERROR);
    assert!(session.pins().is_empty());
    fails(&mut session, &query("CREATE TEMPORARY TABLE t AS SELECT GET_LOCK('a', 1), f()"), 1305);
    // The lock stays taken; a table that could not be filled is gone.
    assert_eq!(session.pins(), Pins::GET_LOCK);
    fails(&mut session, &query("CALL p(); CREATE TEMPORARY TABLE t (a INT)"), 1050);
    // And what a procedure set before it failed, no error tells.
    assert_eq!(session.pins(), Pins::TEMP_TABLE.union(Pins::GET_LOCK).union(Pins::UNNAMED));
}

#[test]
fn a_read_of_a_view_that_may_write_is_a_write() {
    let catalogue = Arc::new(Catalogue::new([], ["audited".to_owned()]));
    let lists = |catalogue: Option<&Arc<Catalogue>>| {
        let catalogue = catalogue.cloned();
        move |list| Names::of(catalogue.as_ref(), list)
    };
    let known = lists(Some(&catalogue));
    let unknown = lists(None);
    let empty = lists(Some(&Arc::default()));
    let plan = |sql: &str, names: &dyn Fn(List) -> Names| {
        let mut on = On::new();
        let Next::Forward(flight) = on.session.command(&query(sql), true, CAPS, Some(&mut on.link), names)
        else {
            panic!("{sql}")
        };
        let harmless = (flight.can_be_cut(), flight.ends_without_trace(), flight.cost() == Cost::CutShort);
        let again = on.lost(&flight, SENT) == LossDecision::Again;
        (again, harmless)
    };
    let (read, write) = ((true, (true, true, true)), (false, (false, false, false)));
    assert_eq!(plan("SELECT x FROM shop.Audited", &known), write);
    assert_eq!(plan("SELECT x FROM shop.Audited WHERE SLEEP(1) = 0", &known), write);
    assert_eq!(plan("SELECT x FROM audited; SELECT 1", &known), write);
    assert_eq!(plan("SELECT x FROM other", &known), read);
    assert_eq!(plan("SELECT x FROM audited", &empty), read);
    // Nothing is known: it may be any.
    assert_eq!(plan("SELECT x FROM other", &unknown), write);
    assert_eq!(plan("SELECT 1", &unknown), read);
    assert!(!plan("SET @a = (SELECT x FROM audited)", &known).0);
    assert!(plan("SET @a = (SELECT x FROM audited)", &empty).0);
}

#[test]
fn a_lock_whose_release_did_not_run_ties_the_session() {
    let mut session = On::new();
    let text = query("LOCK TABLES t WRITE; SELECT * FROM missing; UNLOCK TABLES");
    let flight = flight(&mut session, &text);
    let part = ok_packet(AUTO | status::MORE_RESULTS);
    session.session.part(&mut session.link, &flight, &part, CAPS);
    session.session.server_status(&mut session.link, AUTO | status::MORE_RESULTS);
    session.ended(&flight, &End::Err { code: 1146 }, b"", &text);
    assert!(session.pins().has(Pins::LOCK_TABLES));
}

#[test]
fn an_insert_id_that_a_part_of_an_answer_left_is_not_known_from_an_eof() {
    let mut session = On::new();
    let flight = flight(&mut session, &query("SELECT LAST_INSERT_ID(99); DO SLEEP(3)"));
    let mut eof = vec![];
    put_eof(&mut eof, 0, AUTO | status::MORE_RESULTS);
    session.session.part(&mut session.link, &flight, &eof, CAPS);
    assert_eq!(session.session.wanted.insert_id(), None);
}

#[test]
fn words_are_found_in_both_cases_and_at_both_ends() {
    for text in ["NEXTVAL(s)", "SELECT nextval", "NEXT VALUE FOR s", "x next value", "xXnextvalx"] {
        assert!(draws(text.as_bytes()), "{text}");
    }
    for text in ["next  value", "SELECT x", "nextva", "extval(s)", "x", ""] {
        assert!(!draws(text.as_bytes()), "{text}");
    }
    for text in ["LAST_INSERT_ID()", "@@identity", "@@Last_Insert_Id", "y IDENTITY"] {
        assert!(names_insert_id(text.as_bytes()), "{text}");
    }
    for text in ["last_insert_i", "dentity", "_", "y", "a_b_c_d ORDER BY y", ""] {
        assert!(!names_insert_id(text.as_bytes()), "{text}");
    }
}

/// The server reports no transaction for it, and would roll back to it later.
#[test]
fn a_savepoint_without_autocommit_is_a_transaction() {
    let mut session = On::new();
    let opened = |session: &mut On, sql: &str, status: u16| {
        run(session, &query(sql), status);
        session.link.in_transaction()
    };
    assert!(!opened(&mut session, "SAVEPOINT a", AUTO), "with autocommit it is gone at once");
    assert!(!opened(&mut session, "SET autocommit = 0", 0));
    for ends in ["COMMIT", "ROLLBACK", "CREATE TABLE t (a INT)"] {
        assert!(opened(&mut session, "SAVEPOINT a", 0));
        assert!(opened(&mut session, "SELECT 1", 0));
        assert!(opened(&mut session, "ROLLBACK TO a", 0));
        assert!(opened(&mut session, "SELECT /*!40001 SQL_NO_CACHE */ 1", 0), "it may do anything");
        assert!(opened(&mut session, "CALL p()", 0), "it may commit");
        assert!(!opened(&mut session, ends, 0), "{ends}");
    }
    assert!(opened(&mut session, "SAVEPOINT a", 0));
    assert!(!opened(&mut session, "SET autocommit = 1", AUTO));
    assert!(!opened(&mut session, "SET autocommit = 0", 0));
    assert!(opened(&mut session, "SAVEPOINT a", 0));
    assert!(opened(&mut session, "INSERT INTO t VALUES (1)", status::IN_TRANS));
    assert!(!opened(&mut session, "COMMIT; SELECT 1", 0));
}
