//! Transcripts of one command: events in, operations out.

use super::*;
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::status;

use crate::command::Next;
use crate::names::Names;

const LIMITS: RetryLimits = RetryLimits { hold_time: Duration::from_secs(60), resends_max: 1 };
const AUTO: u16 = status::AUTOCOMMIT;

struct Scene {
    session: Session,
    link: Option<Standing>,
    exchange: Exchange,
}

impl Scene {
    /// A command of a session that stands on a link, in a transaction or not.
    fn of(sql: &str, in_transaction: bool) -> Self {
        let mut link = Standing::default();
        link.set_transaction(in_transaction);
        Self::on(sql, Session::new(None, 2), link)
    }

    fn on(sql: &str, mut session: Session, mut link: Standing) -> Self {
        let payload = [&[Command::QUERY.0], sql.as_bytes()].concat();
        let next = session.command(&payload, true, Caps::NONE, Some(&mut link), &|_| Names::Nothing);
        let Next::Forward(flight) = next else { panic!("{next:?}") };
        Self { session, link: Some(link), exchange: Exchange::new(flight, LIMITS) }
    }

    fn on_event(&mut self, event: Event) -> Op {
        let step = self.exchange.on(event, &mut self.session, self.link.as_mut());
        if matches!(step.let_go, LetGo::Link | LetGo::OldLink) {
            self.link = None;
        }
        step.op
    }

    /// Up to the moment at which the command is on its way.
    fn sent(&mut self, leased: bool) {
        let mut op = self.on_event(Event::Begin { leased });
        if matches!(op, Op::Lease { .. }) {
            op = self.on_event(Event::Leased { here: self.link.is_some() });
        }
        if op == Op::Attach {
            self.link = Some(self.session.standing(true));
            op = self.on_event(Event::Attached);
        }
        assert_eq!(op, Op::Send);
    }
}

fn lost() -> Event {
    Event::Lost(Loss { sent: true, ..Loss::unsent() })
}

/// Another lane is open than the one that the statement failed on.
fn elsewhere() -> Event {
    let now = Duration::from_secs(1);
    Event::Routes(RoutesNow { now, since: now, chance: 0, lane_open: false, elsewhere: true })
}

fn refused(code: u16) -> Event {
    Event::Refused(NodeError { code, state: *b"08S01", message: "WSREP off".into() })
}

/// The numbers of `protocol::errno::whose` after which a node is asked.
const ABOUT_A_NODE: [u16; 15] =
    [1040, 1047, 1053, 1077, 1078, 1079, 1080, 1129, 1152, 1184, 1290, 1836, 1927, 3032, 3100];

fn fails(op: &Op) -> Failure {
    let Op::Finish(Finish::Fail { failure, .. }) = op else { panic!("{op:?}") };
    *failure
}

#[test]
fn a_read_whose_node_was_lost_goes_on_once_and_no_more() {
    let mut scene = Scene::of("SELECT 1", false);
    scene.sent(false);
    assert_eq!(scene.on_event(lost()), Op::AwaitLook);
    assert_eq!(scene.on_event(Event::Looked(Look::Gone)), Op::Retry);
    assert_eq!(scene.on_event(elsewhere()), Op::Lease { avoid: true });
    assert_eq!(scene.on_event(Event::Leased { here: false }), Op::Attach);
    scene.link = Some(Standing::default());
    assert_eq!(scene.on_event(Event::Attached), Op::Send);
    assert_eq!(scene.on_event(lost()), Op::AwaitLook);
    assert_eq!(fails(&scene.on_event(Event::Looked(Look::Gone))), Failure::LostAgain);
}

#[test]
fn a_read_on_a_node_that_is_well_was_killed() {
    let mut scene = Scene::of("SELECT 1", false);
    scene.sent(false);
    assert_eq!(scene.on_event(lost()), Op::AwaitLook);
    let op = scene.on_event(Event::Looked(Look::Well));
    assert_eq!(op, Op::Finish(Finish::NodeError { error: NodeError::killed(), closes: true }));
}

