//! Parameters of every type: the text that the tap gives means what the prepared statement meant.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use fixture::client::{ClientOptions, Cursor, Param, Value};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_data_is_that_of_its_own_execution() {
    let scene = Scene::new();
    let (mut reads, counts) = scene.proxy.tap().listen(Wish::default());
    let mut client = scene.client().await;
    // Fails when the inner query has several rows.
    let sql = "SELECT id, HEX(?), (SELECT id FROM v WHERE id >= ?) FROM v ORDER BY id LIMIT 1";
    let statement = client.prepare(sql).await.unwrap();
    let one_row = |value: Param| [value, Param::Int(4)];
    let mut sent = vec![];
    client.long_data(&statement, 0, b"stale").await.unwrap();
    let failed = client.execute(&statement, &[Param::Long, Param::Int(1)]).await;
    assert!(failed.error().is_some(), "{failed:?}");
    sent.push(rows(&client.execute(&statement, &one_row("inline".into())).await, "behind one that failed"));
    // Nothing but an empty piece: an empty text, and not NULL.
    client.long_data(&statement, 0, b"").await.unwrap();
    let empty = rows(&client.execute(&statement, &one_row(Param::Long)).await, "an empty piece");
    assert_eq!(empty[0][1], Value(Some(vec![])));
    sent.push(empty);
    client.long_data(&statement, 0, b"a").await.unwrap();
    client.long_data(&statement, 0, b"").await.unwrap();
    client.long_data(&statement, 0, b"b").await.unwrap();
    sent.push(rows(&client.execute(&statement, &one_row(Param::Long)).await, "an empty piece between"));
    let taken = take(&mut reads, sent.len()).await;
    let texts = texts(&taken);
    compare(&sent, &rows_on_twin(&scene, &log_of(taken).await).await, &texts);

    // Pieces that were sent while nobody listened are missing from what was heard before.
    client.long_data(&statement, 0, b"heard, ").await.unwrap();
    client.ping().await;
    drop(reads);
    while scene.proxy.tap().is_heard() {
        tokio::task::yield_now().await;
    }
    client.long_data(&statement, 0, b"not heard, ").await.unwrap();
    client.ping().await;
    let (mut reads, again) = scene.proxy.tap().listen(Wish::default());
    client.long_data(&statement, 0, b"heard again").await.unwrap();
    rows(&client.execute(&statement, &one_row(Param::Long)).await, "half heard");
    client.run("SELECT 'behind it'").await;
    assert_eq!(super::texts(&take(&mut reads, 1).await), ["SELECT 'behind it'"]);
    assert_eq!((counts.not_expressible.load(Relaxed), again.not_expressible.load(Relaxed)), (0, 1));
}

/// A parameter's type and value, by chance; `text`: what texts are made of.
fn parameter(text: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<(u16, Vec<u8>)> {
    let date = || (1u16..=9999, 1u8..=12, 1u8..=28);
    let clock = || (0u8..24, 0u8..60, 0u8..60);
    let day = |(year, month, day): (u16, u8, u8)| [&year.to_le_bytes()[..], &[month, day]].concat();
    prop_oneof![
        any::<i8>().prop_map(|number| (TINY, number.to_le_bytes().into())),
        any::<u8>().prop_map(|number| (TINY | UNSIGNED, vec![number])),
        any::<i16>().prop_map(|number| (SHORT, number.to_le_bytes().into())),
        any::<u32>().prop_map(|number| (LONG | UNSIGNED, number.to_le_bytes().into())),
        any::<i64>().prop_map(|number| (LONGLONG, number.to_le_bytes().into())),
        any::<u64>().prop_map(|number| (LONGLONG | UNSIGNED, number.to_le_bytes().into())),
        any::<f32>()
            .prop_filter("a number", |number| number.is_finite())
            .prop_map(|number| (FLOAT, number.to_le_bytes().into())),
        any::<f64>()
            .prop_filter("a number", |number| number.is_finite())
            .prop_map(|number| (DOUBLE, number.to_le_bytes().into())),
        "-?[0-9]{1,20}(\\.[0-9]{1,10})?".prop_map(|text| (NEWDECIMAL, lenenc(text.as_bytes()))),
        date().prop_map(move |date| (DATE, lenenc(&day(date)))),
        (date(), clock(), 0u32..1_000_000).prop_map(move |(date, (hour, minute, second), micros)| {
            let clock = [hour, minute, second];
            (DATETIME, lenenc(&[&day(date)[..], &clock, &micros.to_le_bytes()].concat()))
        }),
        (any::<bool>(), 0u32..34, clock(), 0u32..1_000_000).prop_map(
            |(negative, days, (hour, minute, second), micros)| {
                let clock = [hour, minute, second];
                let sign = u8::from(negative);
                let value = [&[sign][..], &days.to_le_bytes(), &clock, &micros.to_le_bytes()].concat();
                (TIME, lenenc(&value))
            }
        ),
        text.prop_map(|text| (VAR_STRING, lenenc(&text))),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| (BLOB, lenenc(&bytes))),
    ]
    .boxed()
}

