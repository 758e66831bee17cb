//! Each shape of an answer, packet by packet, and promises for any bytes. That real servers send these shapes is checked
//! against a running MariaDB in the link crate's tests.

use super::*;
use crate::ok::{put_eof, put_err, put_ok};
use proptest::prelude::*;

const OLD: Caps = Caps::PROTOCOL_41;
const NEW: Caps = Caps(Caps::PROTOCOL_41.0 | Caps::DEPRECATE_EOF.0);
const ROW: &[u8] = b"\x011";
const COLUMN: &[u8] = b"\x03def\x00\x00\x00\x011\x00\x0c\x3f\x00\x01\x00\x00\x00\x03\x81\x00\x00\x00\x00";

/// Shows an answer its packets, each no further than it asked to see; everything but `More` comes back.
fn follow(answer: &mut Answer, packets: &[&[u8]]) -> Result<Vec<Step>, Malformed> {
    let mut steps = Vec::new();
    for packet in packets {
        let shown = match answer.need(packet.len(), packet.first().copied()) {
            Need::First => &packet[..packet.len().min(1)],
            Need::Whole => packet,
        };
        match answer.step(packet.len(), shown)? {
            Step::More => {}
            other => steps.push(other),
        }
    }
    Ok(steps)
}

fn steps(command: Command, caps: Caps, packets: &[&[u8]]) -> Vec<Step> {
    let mut answer = Answer::new(command, caps);
    let steps = follow(&mut answer, packets).unwrap();
    if let Some(Step::End(_)) = steps.last() {
        for more in [&b"\x00"[..], &err(1047)] {
            assert!(follow(&mut answer, &[more]).is_err(), "nothing may follow the end");
        }
    }
    steps
}

fn ok(header: u8, status: u16) -> Vec<u8> {
    let mut out = Vec::new();
    put_ok(&mut out, header, 0, 0, status, 0, b"");
    out
}

fn eof_of(status: u16) -> Vec<u8> {
    let mut out = Vec::new();
    put_eof(&mut out, 0, status);
    out
}

fn err(code: u16) -> Vec<u8> {
    let mut out = Vec::new();
    put_err(&mut out, code, b"HY000", "no");
    out
}

fn end_ok(status: u16) -> Step {
    Step::End(End::Ok { status, warnings: 0, changed: false })
}

fn part(status: u16) -> Step {
    Step::Part { status, warnings: 0, changed: false }
}

#[test]
fn one_packet() {
    for command in
        [Command::QUERY, Command::PING, Command::INIT_DB, Command::STMT_RESET, Command::RESET_CONNECTION]
    {
        for caps in [OLD, NEW] {
            assert_eq!(steps(command, caps, &[&ok(OK, 2)]), [end_ok(2)]);
            assert_eq!(steps(command, caps, &[&err(1064)]), [Step::End(End::Err { code: 1064 })]);
        }
    }
    assert_eq!(steps(Command::SET_OPTION, OLD, &[&eof_of(2)]), [Step::End(End::Eof { status: 2 })]);
    assert_eq!(steps(Command::SET_OPTION, NEW, &[&eof_of(2)]), [Step::End(End::Eof { status: 2 })]);
    assert_eq!(steps(Command::SET_OPTION, NEW, &[&ok(EOF, 2)]), [end_ok(2)]);
    assert_eq!(steps(Command::STATISTICS, NEW, &[b"Uptime: 5"]), [Step::End(End::Text)]);
    assert_eq!(steps(Command::STATISTICS, NEW, &[&err(1227)]), [Step::End(End::Err { code: 1227 })]);
}

#[test]
fn results_with_and_without_eofs() {
    let old: [&[u8]; 6] = [b"\x01", COLUMN, &eof_of(2), ROW, ROW, &eof_of(34)];
    assert_eq!(steps(Command::QUERY, OLD, &old), [Step::End(End::Eof { status: 34 })]);
    let new: [&[u8]; 5] = [b"\x01", COLUMN, ROW, ROW, &ok(EOF, 34)];
    assert_eq!(steps(Command::QUERY, NEW, &new), [end_ok(34)]);
    // rows that begin like something else: NULL, an empty string, a binary row, a row of no bytes
    let odd: [&[u8]; 7] = [b"\x01", COLUMN, b"\xfb", b"\x00", b"\x00\x00\x01", b"", &ok(EOF, 2)];
    assert_eq!(steps(Command::STMT_EXECUTE, NEW, &odd), [end_ok(2)]);
    let failed: [&[u8]; 4] = [b"\x01", COLUMN, ROW, &err(1317)];
    assert_eq!(steps(Command::QUERY, NEW, &failed), [Step::End(End::Err { code: 1317 })]);
    // an error in place of the columns' EOF
    assert_eq!(steps(Command::QUERY, OLD, &[b"\x01", COLUMN, &err(1)]), [Step::End(End::Err { code: 1 })]);
}