#[test]
fn what_only_waits_is_killed_or_cut_short_and_never_unknown() {
    for (look, in_words) in
        [(Look::Well, true), (Look::Gone, false), (Look::Unfit, false), (Look::NoWord, false)]
    {
        let mut scene = Scene::of("SELECT SLEEP(20)", false);
        scene.sent(false);
        assert_eq!(scene.on_event(lost()), Op::AwaitLook);
        let op = scene.on_event(Event::Looked(look));
        if in_words {
            assert_eq!(op, Op::Finish(Finish::NodeError { error: NodeError::killed(), closes: true }));
        } else {
            assert_eq!(fails(&op), Failure::CutShort);
        }
    }
}

#[test]
fn a_ping_that_loses_something_ends_the_connection() {
    let ping = |in_transaction: bool, pins: Pins| {
        let (mut session, mut link) = (Session::new(None, 2), Standing::default());
        link.set_transaction(in_transaction);
        link.pin(pins);
        let next =
            session.command(&[Command::PING.0], true, Caps::NONE, Some(&mut link), &|_| Names::Nothing);
        let Next::Forward(flight) = next else { panic!("{next:?}") };
        let mut scene = Scene { session, link: Some(link), exchange: Exchange::new(flight, LIMITS) };
        scene.sent(in_transaction);
        let op = scene.on_event(lost());
        if op == Op::AwaitLook { scene.on_event(Event::Looked(Look::Gone)) } else { op }
    };
    assert_eq!(ping(true, Pins::NONE), Op::Finish(Finish::Close));
    assert_eq!(ping(false, Pins::TEMP_TABLE), Op::Finish(Finish::Close));
    assert_eq!(ping(false, Pins::NONE), Op::Retry, "nothing is lost");
}

#[test]
fn a_write_is_never_sent_twice() {
    let mut scene = Scene::of("INSERT INTO t VALUES (1)", false);
    scene.sent(false);
    assert_eq!(fails(&scene.on_event(lost())), Failure::OutcomeUnknown);
    // Not wholly sent, it cannot have run.
    let mut scene = Scene::of("INSERT INTO t VALUES (1)", false);
    scene.sent(false);
    assert_eq!(scene.on_event(Event::Lost(Loss::unsent())), Op::Retry);
}

#[test]
fn a_refusal_is_believed_when_the_manager_says_so() {
    let mut scene = Scene::of("INSERT INTO t VALUES (1)", false);
    scene.sent(false);
    assert_eq!(scene.on_event(refused(1047)), Op::AwaitLook);
    assert_eq!(scene.on_event(Event::Looked(Look::Gone)), Op::Retry);
    for look in [Look::Well, Look::NoWord] {
        let mut scene = Scene::of("INSERT INTO t VALUES (1)", false);
        scene.sent(false);
        assert_eq!(scene.on_event(refused(1047)), Op::AwaitLook);
        let op = scene.on_event(Event::Looked(look));
        let Op::Finish(Finish::NodeError { error, closes: false }) = op else { panic!("{op:?}") };
        assert_eq!(error.code, 1047, "the client hears its trigger");
        assert!(scene.link.is_some(), "and goes on where it is");
    }
}

#[test]
fn a_node_that_does_not_serve_for_the_moment_keeps_its_sessions() {
    // Asked later it says the same of itself: the statement waits on its link, whatever ties it there.
    let sql = "CREATE TEMPORARY TABLE tt (a INT)";
    let mut link = Standing::default();
    link.pin(Pins::TEMP_TABLE);
    for mut scene in
        [Scene::of("INSERT INTO t VALUES (1)", false), Scene::on(sql, Scene::of(sql, false).session, link)]
    {
        scene.sent(false);
        assert_eq!(scene.on_event(refused(1047)), Op::AwaitLook);
        assert_eq!(scene.on_event(Event::Looked(Look::Unfit)), Op::Retry);
        assert!(scene.link.is_some());
        assert_eq!(scene.on_event(elsewhere()), Op::Lease { avoid: true });
        assert_eq!(scene.on_event(Event::Leased { here: true }), Op::Send);
    }
    // A transaction hears its node.
    let mut scene = Scene::of("INSERT INTO t VALUES (1)", true);
    scene.sent(true);
    assert_eq!(scene.on_event(refused(1047)), Op::AwaitLook);
    assert_eq!(scene.on_event(Event::Looked(Look::Unfit)), Op::Ask(Ask::Status));
}

