use super::*;
use protocol::ok::{OK, put_ok, status};
use protocol::packet::put;

use protocol::capability::Caps;

const CAPS: Caps = Caps(Caps::PROTOCOL_41.0 | Caps::SESSION_TRACK.0);

/// A session and what its link has.
struct On {
    wanted: Wanted,
    link: Standing,
}

impl On {
    fn new() -> Self {
        Self { wanted: Wanted::new(Some(b"shop".to_vec())), link: Standing::default() }
    }

    fn after(texts: &[&str]) -> Self {
        let mut on = Self::new();
        for text in texts {
            on.wanted.succeeded(text.as_bytes(), &Statement::of(text.as_bytes()), &mut on.link);
        }
        on
    }

    /// A statement whose OK reports these variables.
    fn reports(&mut self, text: &str, variables: &[(&str, &str)]) {
        let statement = Statement::of(text.as_bytes());
        let mut entries = vec![];
        for (name, value) in variables {
            put::lenenc_bytes(&mut entries, name.as_bytes());
            put::lenenc_bytes(&mut entries, value.as_bytes());
        }
        let mut track = vec![0];
        put::lenenc_bytes(&mut track, &entries);
        let mut payload = vec![];
        put_ok(&mut payload, OK, 0, 0, 0, 0, b"");
        payload[3..5].copy_from_slice(&status::SESSION_STATE_CHANGED.to_le_bytes());
        put::lenenc_bytes(&mut payload, b"");
        put::lenenc_bytes(&mut payload, &track);
        let ok = OkPacket::parse(&payload, CAPS).unwrap();
        self.wanted.ok(&ok, Unnamed::UnlessNamed, statement.sets, &mut self.link);
        self.wanted.succeeded(text.as_bytes(), &statement, &mut self.link);
    }

    fn pins(&self) -> Pins {
        self.link.pins()
    }

    fn restore(&self) -> Vec<String> {
        let mut statements = self.wanted.restore();
        statements.extend(self.wanted.restore_last());
        statements
    }
}

#[test]
fn a_transaction_to_come_is_as_the_server_reports_it() {
    let mut on = On::new();
    let mut to_come = |text: &str| {
        on.wanted.transaction_to_come(text.as_bytes(), &mut on.link);
        on.restore()[1..].to_vec()
    };
    let both = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET TRANSACTION READ ONLY;";
    assert_eq!(to_come(both), ["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET TRANSACTION READ ONLY"]);
    assert_eq!(to_come("SET TRANSACTION READ ONLY;"), ["SET TRANSACTION READ ONLY"]);
    assert_eq!(to_come("SET TRANSACTION READ ONLY; START TRANSACTION;"), [""; 0], "it is the present one's");
    to_come("SET TRANSACTION READ ONLY;");
    assert_eq!(to_come(""), [""; 0]);
    to_come("SET TRANSACTION READ ONLY;");
    on.wanted.changed_without_name(&Statement::of(b"SELECT a FROM t"), &mut on.link);
    assert_eq!(on.pins(), Pins::UNNAMED, "perhaps the read has begun it; a later answer says so");
}

#[test]
fn of_names_beside_others_only_the_names_are_said_again() {
    let mut on = On::new();
    let text = "SET NAMES latin1 COLLATE latin1_bin, time_zone = '+01:00'";
    on.reports(text, &[("character_set_connection", "latin1"), ("time_zone", "+01:00")]);
    on.reports("SET time_zone = '+02:00'", &[("time_zone", "+02:00")]);
    assert_eq!(on.restore()[0], "SET NAMES latin1 COLLATE latin1_bin");
    assert_eq!(on.restore().len(), 2);
    let both = On::after(&["SET NAMES latin1 COLLATE latin1_bin, character_set_results = NULL"]);
    assert_eq!(both.pins(), Pins::UNNAMED);
}