#[test]
fn a_row_may_begin_as_an_end_does_if_it_is_long() {
    let mut answer = Answer::new(Command::QUERY, OLD);
    follow(&mut answer, &[b"\x01", COLUMN, &eof_of(2)]).unwrap();
    // 0xFE leads the length of a value of 16 MiB and more
    assert_eq!(answer.need(PAYLOAD_MAX, Some(EOF)), Need::First);
    assert_eq!(answer.step(PAYLOAD_MAX, b"\xfe"), Ok(Step::More));
    // whatever leads the rest of it
    for (len, first) in [(PAYLOAD_MAX, EOF), (PAYLOAD_MAX, ERR), (5, EOF)] {
        assert_eq!(answer.need(len, Some(first)), Need::First);
        assert_eq!(answer.step(len, &[first]), Ok(Step::More));
    }
    assert_eq!(answer.step(PAYLOAD_MAX, ROW), Ok(Step::More));
    assert_eq!(answer.need(0, None), Need::First);
    assert_eq!(answer.step(0, b""), Ok(Step::More));
    assert_eq!(answer.step(5, &eof_of(2)), Ok(Step::End(End::Eof { status: 2 })));

    // with OKs in place of EOFs, an end may be as long as it likes short of a whole packet
    let mut answer = Answer::new(Command::QUERY, NEW);
    follow(&mut answer, &[b"\x01", COLUMN]).unwrap();
    assert_eq!(answer.need(PAYLOAD_MAX, Some(EOF)), Need::First);
    assert_eq!(answer.need(PAYLOAD_MAX - 1, Some(EOF)), Need::Whole);
    assert_eq!(answer.need(9, Some(0xFD)), Need::First);
}

#[test]
fn several_results() {
    const MORE: u16 = status::MORE_RESULTS;
    let packets: [&[u8]; 8] =
        [b"\x01", COLUMN, ROW, &ok(EOF, MORE), &ok(OK, MORE), b"\x01", COLUMN, &ok(EOF, 0)];
    assert_eq!(steps(Command::QUERY, NEW, &packets), [part(MORE), part(MORE), end_ok(0)]);
    let packets: [&[u8]; 5] = [b"\x01", COLUMN, &eof_of(MORE), ROW, &eof_of(MORE)];
    let mut answer = Answer::new(Command::QUERY, OLD);
    assert_eq!(follow(&mut answer, &packets).unwrap(), [part(MORE)]);
    assert_eq!(follow(&mut answer, &[&err(1)]).unwrap(), [Step::End(End::Err { code: 1 })]);
}

#[test]
fn changes_of_the_session_are_seen() {
    let caps = NEW | Caps::SESSION_TRACK;
    let changed = b"\x00\x00\x00\x02\x40\x00\x00\x00\x07\x01\x05\x04shop";
    assert_eq!(
        steps(Command::INIT_DB, caps, &[changed]),
        [Step::End(End::Ok { status: 0x4002, warnings: 0, changed: true })]
    );
}

#[test]
fn a_file_is_asked_for() {
    assert_eq!(steps(Command::QUERY, NEW, &[b"\xfbfile", &ok(OK, 2)]), [Step::LocalInfile, end_ok(2)]);
    assert_eq!(
        steps(Command::QUERY, NEW, &[b"\xfbfile", &err(1146)]),
        [Step::LocalInfile, Step::End(End::Err { code: 1146 })]
    );
}