#[test]
fn an_error_that_speaks_of_the_node_may_end_a_transaction_like_any_other() {
    let mut scene = Scene::of("INSERT INTO t VALUES (1)", true);
    scene.sent(true);
    assert_eq!(scene.on_event(refused(1047)), Op::AwaitLook);
    assert_eq!(scene.on_event(Event::Looked(Look::Well)), Op::Ask(Ask::Status));
    let op = scene.on_event(Event::Status(AUTO));
    assert!(matches!(op, Op::Finish(Finish::NodeError { closes: false, .. })), "{op:?}");
    assert!(!scene.link.unwrap().in_transaction());
}

#[test]
fn a_transaction_never_goes_on_without_its_lease_or_on_another_node() {
    let mut scene = Scene::of("INSERT INTO t VALUES (1)", true);
    assert_eq!(fails(&scene.on_event(Event::Begin { leased: false })), Failure::RolledBack);
    let mut scene = Scene::of("INSERT INTO t VALUES (1)", true);
    assert_eq!(fails(&scene.on_event(Event::Leased { here: false })), Failure::RolledBack);
    let mut link = Standing::default();
    link.set_transaction(true);
    link.note_untransactional();
    let mut scene = Scene::on("INSERT INTO t VALUES (1)", Session::new(None, 2), link);
    assert_eq!(fails(&scene.on_event(Event::Begin { leased: false })), Failure::OutcomeUnknown);
}

#[test]
fn what_kills_itself_is_told_so() {
    for answer in [lost(), refused(1927)] {
        let mut scene = Scene::of("KILL CONNECTION_ID()", false);
        scene.sent(false);
        let op = scene.on_event(answer);
        let Op::Finish(Finish::NodeError { error, closes: true }) = op else { panic!("{op:?}") };
        assert_eq!(error.code, 1927);
    }
}

#[test]
fn an_answer_that_cannot_be_followed_is_never_asked_for_again() {
    let mut scene = Scene::of("SELECT 1", false);
    scene.sent(false);
    let op = scene.on_event(Event::NotFollowed { delivered: Delivered::Nothing });
    assert_eq!(fails(&op), Failure::NotFollowed);
    assert!(scene.link.is_none());
}

#[test]
fn a_client_that_does_not_read_loses_its_result_only_where_that_changes_nothing() {
    let stalled = Event::Stalled { delivered: Delivered::Packets { next_seq: 9 } };
    let mut scene = Scene::of("SELECT 1", false);
    scene.sent(false);
    assert_eq!(fails(&scene.on_event(stalled)), Failure::CutShort);
    let mut scene = Scene::of("SELECT 1", false);
    scene.sent(false);
    let op = scene.on_event(Event::Stalled { delivered: Delivered::PartOfPacket });
    assert_eq!(op, Op::Finish(Finish::Close));
}

#[test]
fn what_the_session_is_tied_by_keeps_it_from_another_node() {
    let mut link = Standing::default();
    link.pin(Pins::TEMP_TABLE);
    let mut scene = Scene::on("SELECT 1", Session::new(None, 2), link);
    assert_eq!(scene.on_event(Event::Begin { leased: false }), Op::Lease { avoid: false });
    assert_eq!(fails(&scene.on_event(Event::Leased { here: false })), Failure::SessionLost);
}

#[test]
fn only_the_first_try_is_at_once_and_the_pauses_grow_to_a_bound() {
    let mut scene = Scene::of("INSERT INTO t VALUES (1)", false);
    assert_eq!(scene.on_event(elsewhere()), Op::Lease { avoid: true });
    let mut wanted = PAUSE_MIN;
    for nth in 2..30 {
        let op = scene.on_event(elsewhere());
        assert_eq!(op, Op::Pause { time: wanted, ends_early: nth <= EARLY_ENDS_MAX }, "try {nth}");
        wanted = (wanted * 2).min(PAUSE_MAX);
        assert_eq!(scene.on_event(Event::Paused), Op::Lease { avoid: true });
    }
    let now = RoutesNow {
        now: Duration::ZERO,
        since: Duration::ZERO,
        chance: u8::MAX,
        lane_open: true,
        elsewhere: false,
    };
    let op = scene.on_event(Event::Routes(now));
    assert_eq!(op, Op::Pause { time: PAUSE_MAX / 2, ends_early: false }, "chance takes up to a half");
    let late = RoutesNow { now: LIMITS.hold_time, ..now };
    assert_eq!(fails(&scene.on_event(Event::Routes(late))), Failure::HoldExpired);
}

