use super::*;

/// As MariaDB 10.11.19 wrote them, with their checksums.
const GTID_LIST: &str = "07fe026ba3010000003b0000003b0100000000020000000000000002000000040000000000000000000000010000000a00000000000000f3a3b278";
const GTID: &str = "08fe026ba2010000002a000000b501000008000b00000000000000000000000c000000000000d3db9f70";
const GTID_DDL: &str = "08fe026ba2010000002a000000b501000008001600000000000000000000002900000000000000000000";
const GTID_XA: &str =
    "08fe026ba2010000002d000000b501000008001100000000000000000000004c0100000001007801ff32abc8";
const GTID_OF_SEQUENCE: &str =
    "08fe026ba2010000002a000000b501000008001400000000000000000000000800000000000000000000";
const TABLE: &str = "08fe026b13010000003a0000005d02000000001800000000000100067362746573740003626967000603fcfefc12030502f70104063e5876e4ed";
const UPDATE: &str = "08fe026b180100000034000000bc93010000001b00000000000000020303fc0100000001000000fc0100000002000000dcb22805";
const UPDATE_MINIMAL: &str =
    "08fe026b18010000002d000000bc9301000000180000000000010006010afe28230000fc02292300007f4d5b";
const SAVEPOINT: &str = "08fe026b020100000052000000ca5d0200080037000000000000000600001a000000000001010000205400000000060373746404210021002d007362746573740053415645504f494e5420607360af955d0d";
const DELETE: &str = "08fe026b19010000002a000000eae8050000001b000000000000000203fc020000000200000085d311fc";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn event(hex: &str) -> Event {
    let bytes = bytes(hex);
    let head = Head::parse(&bytes).unwrap();
    assert_eq!((head.server, head.time_s), (1, 0x6b02_fe08 - u32::from(hex.starts_with("07"))));
    Event::parse(&head, &bytes[HEAD_BYTES..bytes.len() - 4]).unwrap()
}

fn gtid(hex: &str) -> (String, [bool; 4]) {
    match event(hex) {
        Event::Gtid { gtid, is_standalone, is_ddl, is_xa, is_transactional } => {
            (gtid.to_string(), [is_standalone, is_ddl, is_xa, is_transactional])
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_servers_own_events_are_read() {
    assert_eq!(event(GTID_LIST), Event::GtidList("0-2-4,0-1-10".parse().unwrap()));
    assert_eq!(gtid(GTID), ("0-1-11".into(), [false, false, false, true]));
    assert_eq!(gtid(GTID_DDL), ("0-1-22".into(), [true, true, false, false]));
    assert_eq!(gtid(GTID_XA), ("0-1-17".into(), [false, false, true, true]));
    assert_eq!(gtid(GTID_OF_SEQUENCE), ("0-1-20".into(), [false, false, false, false]));
    assert_eq!(event(TABLE), Event::Table { id: 24, schema: "sbtest".into(), name: "big".into() });
    let rows = |change, table, is_whole| Event::Rows { change, table, is_whole, is_compressed: false };
    assert_eq!(event(UPDATE), rows(Change::Update, 27, true));
    assert_eq!(event(UPDATE_MINIMAL), rows(Change::Update, 24, false));
    assert_eq!(event(DELETE), rows(Change::Delete, 27, true));
    assert_eq!(event(SAVEPOINT), Event::Query { schema: "sbtest".into(), text: "SAVEPOINT `s`".into() });
}

#[test]
fn the_first_event_says_whether_there_are_checksums() {
    let head = Head { time_s: 0, kind: 15, server: 1, bytes: 100 };
    let mut body = vec![4, 0];
    body.extend(b"10.11.19-MariaDB");
    body.resize(2 + 50 + 4 + 1 + 30, 0);
    for (algorithm, is_summed) in [(0, false), (1, true)] {
        let mut whole = body.clone();
        whole.extend([algorithm, 1, 2, 3, 4]);
        let event = Event::parse(&head, &whole).unwrap();
        assert_eq!(event, Event::Format { version: "10.11.19-MariaDB".into(), is_summed });
    }
}

#[test]
fn no_bytes_make_it_panic_and_a_cut_event_is_an_error_or_a_cut_text() {
    for hex in [GTID_LIST, GTID, TABLE, UPDATE, SAVEPOINT, DELETE] {
        let bytes = bytes(hex);
        let head = Head::parse(&bytes).unwrap();
        for end in HEAD_BYTES..bytes.len() {
            let _ = Event::parse(&head, &bytes[HEAD_BYTES..end]);
        }
        assert!(Event::parse(&head, &[]).is_err());
        assert!(Head::parse(&bytes[..HEAD_BYTES - 9]).is_err());
    }
    let shorter_than_its_head = bytes("08fe026ba20100000012000000b5010000080000");
    assert!(Head::parse(&shorter_than_its_head).is_err());
    proptest::proptest!(|(kind: u8, body: Vec<u8>)| {
        let head = Head { time_s: 0, kind, server: 1, bytes: 19 };
        let _ = Event::parse(&head, &body);
    });
}