#[test]
fn preparations() {
    let head = |columns: u8, params: u8| [0, 7, 0, 0, 0, columns, 0, params, 0, 0, 0, 0];
    let done = |columns, params| Step::End(End::Prepared { id: 7, columns, params });
    for (caps, eofs) in [(OLD, true), (NEW, false), (NEW | Caps::CACHE_METADATA, false)] {
        for (columns, params) in [(0, 0), (0, 2), (3, 0), (3, 2)] {
            let (head, eof) = (head(columns, params), eof_of(2));
            let mut packets: Vec<&[u8]> = vec![&head];
            for count in [params, columns] {
                packets.extend(std::iter::repeat_n(COLUMN, count.into()));
                if count > 0 && eofs {
                    packets.push(&eof);
                }
            }
            let wanted = [done(columns.into(), params.into())];
            assert_eq!(steps(Command::STMT_PREPARE, caps, &packets), wanted, "{caps:?}");
        }
    }
    assert_eq!(steps(Command::STMT_PREPARE, NEW, &[&err(1064)]), [Step::End(End::Err { code: 1064 })]);
    // MySQL may leave the descriptions out, and says so
    let mut flagged = head(3, 2).to_vec();
    flagged.push(0);
    let caps = NEW | Caps::OPTIONAL_RESULTSET_METADATA;
    assert_eq!(steps(Command::STMT_PREPARE, caps, &[&flagged]), [done(3, 2)]);
}

#[test]
fn columns_may_be_left_out() {
    for cap in [Caps::CACHE_METADATA, Caps::OPTIONAL_RESULTSET_METADATA] {
        let new = NEW | cap;
        assert_eq!(steps(Command::STMT_EXECUTE, new, &[b"\x02\x00", ROW, &ok(EOF, 2)]), [end_ok(2)]);
        let given: [&[u8]; 5] = [b"\x02\x01", COLUMN, COLUMN, ROW, &ok(EOF, 2)];
        assert_eq!(steps(Command::STMT_EXECUTE, new, &given), [end_ok(2)]);
        let old = [&b"\x02\x00"[..], &eof_of(2), ROW, &eof_of(2)];
        assert_eq!(steps(Command::STMT_EXECUTE, OLD | cap, &old), [Step::End(End::Eof { status: 2 })]);
    }
}

#[test]
fn cursors() {
    let open = eof_of(status::CURSOR_EXISTS | 2);
    for (caps, packets, wanted) in [
        (OLD, [&b"\x01"[..], COLUMN, &open], Step::End(End::Eof { status: 0x42 })),
        (NEW, [&b"\x01"[..], COLUMN, &ok(EOF, 0x42)], end_ok(0x42)),
    ] {
        let mut answer = Answer::with_cursor(Command::STMT_EXECUTE, caps);
        assert_eq!(follow(&mut answer, &packets).unwrap(), [wanted]);
        assert!(answer.opened_cursor());
        assert!(follow(&mut answer, &[&ok(OK, 0)]).is_err());
    }
    // Asked for, and not given: the rows come at once.
    let mut answer = Answer::with_cursor(Command::STMT_EXECUTE, OLD);
    let rows: [&[u8]; 5] = [b"\x01", COLUMN, &eof_of(2), ROW, &eof_of(2)];
    assert_eq!(follow(&mut answer, &rows).unwrap(), [Step::End(End::Eof { status: 2 })]);
    assert!(!answer.opened_cursor());
    assert_eq!(
        steps(Command::STMT_FETCH, OLD, &[b"\x00\x00\x01", b"\x00\x00\x02", &eof_of(0x82)]),
        [Step::End(End::Eof { status: 0x82 })]
    );
    // a fetch has one result, whatever the flags say
    assert_eq!(steps(Command::STMT_FETCH, NEW, &[&ok(EOF, 0x48)]), [end_ok(0x48)]);
    assert_eq!(steps(Command::STMT_FETCH, NEW, &[&err(1243)]), [Step::End(End::Err { code: 1243 })]);
}

/// `CALL opened()` of the link crate's tests, as MariaDB 10.11 answers it: the flags 0x6A of each EOF are CURSOR_EXISTS,
/// NO_INDEX_USED, MORE_RESULTS and AUTOCOMMIT, while a cursor of the procedure's is open.
#[test]
fn a_cursor_inside_a_procedure_is_none_of_the_clients() {
    const INSIDE: u16 = 0x6A;
    assert_eq!(INSIDE & (status::CURSOR_EXISTS | status::MORE_RESULTS), 0x48);
    let (eof, last) = (eof_of(INSIDE), ok(OK, 0x22));
    let one: [&[u8]; 5] = [b"\x01", COLUMN, &eof, ROW, &eof];
    let two: [&[u8]; 7] = [b"\x02", COLUMN, COLUMN, &eof, ROW, ROW, &eof];
    let packets = [&one[..], &two, &one, &[&last]].concat();
    let wanted = [part(INSIDE), part(INSIDE), part(INSIDE), end_ok(0x22)];
    for command in [Command::QUERY, Command::STMT_EXECUTE] {
        assert_eq!(steps(command, OLD, &packets), wanted);
        let end = ok(EOF, INSIDE);
        let without_eofs: [&[u8]; 5] = [b"\x01", COLUMN, ROW, &end, &last];
        assert_eq!(steps(command, NEW, &without_eofs), [part(INSIDE), end_ok(0x22)]);
    }
    // Whatever the last OK says.
    let mut answer = Answer::new(Command::QUERY, OLD);
    follow(&mut answer, &[&one[..], &[&ok(OK, status::CURSOR_EXISTS)]].concat()).unwrap();
    assert!(!answer.opened_cursor());
}