#[test]
fn what_code_may_have_set_ties_the_session_until_the_server_has_told() {
    let mut on = On::new();
    on.wanted.failed(&Statement::of(b"CALL p()"), &mut on.link);
    assert_eq!(on.pins(), Pins::UNNAMED);
    on.reports("SET wait_timeout=99", &[("wait_timeout", "99")]);
    assert_eq!(on.pins(), Pins::NONE, "it would have said that something else changed");
    for code in ["SELECT f()", "SET STATEMENT max_statement_time=5 FOR SELECT f()"] {
        on.wanted.failed(&Statement::of(code.as_bytes()), &mut on.link);
        assert_eq!(on.pins(), Pins::UNNAMED, "{code}");
        on.link.has_asked_all();
    }
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t";
    for plain in ["INSERT INTO t (a) VALUES (1)", "SELECT MAX(a) FROM t", "SELECT NEXTVAL(s)", load] {
        on.wanted.failed(&Statement::of(plain.as_bytes()), &mut on.link);
        on.wanted.changed_without_name(&Statement::of(plain.as_bytes()), &mut on.link);
        assert_eq!(on.pins(), Pins::NONE, "{plain}");
    }
    assert!(!On::after(&[load]).link.must_ask_all(), "nothing is read from MySQL of what code has set");
    assert!(On::after(&["CALL p()"]).link.must_ask_all());
    on.wanted.changed_without_name(&Statement::of(b"SELECT f()"), &mut on.link);
    on.reports("SET wait_timeout=99", &[("wait_timeout", "99")]);
    assert_eq!(on.pins(), Pins::UNNAMED, "it has said so before");
}

#[test]
fn what_no_server_reports_is_said_again() {
    let role = On::after(&["SET ROLE a", "SET ROLE b"]);
    assert_eq!((role.restore()[0].as_str(), role.pins()), ("SET ROLE b", Pins::NONE));
    assert_eq!(On::after(&["SET ROLE a; SELECT 1"]).pins(), Pins::ROLE);
    assert_eq!(On::after(&["SET ROLE `é`"]).pins(), Pins::ROLE, "another name in another character set");
    let java = "set sql_mode=CONCAT(@@sql_mode,',ANSI'),session_track_system_variables=CONCAT('a',',b')";
    let mut tracked = On::after(&[java]);
    assert_eq!((tracked.restore()[0].as_str(), tracked.pins()), (java, Pins::NONE));
    assert!(tracked.restore()[1].starts_with(&format!("SET {TRACK}")));
    assert!(tracked.link.take_must_track() && !tracked.link.take_must_track());
    assert_eq!(On::after(&["SET session_track_schema=OFF; SELECT 1"]).pins(), Pins::TRACKING);
    // Done by a procedure, which the text does not show.
    tracked.reports("CALL p()", &[("session_track_schema", "OFF")]);
    assert!(tracked.pins() == Pins::TRACKING && tracked.link.take_must_track());
    tracked.reports("SET identity=7", &[("identity", "7")]);
    assert!(tracked.restore()[1].contains(",last_insert_id=7"), "{:?}", tracked.restore());
}

