//! Parameters of every type: the text that the tap gives means what the prepared statement meant.

use std::sync::atomic::Ordering::Relaxed;

use fixture::client::{ClientOptions, Cursor, Param};
use proxy::Wish;
use warmup::replay::Sessions;

use super::scene::Scene;
use super::{PATIENCE, compare, log_of, replayed, rows, rows_on_twin, take, texts};

const DECIMAL: u16 = 0;
const TINY: u16 = 1;
const SHORT: u16 = 2;
const LONG: u16 = 3;
const FLOAT: u16 = 4;
const DOUBLE: u16 = 5;
const TIMESTAMP: u16 = 7;
const LONGLONG: u16 = 8;
const DATE: u16 = 10;
const TIME: u16 = 11;
const DATETIME: u16 = 12;
const VARCHAR: u16 = 15;
const NEWDECIMAL: u16 = 246;
const TINY_BLOB: u16 = 249;
const LONG_BLOB: u16 = 251;
const BLOB: u16 = 252;
const VAR_STRING: u16 = 253;
const STRING: u16 = 254;
const UNSIGNED: u16 = 0x8000;

/// With its length before it.
fn lenenc(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8][..], bytes].concat()
}

/// A type, a value, and the column that has it.
fn cases() -> Vec<(u16, Vec<u8>, &'static str)> {
    vec![
        (TINY, vec![0x80], "i"),
        (TINY | UNSIGNED, vec![7], "u"),
        (SHORT, vec![7, 0], "i"),
        (LONG, (-128i32).to_le_bytes().into(), "i"),
        (LONGLONG, i64::MIN.to_le_bytes().into(), "i"),
        (LONGLONG | UNSIGNED, u64::MAX.to_le_bytes().into(), "u"),
        (FLOAT, 7f32.to_le_bytes().into(), "g"),
        (DOUBLE, 1e300f64.to_le_bytes().into(), "g"),
        (DOUBLE, (-0.1f64).to_le_bytes().into(), "g"),
        (NEWDECIMAL, lenenc(b"12345678901234.5678"), "d"),
        (NEWDECIMAL, lenenc(b"-12.5"), "d"),
        (DATE, vec![4, 0xE8, 7, 2, 29], "dt"),
        (DATE, vec![0], "dt"),
        (DATETIME, vec![11, 0xE8, 7, 2, 29, 1, 2, 3, 0x40, 0xE2, 1, 0], "ts"),
        (DATETIME, vec![0], "ts"),
        (TIMESTAMP, vec![7, 0xCF, 7, 12, 31, 23, 59, 59], "ts"),
        (TIME, vec![8, 1, 1, 0, 0, 0, 2, 3, 4], "tm"),
        (TIME, vec![8, 0, 34, 0, 0, 0, 22, 59, 59], "tm"),
        (TIME, vec![12, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], "tm"),
        (VAR_STRING, lenenc(b"it's"), "s"),
        (STRING, lenenc("\u{e4}\u{f6}".as_bytes()), "s"),
        (VAR_STRING, lenenc(b"a\\b\n\"c"), "s"),
        (VAR_STRING, lenenc(b""), "b"),
        (VAR_STRING, lenenc(b"7"), "i"),
        (VARCHAR, lenenc(b"it's"), "s"),
        (DECIMAL, lenenc(b"0"), "d"),
        (TINY_BLOB, lenenc(b"\x00'"), "b"),
        (LONG_BLOB, lenenc(b"\x00'"), "b"),
        (BLOB, lenenc(b"\x00'"), "b"),
        (BLOB, lenenc(b"\xFF\\"), "b"),
        (BLOB, lenenc(b""), "b"),
        (BLOB, lenenc(b"7"), "i"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_reads_are_told_as_texts_that_give_the_same_rows() {
    let scene = Scene::new();
    let mut client = scene.client().await;
    let long = client.prepare("SELECT id, LENGTH(?), HEX(?) FROM v WHERE b = ?").await.unwrap();
    // Its first piece is sent while nobody listens.
    client.long_data(&long, 0, b"too early").await.unwrap();
    client.ping().await;
    let (mut reads, counts) = scene.proxy.tap().listen(Wish::default());
    let mut sent = vec![];
    client.long_data(&long, 0, b" for this").await.unwrap();
    let params = [Param::Long, Param::Int(5), Param::Text(b"".into())];
    rows(&client.execute(&long, &params).await, "long data, half heard");
    client.long_data(&long, 0, b"in \x00 two ").await.unwrap();
    client.long_data(&long, 0, b"'pieces'").await.unwrap();
    sent.push(rows(&client.execute(&long, &params).await, "long data"));
    for (kind, value, column) in cases() {
        // A moment of zeros is told as a text: see `as_text`.
        let function = if value == [0] { "LENGTH" } else { "CHARSET" };
        let text = format!(
            "SELECT id, HEX(?), CONCAT('<', ?, '>'), {function}(?), ? IS NULL FROM v WHERE {column} <=>? ORDER BY id LIMIT ?"
        );
        let statement = client.prepare(&text).await.unwrap();
        let param = (kind, Some(value.clone()));
        let null = (kind, None);
        let limit = (LONGLONG, Some(9i64.to_le_bytes().to_vec()));
        let all = [&param, &param, &param, &null, &param, &limit].map(Clone::clone);
        let reply = rows(&client.execute_typed(&statement, &all).await, &text);
        assert!(!reply.is_empty(), "type {kind} in {column} finds nothing: the test tests nothing");
        sent.push(reply);
        client.close(&statement).await.unwrap();
    }
    // Types told once hold for the next time, and a cursor's read is a read.
    let again = client.prepare("SELECT id FROM v WHERE id > ? ORDER BY id LIMIT ?").await.unwrap();
    sent.push(rows(&client.execute(&again, &[1.into(), "2".into()]).await, "limit as text"));
    let reply = client.execute_with(&again, &[2.into(), "9".into()], Cursor::None, false).await;
    sent.push(rows(&reply, "types told before"));
    // Bound to the schema of its preparation.
    client.run("USE other").await;
    sent.push(rows(&client.execute(&again, &[0.into(), "1".into()]).await, "in another schema"));
    // Under other settings than it is run: no text says that.
    client.run("SET sql_mode = ''").await;
    rows(&client.execute(&again, &[0.into(), "1".into()]).await, "bound otherwise");
    let german = ClientOptions { charset: 8, ..ClientOptions::default() };
    let mut german = scene.client_as(&german).await;
    let by_name = german.prepare(b"SELECT id, HEX(?) FROM v WHERE s LIKE ?").await.unwrap();
    let params = [Param::Text(b"\xE4".into()), Param::Text(b"\xE4%".into())];
    let reply = rows(&german.execute(&by_name, &params).await, "latin1");
    assert!(!reply.is_empty());
    sent.push(reply);

    let taken = take(&mut reads, sent.len()).await;
    let texts = texts(&taken);
    assert_eq!(counts.not_expressible.load(Relaxed), 2, "{counts:?}");
    let bytes = log_of(taken).await;
    compare(&sent, &rows_on_twin(&scene, &bytes).await, &texts);
    let figures = replayed(&scene, &bytes, Sessions::PerConnection { idle_max: PATIENCE }).await;
    assert_eq!(figures.executed.load(Relaxed), sent.len() as u64);
}