#[test]
fn what_cannot_be_followed_is_told_by_its_shape() {
    let mut answer = Answer::new(Command::QUERY, OLD);
    follow(&mut answer, &[b"\x01", COLUMN]).unwrap();
    let row = b"\x14a secret of 20 bytes";
    let why = answer.step(row.len(), row).unwrap_err();
    let unfollowed = answer.unfollowed(why, row.len(), row);
    assert_eq!(
        (unfollowed.awaited, unfollowed.packet_bytes, unfollowed.first_bytes().len()),
        ("the EOF behind the columns", 21, 16)
    );
    assert_eq!(
        unfollowed.to_string(),
        "the answer to COM_QUERY cannot be followed: the EOF behind the columns was due, and a packet of 21 bytes came \
         (an EOF packet begins with 0xFE), which begins 14 61 20 73 65 63 72 65 74 20 6f 66 20 32 30 20"
    );
    assert_eq!(Answer::new(Command::PING, OLD).unfollowed(why, 0, b"").first_bytes(), b"");
}

#[test]
fn columns_of_a_table() {
    let eof = Step::End(End::Eof { status: 2 });
    assert_eq!(steps(Command::FIELD_LIST, OLD, &[COLUMN, COLUMN, &eof_of(2)]), [eof]);
    assert_eq!(steps(Command::FIELD_LIST, NEW, &[COLUMN, &eof_of(2)]), [eof]);
    assert_eq!(steps(Command::FIELD_LIST, NEW, &[COLUMN, &ok(EOF, 2)]), [end_ok(2)]);
    assert_eq!(steps(Command::FIELD_LIST, NEW, &[&err(1146)]), [Step::End(End::Err { code: 1146 })]);
}

#[test]
fn logging_in_anew() {
    let switch = b"\xfemysql_native_password\x0001234567890123456789\x00";
    assert_eq!(steps(Command::CHANGE_USER, NEW, &[switch, &ok(OK, 2)]), [Step::Auth, end_ok(2)]);
    assert_eq!(steps(Command::CHANGE_USER, NEW, &[b"\x01\x03", &ok(OK, 2)]), [Step::Auth, end_ok(2)]);
    assert_eq!(steps(Command::CHANGE_USER, NEW, &[&err(1045)]), [Step::End(End::Err { code: 1045 })]);
}

#[test]
fn progress_is_no_error() {
    let progress = b"\xff\xff\xff\x01\x01\x02\x00\x00\x00\x05copy ";
    let caps = NEW | Caps::PROGRESS;
    assert_eq!(steps(Command::QUERY, caps, &[progress, progress, &ok(OK, 2)]), [end_ok(2)]);
    assert_eq!(steps(Command::QUERY, NEW, &[progress]), [Step::End(End::Err { code: 0xFFFF })]);
}

#[test]
fn a_binary_log_is_a_stream() {
    let mut answer = Answer::new(Command::BINLOG_DUMP, OLD);
    assert_eq!(follow(&mut answer, &[b"\x00event", b"\x00event"]).unwrap(), []);
    assert_eq!(follow(&mut answer, &[&eof_of(0)]).unwrap(), [Step::End(End::Eof { status: 0 })]);
    assert_eq!(steps(Command::BINLOG_DUMP, OLD, &[&err(1236)]), [Step::End(End::Err { code: 1236 })]);
}

#[test]
fn started_means_that_something_was_shown() {
    let mut answer = Answer::new(Command::QUERY, NEW);
    follow(&mut answer, &[b"\x01"]).unwrap();
    assert!(!answer.started());
    follow(&mut answer, &[COLUMN]).unwrap();
    assert!(answer.started());
    let mut answer = Answer::new(Command::QUERY, NEW);
    follow(&mut answer, &[&ok(OK, 0)]).unwrap();
    assert!(!answer.started());
}

