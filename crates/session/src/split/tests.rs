//! Which commands may run on a replica, and up to where that must be.

use std::sync::Arc;

use protocol::capability::Caps;
use topology::catalogue::Catalogue;

use super::*;
use crate::command::Next;
use crate::names::Names;

const CAPS: Caps = Caps(Caps::PROTOCOL_41.0 | Caps::SESSION_TRACK.0 | Caps::MULTI_STATEMENTS.0);

struct On {
    session: Session,
    link: Standing,
    catalogue: Option<Arc<Catalogue>>,
}

impl On {
    fn new() -> Self {
        let catalogue = Catalogue::new(["fleeting".to_owned()], ["audited".to_owned()]);
        let catalogue = catalogue.with_views(["Shown".to_owned()]);
        let session = Session::new(Some(b"shop".to_vec()), 2);
        Self { session, link: Standing::default(), catalogue: Some(Arc::new(catalogue)) }
    }

    fn flight(&mut self, sql: &str) -> InFlight {
        let payload = [&[Command::QUERY.0], sql.as_bytes()].concat();
        let catalogue = self.catalogue.clone();
        let names = |list| Names::of(catalogue.as_ref(), list);
        match self.session.command(&payload, true, CAPS, Some(&mut self.link), &names) {
            Next::Forward(flight) => flight,
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn runs_on(&mut self, sql: &str) -> RunsOn {
        let flight = self.flight(sql);
        let catalogue = self.catalogue.clone();
        let names = |list| Names::of(catalogue.as_ref(), list);
        runs_on(&flight, sql.as_bytes(), &self.session, &self.link, &names)
    }
}

#[test]
fn a_plain_read_may_run_on_a_replica_and_nothing_else() {
    let mut on = On::new();
    for (sql, wanted) in [
        ("SELECT a FROM t WHERE id = 5", RunsOn::Replica),
        ("SELECT a FROM t; ", RunsOn::Replica),
        ("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1", RunsOn::Replica),
        ("SELECT 1", RunsOn::Primary),
        ("SELECT NOW() FROM t", RunsOn::Primary),
        ("SELECT a FROM t FOR UPDATE", RunsOn::Primary),
        ("SELECT a FROM shown", RunsOn::Primary),
        ("SELECT a FROM `SHOWN` AS s", RunsOn::Primary),
        ("SELECT a FROM audited", RunsOn::Primary),
        ("SELECT a FROM fleeting", RunsOn::Primary),
        ("SELECT f(a) FROM t", RunsOn::Primary),
        ("SELECT @x FROM t", RunsOn::Primary),
        ("SELECT a FROM t; SELECT b FROM t", RunsOn::Primary),
        ("UPDATE t SET a = 1", RunsOn::Primary),
        ("INSERT INTO t SELECT a FROM t", RunsOn::Primary),
        ("SHOW TABLES", RunsOn::Primary),
        ("SET @x = 1", RunsOn::Primary),
        ("BEGIN", RunsOn::Primary),
        ("CALL p()", RunsOn::Primary),
        ("SHOW WARNINGS", RunsOn::Primary),
    ] {
        assert_eq!(on.runs_on(sql), wanted, "{sql}");
    }
    on.catalogue = None;
    assert_eq!(on.runs_on("SELECT a FROM t"), RunsOn::Primary, "any name may be a view");
}

#[test]
fn what_the_session_holds_or_has_set_keeps_it_on_the_primary() {
    const READ: &str = "SELECT a FROM t";
    let mut on = On::new();
    on.link.pin(Pins::USER_VARIABLE.union(Pins::GET_LOCK));
    assert_eq!(on.runs_on(READ), RunsOn::Replica);
    for pin in [Pins::TEMP_TABLE, Pins::LOCK_TABLES, Pins::XA, Pins::UNNAMED, Pins::TIMESTAMP, Pins::ROLE] {
        let mut on = On::new();
        on.link.pin(pin);
        assert_eq!(on.runs_on(READ), RunsOn::Primary, "{:?}", pin.names());
    }
    let mut on = On::new();
    on.link.set_transaction(true);
    assert_eq!(on.runs_on(READ), RunsOn::Primary);
    let mut on = On::new();
    on.link.ran_code();
    assert_eq!(on.runs_on(READ), RunsOn::Primary, "it may have set what nobody told");
    let mut on = On::new();
    on.session.server_status(&mut on.link, 0);
    assert_eq!(on.runs_on(READ), RunsOn::Primary, "autocommit is off");
    let mut on = On::new();
    on.session = Session::new(Some(b"Information_Schema".to_vec()), 2);
    assert_eq!(on.runs_on(READ), RunsOn::Primary);
    for name in ON_THE_PRIMARY {
        let mut on = On::new();
        on.session.wanted.learned_variable(name, b"1", &mut on.link);
        assert_eq!(on.runs_on(READ), RunsOn::Primary, "{name}");
    }
}

#[test]
fn what_a_read_left_is_asked_for_where_it_ran() {
    let mut on = On::new();
    on.link.forget(LEFT);
    for sql in ["SHOW WARNINGS", "SELECT FOUND_ROWS(), ROW_COUNT()", "SELECT @@warning_count"] {
        assert_eq!(on.runs_on(sql), RunsOn::LastReplica, "{sql}");
    }
    for sql in
        ["SELECT FOUND_ROWS() INTO @x", "INSERT INTO t VALUES (ROW_COUNT())", "SELECT LAST_INSERT_ID()"]
    {
        assert_eq!(on.runs_on(sql), RunsOn::Primary, "{sql}");
    }
    on.link.remembers(Recalls::ROW_COUNT);
    assert_eq!(on.runs_on("SELECT FOUND_ROWS()"), RunsOn::LastReplica);
    assert_eq!(on.runs_on("SELECT ROW_COUNT()"), RunsOn::Primary);
    assert_eq!(on.runs_on("SELECT FOUND_ROWS(), ROW_COUNT()"), RunsOn::Primary, "nobody knows both");
}

#[test]
fn a_replica_must_be_where_the_session_has_written() {
    let mut on = On::new();
    let mut need = Need::default();
    let mut after = |need: &mut Need, sql: &str, gtid: Option<&str>| {
        let flight = on.flight(sql);
        need.after(&flight, gtid.map(Into::into), Some(0));
        need.clone()
    };
    let gtid = |text: &str| Need::Gtid(text.into());
    assert_eq!(need, Need::Unknown);
    assert_eq!(after(&mut need, "INSERT INTO t VALUES (1)", Some("0-1-5")), gtid("0-1-5"));
    assert_eq!(after(&mut need, "SET NAMES utf8mb4", None), gtid("0-1-5"));
    assert_eq!(after(&mut need, "COMMIT", Some("0-1-7")), gtid("0-1-7"));
    assert_eq!(after(&mut need, "SELECT a FROM t FOR UPDATE", None), Need::Unknown);
    assert_eq!(after(&mut need, "INSERT INTO t VALUES (1)", Some("0-1-9")), gtid("0-1-9"));
    assert_eq!(after(&mut need, "UPDATE t SET a = 1", None), Need::Unknown, "or it failed");
    assert_eq!(after(&mut need, "SELECT 1", Some("0-1-9")), Need::Unknown);
    let two = "INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)";
    assert_eq!(after(&mut need, two, Some("0-1-9")), Need::Unknown, "the second may have failed half way");
    assert_eq!(after(&mut need, "CALL p()", Some("0-1-9")), Need::Unknown);
    for strange in ["", "0-1", "0-1-x", "0-1-5,1-1-5", "0-1-5'", "-1-5"] {
        assert_eq!(after(&mut need, "INSERT INTO t VALUES (1)", Some(strange)), Need::Unknown, "{strange}");
    }
    need = Need::Nothing;
    assert_eq!(after(&mut need, "USE shop", None), Need::Nothing);
    assert_eq!(after(&mut need, "BEGIN", None), Need::Unknown);
    assert!(is_position("0-1-5,1-2-9") && !is_position("") && !is_position("0-1-5,") && !is_position("x"));
}

#[test]
fn a_gtid_says_all_only_where_there_is_no_other_domain() {
    for (position, domain) in [
        ("0-1-5", Some(0)),
        ("7-1-5", Some(7)),
        ("0-1-5,1-1-9", None),
        ("", None),
        ("x", None),
        ("0-1-5,", None),
    ] {
        assert_eq!(only_domain(position), domain, "{position}");
    }
    let mut on = On::new();
    let mut after = |domain| {
        let mut need = Need::Unknown;
        let flight = on.flight("INSERT INTO t VALUES (1)");
        need.after(&flight, Some("0-1-50".into()), domain);
        need
    };
    assert_eq!(after(Some(0)), Need::Gtid("0-1-50".into()));
    // The session may have seen a row of domain 1.
    assert_eq!(after(None), Need::Unknown, "several, or not asked yet");
    assert_eq!(after(Some(1)), Need::Unknown, "the first of a new domain");
}