#[test]
fn a_user_variable_set_again_takes_no_more_room() {
    let texts: Vec<String> =
        (0..2 * crate::user_variables::TEXTS_MAX).map(|n| format!("SET @a = {n}, @`B` = 1")).collect();
    let mut on = On::after(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(on.restore()[1..], texts[texts.len() - 1..]);
    assert_eq!(on.pins(), Pins::NONE);
    for (text, left) in [
        ("SET @A = 5", &["SET @a = 255, @`B` = 1", "SET @A = 5"][..]),
        ("SET @b = 6", &["SET @a = 255, @`B` = 1", "SET @A = 5", "SET @b = 6"]),
        ("SET @b = 7, @a = 7, @c = 7", &["SET @b = 7, @a = 7, @c = 7"]),
    ] {
        on.reports(text, &[]);
        assert_eq!(on.restore()[1..], *left, "{text}");
    }
    // What was read from a node stays until it is read again.
    on.wanted.learned_user_variables(vec!["SET @`a`=8".to_owned()]);
    on.reports("SET @a = 9", &[]);
    assert_eq!(on.restore()[1..], ["SET @`a`=8", "SET @a = 9"]);
}

#[test]
fn what_follows_another_setting_is_set_behind_it() {
    for reports in [
        [("collation_server", "latin1_bin"), ("character_set_server", "latin1")],
        [("character_set_server", "latin1"), ("collation_server", "latin1_bin")],
    ] {
        let mut on = On::new();
        on.reports("SET character_set_server=latin1, collation_server=latin1_bin", &reports);
        let said = on.restore().concat();
        let at = |name: &str| said.find(&format!("`{name}`=")).unwrap();
        assert!(at("character_set_server") < at("collation_server"), "{said}");
        assert!(!on.link.has_to_ask());
    }
    let mut on = On::new();
    let reports = [("collation_connection", "latin1_bin"), ("character_set_connection", "latin1")];
    on.reports("SET character_set_connection=latin1, collation_connection=latin1_bin", &reports);
    let said = on.restore().concat();
    assert!(said.find("`collation_connection`") > said.find("`character_set_connection`"), "{said}");
    // Alone, the first takes the second with it.
    on.reports("SET sql_big_selects=1", &[("sql_big_selects", "ON")]);
    on.reports(
        "SET character_set_connection=utf8mb4, max_join_size=5",
        &[("character_set_connection", "utf8mb4"), ("max_join_size", "5")],
    );
    assert_eq!(on.wanted.changed("sql_big_selects"), None);
    assert!(on.link.take_must_ask().contains("sql_big_selects"));
}

#[test]
fn what_failed_may_pin_all_the_same() {
    let mut on = On::new();
    let mut failed = |text: &str| {
        on.wanted.failed(&Statement::of(text.as_bytes()), &mut on.link);
        on.link.pins()
    };
    assert_eq!(failed("SET @a = 1"), Pins::NONE);
    for alone in ["CREATE TEMPORARY TABLE t (a INT)", "LOCK TABLES t WRITE", "HANDLER t OPEN"] {
        assert_eq!(failed(alone), Pins::NONE, "{alone}");
    }
    assert_eq!(failed("SELECT GET_LOCK('a', 1), MAX(x) FROM t"), Pins::GET_LOCK);
    let both = Pins::TEMP_TABLE.union(Pins::GET_LOCK);
    assert_eq!(failed("CREATE TEMPORARY TABLE t (a INT); SELECT nonsense"), both);
    // It may have set variables before it failed, and no error tells.
    assert_eq!(failed("CALL p()"), both.union(Pins::UNNAMED));
    on.link.has_asked_all();
    assert_eq!(on.pins(), both);
}

#[test]
fn the_statement_prepared_last_is_forgotten_in_time() {
    let mut wanted = Wanted::new(None);
    wanted.prepared(b"SELECT 1", Statement::of(b"SELECT 1"), 0);
    assert_eq!(wanted.last_prepared(), Some(1));
    wanted.preparing();
    assert_eq!(wanted.last_prepared(), None);
    wanted.prepared(b"SELECT 2", Statement::of(b"SELECT 2"), 0);
    wanted.close(2);
    assert_eq!(wanted.last_prepared(), None);
}

#[test]
fn a_statement_keeps_what_was_in_force_when_it_was_prepared() {
    let mut on = On::new();
    on.reports("SET sql_mode='ANSI'", &[("sql_mode", "ANSI")]);
    let first = on.wanted.prepared(b"SELECT 1", Statement::of(b"SELECT 1"), 0);
    on.reports("SET sql_mode=''", &[("sql_mode", "")]);
    let second = on.wanted.prepared(b"SELECT 1", Statement::of(b"SELECT 1"), 0);
    let bound = |id| on.wanted.statements[&id].bound.clone();
    assert_ne!(bound(first), bound(second));
    assert_eq!(bound(first).schema.as_deref(), Some(&b"shop"[..]));
    let now = on.wanted.bound();
    assert_eq!(on.wanted.statements[&second].bound, now);
}

#[test]
fn a_text_that_another_sql_mode_would_read_otherwise_is_not_said_again() {
    assert_eq!(On::after(&["SET @a = 'it''s'"]).restore()[1..], ["SET @a = 'it''s'"]);
    // Under NO_BACKSLASH_ESCAPES the string ends early, and what follows in it would be run.
    let escaped = On::after(&[r"SET @a = 'x\'; DROP TABLE t; -- '", "SET sql_mode = NO_BACKSLASH_ESCAPES"]);
    assert_eq!((escaped.restore().len(), escaped.pins()), (1, Pins::USER_VARIABLE));
    let quoted = On::after(&[r#"SET @a = "b""#]);
    assert_eq!((quoted.restore().len(), quoted.pins()), (1, Pins::USER_VARIABLE));
}

#[test]
fn what_a_session_set_comes_back_in_the_order_of_its_last_report() {
    let mut on = On::new();
    on.reports("SET wait_timeout=99", &[("wait_timeout", "99")]);
    on.reports("SET autocommit=0", &[("autocommit", "OFF"), ("last_gtid", "0-1-2")]);
    on.reports("SET wait_timeout=100", &[("wait_timeout", "100")]);
    assert_eq!(on.restore()[0], format!("SET {TRACK},`autocommit`=_utf8mb4 0x4F4646,`wait_timeout`=100"));
    on.reports("INSERT INTO t VALUES (1)", &[("statement_id", "77")]);
    assert_eq!(on.restore()[0], format!("SET {TRACK},`autocommit`=_utf8mb4 0x4F4646,`wait_timeout`=100"));
    assert_eq!(on.pins(), Pins::default());
    assert!(on.wanted.is_undone_by_reset(&on.link));
    on.reports("SET timestamp=1", &[("timestamp", "1")]);
    assert_eq!(on.pins(), Pins::TIMESTAMP);
    assert!(!on.wanted.is_undone_by_reset(&on.link));
    on.wanted.reset();
    on.link = Standing::default();
    assert!(on.wanted.is_undone_by_reset(&on.link));
    let mut role = On::after(&["SET ROLE a"]);
    assert!(!role.wanted.is_undone_by_reset(&role.link), "MariaDB leaves it");
    role.wanted.reset();
    assert_eq!(role.restore().len(), 1);
    assert_eq!(on.wanted.schema(), Some(&b"shop"[..]));
}

#[test]
fn a_collation_that_nobody_told_is_asked_for() {
    let charsets = [("character_set_client", "latin1"), ("character_set_connection", "latin1")];
    let asks = |text: &str| {
        let mut on = On::new();
        on.reports("SET collation_connection=latin1_bin", &[("collation_connection", "latin1_bin")]);
        on.reports(text, &charsets);
        assert_eq!(on.wanted.changed("collation_connection"), None, "{text}: what was told before is old");
        on.link.take_must_ask().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(asks("SET NAMES latin1"), [""; 0], "it is the character set's default");
    assert_eq!(asks("SET NAMES latin1 COLLATE latin1_german2_ci"), [""; 0], "it is said again");
    assert_eq!(asks("SET CHARACTER SET latin1"), ["collation_connection"], "it is the schema's");
    assert_eq!(asks("SET character_set_connection = DEFAULT"), ["collation_connection"]);
    assert_eq!(asks("CALL p()"), ["collation_connection"]);
    for variable in ["character_set_collations", "default_collation_for_utf8mb4"] {
        let mut on = On::new();
        on.reports("SET NAMES latin1", &charsets);
        on.reports(&format!("SET {variable} = 'x'"), &[(variable, "x")]);
        let asked = |on: &mut On| on.link.take_must_ask().into_iter().collect::<Vec<_>>();
        assert_eq!(asked(&mut on), ["collation_connection"], "said again, {variable} would hold for it");
        on.reports("SET NAMES latin1", &charsets);
        assert_eq!(asked(&mut on), ["collation_connection"], "its default is another one than elsewhere");
    }
    let mut on = On::new();
    on.reports("SET @@sql_mode=''", &[]);
    assert_eq!(on.link.take_must_ask().into_iter().collect::<Vec<_>>(), ["sql_mode"]);
}

#[test]
fn what_held_for_one_statement_is_not_kept() {
    let mut on = On::new();
    on.reports("SET STATEMENT max_statement_time=1 FOR SELECT 1", &[("max_statement_time", "1")]);
    assert_eq!(on.wanted.changed("max_statement_time"), None);
}

#[test]
fn an_insert_id_is_known_or_it_is_said_not_to_be() {
    let mut on = On::new();
    let mut ran = |text: &str, ok_id: u64, gives: bool| {
        on.wanted.note_insert_id(&Statement::of(text.as_bytes()), ok_id, |_| gives, &mut on.link);
        on.wanted.insert_id()
    };
    assert_eq!(ran("INSERT INTO t VALUES (NULL)", 7, false), Some(7));
    assert_eq!(
        ran("INSERT INTO t VALUES (9)", 9, true),
        None,
        "generated, or given: the packet does not say"
    );
    assert_eq!(ran("INSERT INTO t VALUES (NULL)", 10, false), Some(10));
    assert_eq!(ran("SELECT 1", 0, true), Some(10));
    assert_eq!(ran("CALL p()", 0, true), None);
    // On a link that never knew it, nothing but a value that is told is known.
    on.link = Standing::after_move(false);
    on.wanted.note_insert_id(&Statement::of(b"SELECT 1"), 0, |_| true, &mut on.link);
    assert_eq!(on.wanted.insert_id(), None);
    assert!(on.link.forgotten(Recalls::INSERT_ID).has(Recalls::INSERT_ID));
}

#[test]
fn of_what_the_server_would_have_said_elsewhere_only_set_transaction_is() {
    for text in [
        "",
        "SET TRANSACTION READ ONLY;",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET TRANSACTION READ WRITE;",
    ] {
        assert!(is_set_transaction(text), "{text}");
    }
    for text in [
        "DELETE FROM t",
        "SET TRANSACTION READ ONLY; DELETE FROM t",
        "SET GLOBAL read_only = 1",
        "SET autocommit = 1",
        "x",
    ] {
        assert!(!is_set_transaction(text), "{text}");
    }
}

#[test]
fn an_empty_string_is_not_said_again_under_another_mode() {
    let mut on = On::after(&["SET @a = ''"]);
    assert_eq!(on.pins(), Pins::NONE);
    on.reports("SET sql_mode = 'EMPTY_STRING_IS_NULL'", &[("sql_mode", "EMPTY_STRING_IS_NULL")]);
    assert_eq!(on.pins(), Pins::USER_VARIABLE);
    for without in ["SET @a = 'x'", "SET @a = 'it''s'", "SET @a = '''', @b = 'a''', @c = '''b'"] {
        let mut on = On::after(&[without]);
        on.reports("SET sql_mode = 'EMPTY_STRING_IS_NULL'", &[("sql_mode", "EMPTY_STRING_IS_NULL")]);
        assert_eq!(on.pins(), Pins::NONE, "{without}");
    }
    for with in ["SET @a = 'it''s', @b = ''", "SET @a = '', @b = 'x'"] {
        let mut on = On::after(&[with]);
        on.reports("SET sql_mode = 'EMPTY_STRING_IS_NULL'", &[("sql_mode", "EMPTY_STRING_IS_NULL")]);
        assert_eq!(on.pins(), Pins::USER_VARIABLE, "{with}");
    }
}

#[test]
fn autocommit_is_set_where_a_node_shows_another_than_the_session_began_with() {
    const ON: u16 = status::AUTOCOMMIT;
    let set = |begun: Begun, at_login: u16, now: u16| {
        let mut wanted = Wanted::new(None);
        wanted.begin_with(begun);
        wanted.begin_autocommit(at_login, now)
    };
    assert_eq!(set(Begun::OnNode(ON), 0, 0).as_deref(), Some("SET autocommit=1"));
    assert_eq!(set(Begun::OnNode(0), ON, ON).as_deref(), Some("SET autocommit=0"));
    assert_eq!(set(Begun::OnNode(ON), ON, 0).as_deref(), Some("SET autocommit=1"), "by init_connect");
    assert_eq!(set(Begun::OnNode(ON), ON, ON), None, "so shown, though it may be off on both");
    assert_eq!(set(Begun::Told(ON), ON, 0), None, "init_connect holds");
    assert_eq!(set(Begun::Told(ON), 0, 0).as_deref(), Some("SET autocommit=1"));
    let mut on = On::new();
    on.wanted.begin_with(Begun::OnNode(ON));
    on.wanted.set_autocommit(false);
    assert_eq!(on.wanted.begin_autocommit(ON, ON), None);
    assert!(on.restore()[0].contains("`autocommit`="), "it was set by the client");
}