#[test]
fn nonsense_is_refused() {
    for (command, packets) in [
        (Command::QUERY, &[&b""[..]][..]),
        (Command::QUERY, &[b"\xfc\x00\x00"]),
        (Command::QUERY, &[b"\xfe"]),
        (Command::QUERY, &[b"\x00"]),
        (Command::QUERY, &[b"\xff"]),
        (Command::QUERY, &[b"\xfd\x00\x00\x01"]),
        (Command::QUERY, &[b"\x01", COLUMN, b"\x05"]),
        (Command::STMT_PREPARE, &[b"\x00\x01"]),
        (Command::STMT_PREPARE, &[b"\x01"]),
        (Command::QUIT, &[b"\x00"]),
        (Command::STMT_CLOSE, &[b"\x00"]),
        (Command::STMT_CLOSE, &[&err(1047)]),
    ] {
        assert!(follow(&mut Answer::new(command, OLD), packets).is_err(), "{command:?} {packets:?}");
    }
    // a head as long as a packet can be would go on in the next: no server sends that
    assert!(Answer::new(Command::QUERY, OLD).step(PAYLOAD_MAX, b"\x00").is_err());
    // nor an end that goes on, of the kinds that are not looked into
    assert!(Answer::new(Command::STATISTICS, NEW).step(PAYLOAD_MAX, b"U").is_err());
    let mut answer = Answer::new(Command::STMT_PREPARE, NEW);
    follow(&mut answer, &[b"\x00\x07\0\0\0\x01\0\0\0\0\0\0"]).unwrap();
    assert!(answer.step(PAYLOAD_MAX, b"\x03").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever comes: each step moves on, ends or fails, and sees no more than it asked for.
    #[test]
    fn any_packets(command in any::<u8>(), caps in any::<u64>(), cursor in any::<bool>(),
                   packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..24), 0..24)) {
        let begin = if cursor { Answer::with_cursor } else { Answer::new };
        let mut answer = begin(Command(command), Caps(caps));
        for packet in &packets {
            let shown = match answer.need(packet.len(), packet.first().copied()) {
                Need::First => &packet[..packet.len().min(1)],
                Need::Whole => &packet[..],
            };
            match answer.step(packet.len(), shown) {
                Ok(Step::End(_)) => {
                    prop_assert!(answer.step(7, &ok(OK, 0)).is_err());
                    break;
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }

    /// Rows that are taken together leave what they leave one by one: the same count, the same next step, the same bytes but for the numbers.
    #[test]
    fn rows_together_are_rows_one_by_one(
        caps in prop_oneof![Just(OLD), Just(NEW)],
        firsts in proptest::collection::vec(prop_oneof![8 => Just(1_u8), 1 => Just(0), 1 => Just(0xFB), 1 => Just(EOF), 1 => Just(ERR)], 0..9),
        lengths in proptest::collection::vec(0_usize..12, 9), cut in 0_usize..60, renumber in any::<u8>()) {
        let mut together = Answer::new(Command::QUERY, caps);
        follow(&mut together, &[b"\x01", COLUMN]).unwrap();
        if !caps.has(Caps::DEPRECATE_EOF) {
            follow(&mut together, &[&eof_of(2)]).unwrap();
        }
        let mut one_by_one = together.clone();
        let mut bytes = vec![];
        for (first, length) in firsts.iter().zip(lengths) {
            let mut payload = vec![*first; length];
            payload.truncate(length);
            crate::packet::put_packet(&mut bytes, &mut 250, &payload);
        }
        bytes.truncate(cut);
        let mut taken = bytes.clone();
        let length = together.whole_rows(&mut taken, renumber);
        let mut at = 0;
        while at < length {
            let head = Head::peek(&bytes[at..]).unwrap();
            let payload = &bytes[at + HEADER_LEN..at + HEADER_LEN + head.len];
            prop_assert_eq!(one_by_one.step(head.len, payload).unwrap(), Step::More);
            bytes[at + HEADER_LEN - 1] = head.seq.wrapping_add(renumber);
            at += HEADER_LEN + head.len;
        }
        prop_assert_eq!(at, length);
        prop_assert_eq!(&taken, &bytes);
        prop_assert_eq!(format!("{together:?}"), format!("{one_by_one:?}"));
        // What is left does not begin with a whole row.
        if let Some(head) = Head::peek(&bytes[at..]) {
            let rest = &bytes[at + HEADER_LEN..];
            prop_assert!(rest.len() < head.len || head.len == 0 || rest[0] == EOF || rest[0] == ERR);
        }
    }
}
