//! Where an answer ends, and what its last packet says.
//!
//! Input: the command byte, a byte that chooses the capabilities, then the server's packets as they stand on the wire (a header may
//! claim more than comes: that stands for a packet too large for an input). Checked: an answer is followed the same way
//! whether each packet is seen whole or no further than was asked for; after its end nothing is taken; what the end says is what the
//! packet says; an OK packet without its session changes is otherwise the same.

use crate::packets::{Packet, caps, lies_within, packets};
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::{Change, ErrPacket, OkPacket, status, without_track};
use protocol::packet::PAYLOAD_MAX;
use protocol::response::{Answer, End, Need, Step};

pub(crate) fn holds(input: &[u8]) {
    let [command, choice, ref stream @ ..] = *input else { return };
    let (command, caps) = (Command(command), caps(choice));
    // QUERY_ATTRIBUTES says nothing of answers: its place in the choice stands for a cursor that is asked for.
    let begin = if caps.has(Caps::QUERY_ATTRIBUTES) { Answer::with_cursor } else { Answer::new };
    let mut sparing = begin(command, caps);
    let mut lavish = sparing.clone();
    let mut continues = false;
    for packet in packets(stream) {
        // The wire has no packet that ends early; only one that is said to be as long as one can be may be shown in part.
        let len = if packet.payload.len() < packet.head.len { PAYLOAD_MAX } else { packet.head.len };
        let Packet { payload, .. } = packet;
        let need = sparing.need(len, payload.first().copied().filter(|_| len > 0));
        let shown = match need {
            Need::First => &payload[..payload.len().min(1)],
            Need::Whole => payload,
        };
        let awaited = sparing.awaits();
        let had_started = sparing.started();
        let step = sparing.step(len, shown);
        // Both fail alike, perhaps in other words.
        assert_eq!(
            step.ok(),
            lavish.step(len, payload).ok(),
            "what is seen beyond what was asked for counts"
        );
        assert_eq!(sparing.started(), lavish.started());
        assert!(sparing.started() || !had_started, "an answer that started is said not to have");
        assert!(!continues || step == Ok(Step::More), "a packet that goes on is not what it begins with");
        continues = len >= PAYLOAD_MAX;
        ok_and_err(payload, caps);
        match step {
            Err(why) => {
                let told = sparing.unfollowed(why, len, shown);
                assert!(shown.starts_with(told.first_bytes()) && told.awaited == awaited);
                return;
            }
            Ok(Step::More | Step::LocalInfile) => {}
            Ok(Step::Auth) => assert_eq!(command, Command::CHANGE_USER),
            Ok(Step::Part { status, .. }) => assert!(status & status::MORE_RESULTS != 0),
            Ok(Step::End(end)) => {
                assert!(!continues, "an end that goes on");
                assert!(
                    !sparing.opened_cursor()
                        || end.status().is_some_and(|all| all & status::CURSOR_EXISTS != 0)
                );
                says_the_same(end, payload, caps);
                for more in [&b"\0\0\0\x02\0\0\0"[..], b"\xff\x15\x04", b"\xfe\0\0\x02\0", b"\x01", b""] {
                    assert!(sparing.clone().step(more.len(), more).is_err(), "taken after the end: {more:?}");
                }
                return;
            }
        }
    }
}

fn says_the_same(end: End, payload: &[u8], caps: Caps) {
    match end {
        End::Ok { status, warnings, changed } => {
            let ok = OkPacket::parse(payload, caps).expect("an OK that ended an answer is one");
            assert_eq!((ok.status, ok.warnings, !ok.track.is_empty()), (status, warnings, changed));
        }
        End::Err { code } => {
            let err = ErrPacket::parse(payload).expect("an ERR that ended an answer is one");
            assert_eq!(err.code, code);
        }
        End::Eof { .. } => assert_eq!(payload.first(), Some(&0xFE)),
        End::Prepared { .. } | End::Text => {}
    }
}

/// Each packet is read as an OK and as an ERR, whatever it stood for.
fn ok_and_err(payload: &[u8], caps: Caps) {
    if let Ok(err) = ErrPacket::parse(payload) {
        assert!(lies_within(err.state, payload) && lies_within(err.message, payload));
        assert!(matches!(err.state.len(), 0 | 5));
    }
    let Ok(ok) = OkPacket::parse(payload, caps) else { return };
    assert!(ok.info.is_empty() || lies_within(ok.info, payload));
    assert!(ok.track.is_empty() || lies_within(ok.track, payload));
    let mut count = 0;
    for change in ok.changes() {
        count += 1;
        let inside = |text: &[u8]| text.is_empty() || lies_within(text, ok.track);
        assert!(match change {
            Ok(Change::Variable { name, value }) => inside(name) && inside(value),
            Ok(
                Change::Schema(text)
                | Change::Gtid(text)
                | Change::Characteristics(text)
                | Change::TransactionState(text),
            ) => inside(text),
            Ok(Change::StateChanged(_) | Change::Other(_)) | Err(_) => true,
        });
    }
    assert!(count <= ok.track.len(), "more changes than bytes");
    let plain = without_track(payload, caps).expect("what is read once is read again");
    // Its text may gain a length in front, and nothing else.
    assert!(plain.len() <= payload.len() + 9, "an OK grew by losing something");
    let again = OkPacket::parse(&plain, caps).expect("an OK we wrote is read");
    let status = ok.status & !status::SESSION_STATE_CHANGED;
    assert_eq!(again, OkPacket { status, track: b"", ..ok });
    assert_eq!(without_track(&plain, caps).as_ref(), Ok(&plain));
}