#[test]
fn what_nodes_refuse_again_and_again_ends_with_the_clients_own_error() {
    // A node that goes on saying of itself that it does not serve, and nodes that are given up one after the other.
    for (look, code) in
        [Look::Unfit, Look::Gone].into_iter().flat_map(|look| ABOUT_A_NODE.map(|code| (look, code)))
    {
        // A statement that changes nothing, since some of these may come when the work is done.
        let mut scene = Scene::of("SELECT 1", false);
        scene.sent(false);
        let mut paused = Duration::ZERO;
        for nth in 1..=REFUSALS_MAX {
            assert_eq!(scene.on_event(refused(code)), Op::AwaitLook);
            let op = scene.on_event(Event::Looked(look));
            if nth == REFUSALS_MAX {
                let Op::Finish(Finish::NodeError { error, .. }) = op else {
                    panic!("{code} {look:?}: {op:?}")
                };
                assert_eq!(error.code, code);
                break;
            }
            assert_eq!(op, Op::Retry, "refusal {nth} with {code}, {look:?}");
            let mut op = scene.on_event(elsewhere());
            if let Op::Pause { time, .. } = op {
                paused += time;
                op = scene.on_event(Event::Paused);
            }
            assert_eq!(op, Op::Lease { avoid: true });
            let mut op = scene.on_event(Event::Leased { here: scene.link.is_some() });
            if op == Op::Attach {
                scene.link = Some(scene.session.standing(true));
                op = scene.on_event(Event::Attached);
            }
            assert_eq!(op, Op::Send);
        }
        assert!(paused >= PAUSE_MIN * 20, "{code} {look:?}: {paused:?}: the pauses grow");
    }
}

#[test]
fn a_refusal_by_a_node_that_is_well_is_told_at_once() {
    for code in ABOUT_A_NODE {
        let mut scene = Scene::of("INSERT INTO t VALUES (1)", false);
        scene.sent(false);
        assert_eq!(scene.on_event(refused(code)), Op::AwaitLook);
        let mut op = scene.on_event(Event::Looked(Look::Well));
        if op == Op::Ask(Ask::Status) {
            op = scene.on_event(Event::Status(AUTO));
        }
        let Op::Finish(Finish::NodeError { error, .. }) = op else { panic!("{code}: {op:?}") };
        assert_eq!(error.code, code);
    }
}

#[test]
fn a_write_is_repeated_only_after_an_error_that_comes_before_it_is_run() {
    for code in ABOUT_A_NODE {
        let mut scene = Scene::of("INSERT INTO t VALUES (1)", false);
        scene.sent(false);
        assert_eq!(scene.on_event(refused(code)), Op::AwaitLook);
        let op = scene.on_event(Event::Looked(Look::Gone));
        if errno::is_before_running(code) {
            assert_eq!(op, Op::Retry, "{code}");
        } else {
            assert_eq!(fails(&op), Failure::OutcomeUnknown, "{code}");
        }
    }
}

#[test]
fn a_full_node_is_waited_for_as_long_as_the_hold_and_then_told_of() {
    let full = || NodeError { code: 1040, state: *b"08004", message: "Too many connections".into() };
    let mut scene = Scene::of("SELECT 1", false);
    scene.link = None;
    assert_eq!(scene.on_event(Event::Begin { leased: false }), Op::Lease { avoid: false });
    assert_eq!(scene.on_event(Event::Leased { here: false }), Op::Attach);
    assert_eq!(scene.on_event(Event::NotAttached(NoLink::Full(full()))), Op::Retry);
    let late = RoutesNow {
        now: LIMITS.hold_time,
        since: Duration::ZERO,
        chance: 0,
        lane_open: true,
        elsewhere: false,
    };
    let op = scene.on_event(Event::Routes(late));
    assert_eq!(op, Op::Finish(Finish::NodeError { error: full(), closes: false }));
}

