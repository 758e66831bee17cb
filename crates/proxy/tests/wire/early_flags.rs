//! What a client that reads EOF packets is told by the one behind the columns, while nobody knows yet how the result ends. If it ends with an
//! error, which has no flags, this is the last word on the transaction: one that may be open must not be left out. All its other packets are the
//! server's own.

use fixture::answers;
use fixture::client::{Client, ClientOptions};
use fixture::scripted::{Act, Heard, ScriptedNode};
use harness::cluster::Cluster;
use harness::fact_answerer::Kept;
use harness::settings;
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::EOF;
use protocol::ok::status::{AUTOCOMMIT, IN_TRANS, MORE_RESULTS, PS_OUT_PARAMS, SESSION_STATE_CHANGED};
use protocol::packet::{HEADER_LEN, Head, put_packet};
use protocol::response::{Answer, Step};

const AUTOCOMMIT_OFF: &str = "DO 'autocommit off'";
/// The command, and the flags of its first EOF packet.
const CASES: [(&str, &[u8], u16); 5] = [
    ("DO 'autocommit on'", b"\x03SELECT a FROM t", AUTOCOMMIT),
    ("DO 'autocommit on'", b"\x03CALL p()", AUTOCOMMIT | IN_TRANS | MORE_RESULTS),
    (AUTOCOMMIT_OFF, b"\x03SELECT a FROM t", IN_TRANS),
    (AUTOCOMMIT_OFF, b"\x03CALL p()", IN_TRANS | MORE_RESULTS),
    // It has no rows that could end in another way, and opens nothing.
    (AUTOCOMMIT_OFF, b"\x16SELECT a FROM t WHERE a > ?", 0),
];

fn payloads(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut out, mut at) = (vec![], 0);
    while let Some(head) = bytes.get(at..).and_then(Head::peek) {
        out.push(&bytes[at + HEADER_LEN..at + HEADER_LEN + head.len]);
        at += HEADER_LEN + head.len;
    }
    out
}

/// A result whose end is still to come; or a prepared statement with a parameter and a column.
fn script(heard: Heard<'_>) -> Vec<Act> {
    let result = heard.rows(&["a"], &[&["1"]]);
    let result = payloads(&result);
    let (column, without_end) = (result[1], &result[..3]);
    let prepared = [&b"\x00\x01\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00"[..], column, column];
    let said = match (heard.text(), heard.command().first()) {
        (Some(AUTOCOMMIT_OFF), _) => return vec![Act::Say(answers::ok_with(0))],
        (Some(text), _) if text.starts_with("SELECT") || text.starts_with("CALL") => without_end,
        (None, Some(0x16)) => &prepared,
        _ => return vec![Act::Say(answers::ok())],
    };
    let (mut bytes, mut seq) = (vec![], 1);
    for payload in said {
        put_packet(&mut bytes, &mut seq, payload);
    }
    vec![Act::Say(bytes)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_may_be_open_is_told_before_the_rows() {
    let node = ScriptedNode::start(script).await;
    let kept = Kept::start(settings(), &[node.address()], false);
    for (before, command, flags) in CASES {
        let case = format!("{before}; {}", command.escape_ascii());
        let options = ClientOptions::default();
        assert!(!options.caps.has(Caps::DEPRECATE_EOF));
        let mut client = Client::connect_as(kept.address(), &options).await.unwrap();
        client.run(before).await;
        client.send(0, command).await.unwrap();
        let eof = loop {
            let packet = client.packet().await.unwrap_or_else(|part| panic!("{case}: {part:?}"));
            if packet.first() == Some(&EOF) {
                break packet;
            }
        };
        let told = u16::from_le_bytes([eof[3], eof[4]]);
        assert_eq!(told, flags, "{case}: {told:#x}, and not {flags:#x}");
    }
}

/// Every packet of an answer, with the flags of its EOF packets that must be the server's own.
async fn packets(client: &mut Client, payload: &[u8]) -> Vec<Vec<u8>> {
    client.send(0, payload).await.unwrap();
    let mut answer = Answer::new(Command(payload[0]), client.caps);
    let mut packets = vec![];
    loop {
        let mut packet = client.packet().await.unwrap();
        let step = answer.step(packet.len(), &packet).unwrap();
        if let [EOF, _, _, low, high] = packet.as_mut_slice() {
            let kept = match step {
                // Behind columns: what a client must know before the rows.
                Step::More => PS_OUT_PARAMS | MORE_RESULTS,
                // A server says "changed" to a client that cannot be told what.
                _ => !SESSION_STATE_CHANGED,
            };
            [*low, *high] = (u16::from_le_bytes([*low, *high]) & kept).to_le_bytes();
        }
        packets.push(packet);
        if let Step::End(_) = step {
            return packets;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_packet_to_an_old_client_is_the_servers_own() {
    let cluster = Cluster::start(1);
    cluster.everywhere(
        "USE shop; CREATE TABLE plain (x INT); INSERT INTO plain VALUES (1), (2);
         DELIMITER //
         CREATE PROCEDURE lists() BEGIN SET @a = 'set'; SELECT x FROM plain; SET time_zone = '+09:00'; SELECT 5; END//
         CREATE PROCEDURE gives(OUT x INT) BEGIN SELECT x FROM plain; SET x = 7; END//
         DELIMITER ;",
    );
    let mut direct = Client::connect(cluster.here().address()).await;
    let mut client = cluster.client().await;
    for payload in [
        &b"\x03SELECT 1"[..],
        b"\x03SELECT x FROM plain",
        b"\x03SELECT 1; SELECT x FROM plain; DO 0",
        b"\x03CALL lists()",
        b"\x03SELECT x FROM plain WHERE x = (SELECT 1 UNION SELECT 2)",
        b"\x04plain\0",
        b"\x04nosuch\0",
        b"\x16SELECT ?, x FROM plain",
        b"\x16SELECT x FROM plain",
        b"\x16DO ?",
        b"\x16DO 0",
        b"\x16CALL gives(?)",
        // the one before: one parameter, NULL
        b"\x17\xff\xff\xff\xff\x00\x01\x00\x00\x00\x01\x01\x06\x00",
    ] {
        let (told, own) = (packets(&mut client, payload).await, packets(&mut direct, payload).await);
        assert_eq!(told, own, "{}", payload.escape_ascii());
    }
}