fn utf8() -> BoxedStrategy<Vec<u8>> {
    let words = prop_oneof![".{0,12}", "[a'\"\\\\%_\n\r\t\0\u{1a}\u{8} \u{e4}#-]{0,12}", "-?[0-9]{1,4}"];
    words.prop_map(String::into_bytes).boxed()
}

fn latin1() -> BoxedStrategy<Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..12).boxed()
}

/// Letters of two bytes, of which the second may look like a backslash or a quote's neighbour.
fn sjis() -> BoxedStrategy<Vec<u8>> {
    let letter = prop::sample::select(vec![&b"\x83\x5C"[..], b"\x95\x5C", b"a", b"'", b"\\"]);
    proptest::collection::vec(letter, 0..6).prop_map(|letters| letters.concat()).boxed()
}

/// In each kind of session; `LITERALS_CASES` sets another number.
fn cases_by_chance() -> usize {
    std::env::var("LITERALS_CASES").map_or(120, |cases| cases.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_by_chance_give_the_same_rows_as_their_texts() {
    let scene = Scene::new();
    let (mut reads, counts) = scene.proxy.tap().listen(Wish::default());
    let (mut chance, cases) = (TestRunner::deterministic(), cases_by_chance());
    let mut answers: BTreeMap<String, Vec<Vec<Value>>> = BTreeMap::new();
    let sessions = [
        ("SET NAMES utf8mb4", utf8()),
        ("SET NAMES latin1", latin1()),
        ("SET NAMES sjis", sjis()),
        ("SET character_set_client = latin1, character_set_connection = utf8mb4", latin1()),
        ("SET sql_mode = 'ANSI_QUOTES'", utf8()),
        ("SET sql_mode = 'NO_BACKSLASH_ESCAPES'", utf8()),
    ];
    for (session, (sets, text)) in sessions.into_iter().enumerate() {
        let mut client = scene.client().await;
        assert!(client.run(sets).await.error().is_none());
        let parameters = parameter(text);
        for case in 0..cases {
            let (kind, value) = parameters.new_tree(&mut chance).unwrap().current();
            let column = ["i", "u", "d", "g", "dt", "ts", "tm", "s", "b"][case % 9];
            let number = session * cases + case;
            let sql = format!(
                "SELECT {number}, id, HEX(?), CONCAT('<',?,'>'), ? IS NULL, {column} <=>? FROM v \
                 WHERE {column}<? OR {column} IS NULL OR {column}>=? ORDER BY id"
            );
            let statement = client.prepare(&sql).await.unwrap();
            let all = vec![(kind, Some(value)); 6];
            let answer = client.execute_typed(&statement, &all).await;
            // What the server refuses is not told.
            if answer.error().is_none() {
                answers.insert(format!("SELECT {number},"), rows(&answer, &sql));
            }
            client.close(&statement).await.unwrap();
        }
    }
    let offered = counts.offered.load(Relaxed) as usize;
    assert!(offered * 10 > answers.len() * 8, "{offered} of {}: {counts:?}", answers.len());
    let taken = take(&mut reads, offered).await;
    let texts = texts(&taken);
    let again = rows_on_twin(&scene, &log_of(taken).await).await;
    for (text, again) in texts.iter().zip(&again) {
        let number = text.split_inclusive(',').next().unwrap();
        assert_eq!(&answers[number], again, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotes_that_the_server_itself_means_otherwise_are_not_told() {
    let scene = Scene::with(&["--sql-mode=ANSI_QUOTES"]);
    let (mut reads, counts) = scene.proxy.tap().listen(Wish::default());
    let mut client = scene.client().await;
    // A column there, and a text in a session of a replay.
    assert_eq!(client.one("SELECT \"id\" FROM v ORDER BY id LIMIT 1").await, "1");
    let statement = client.prepare("SELECT HEX(?)").await.unwrap();
    let reply = rows(&client.execute(&statement, &["a\"\\".into()]).await, "quotes in a parameter");
    let taken = take(&mut reads, 1).await;
    assert_eq!(
        (texts(&taken), counts.not_expressible.load(Relaxed)),
        (vec!["SELECT HEX(_utf8mb4 0x61225C)".to_owned()], 1)
    );
    assert_eq!(rows_on_twin(&scene, &log_of(taken).await).await, [reply]);
}