#[test]
fn a_variable_whose_node_is_lost_before_it_said_the_value_is_not_forgotten_silently() {
    let mut scene = Scene::of("SET @@sort_buffer_size = 77824", false);
    scene.sent(false);
    let end = End::Ok { status: AUTO, warnings: 0, changed: true };
    // The client has this answer already when the node is asked.
    let text = b"\x03SET @@sort_buffer_size = 77824";
    let link = scene.link.as_mut().unwrap();
    scene.session.ended(link, scene.exchange.flight(), &end, &[0, 0, 0, 2, 0, 0, 0], text, Caps::NONE);
    assert_eq!(scene.on_event(Event::Answered(end)), Op::Ask(Ask::Variables));
    assert!(scene.link.as_mut().unwrap().take_must_ask().contains("sort_buffer_size"));
    assert_eq!(scene.on_event(Event::AskLost), Op::Finish(Finish::Answered));
    assert!(matches!(scene.session.owed(), Some(Owed::SessionLost(_))));
}

#[test]
fn what_a_text_may_have_set_before_its_node_was_lost_is_not_forgotten_silently() {
    let owed_after = |sql: &str| {
        let mut scene = Scene::of(sql, false);
        scene.sent(false);
        let mut op = scene.on_event(lost());
        if op == Op::AwaitLook {
            op = scene.on_event(Event::Looked(Look::Gone));
        }
        let told = fails(&op);
        told == Failure::SessionLost || matches!(scene.session.owed(), Some(Owed::SessionLost(_)))
    };
    for gains in [
        "CREATE TEMPORARY TABLE t (a INT)",
        "SET @a = 5",
        "DO GET_LOCK('a', 0)",
        "LOCK TABLES t WRITE",
        "PREPARE s FROM 'SELECT 7'",
        "HANDLER t OPEN",
        "XA START 'a'",
        "SET ROLE r",
        "SET NAMES latin1 COLLATE latin1_bin",
        "SET @@sql_mode = ''",
        "SET session_track_schema = 0",
    ] {
        assert!(owed_after(&format!("{gains}; DO SLEEP(3)")), "{gains}");
    }
    // It may not have come to the second statement.
    assert!(owed_after("LOCK TABLES t WRITE; UNLOCK TABLES"));
    // The client was told of no such table, or there was nothing to lose.
    for sql in ["CREATE TEMPORARY TABLE t (a INT)", "INSERT INTO t VALUES (1); DO SLEEP(3)"] {
        assert!(!owed_after(sql), "{sql}");
    }
    // LAST_INSERT_ID() is not known afterwards.
    let mut scene = Scene::of("SELECT LAST_INSERT_ID(99); DO SLEEP(3)", false);
    scene.sent(false);
    let _ = scene.on_event(lost());
    assert_eq!(scene.session.wanted.insert_id(), None);
}

#[test]
fn a_text_of_which_only_the_beginning_was_kept_may_have_set_anything() {
    let told = |caps: Caps| {
        let mut session = Session::new(None, 2);
        let payload = [&[Command::QUERY.0][..], b"INSERT INTO t VALUES (1), (2"].concat();
        let mut link = Standing::default();
        let next = session.command(&payload, false, caps, Some(&mut link), &|_| Names::Nothing);
        let Next::Forward(flight) = next else { panic!("{next:?}") };
        !session.ties_lost(&link, &flight).is_empty()
    };
    assert!(told(Caps::PROTOCOL_41 | Caps::MULTI_STATEMENTS));
    assert!(!told(Caps::PROTOCOL_41), "one INSERT and nothing else");
}

#[test]
fn a_read_that_counts_as_a_write_is_told_so() {
    let detail = |names: Names| {
        let mut session = Session::new(None, 2);
        let payload = [&[Command::QUERY.0][..], b"SELECT a FROM t"].concat();
        let next = session.command(&payload, true, Caps::PROTOCOL_41, None, &|_| names.clone());
        let Next::Forward(flight) = next else { panic!("{next:?}") };
        flight.is_read_that_may_write()
    };
    assert!(detail(Names::Unknown) && !detail(Names::Nothing));
}
