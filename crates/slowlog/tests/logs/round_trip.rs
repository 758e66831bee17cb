//! Logs that are written, cut anywhere, and read back.

use proptest::prelude::*;
use slowlog::{
    Clock, Command, Dialect, Event, Item, Limits, Rate, RateBy, Reader, Rows, Schema, Start, Why, Writer,
};

/// What was written, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    end_us: u64,
    query_time_us: u64,
    lock_time_us: u64,
    user: Vec<u8>,
    connection: u64,
    schema: Vec<u8>,
    rows: (u64, u64),
    insert_id: Option<u64>,
    rate: Option<Rate>,
    sql: Option<Vec<u8>>,
    administrator: Option<Vec<u8>>,
}

impl Row {
    fn entry(&self) -> Event<'_> {
        let command = match (&self.sql, &self.administrator) {
            (Some(sql), _) => Command::Statement(sql),
            (None, Some(word)) => Command::Administrator(word),
            (None, None) => Command::Nothing,
        };
        Event {
            end_us: self.end_us,
            query_time_us: self.query_time_us,
            lock_time_us: self.lock_time_us,
            user: &self.user,
            account: &self.user,
            host: b"localhost",
            address: b"127.0.0.1",
            connection: Some(self.connection),
            schema: Schema::Own(&self.schema),
            rows: Rows { sent: Some(self.rows.0), examined: Some(self.rows.1), affected: None },
            insert_id: self.insert_id,
            rate: self.rate,
            command,
            ..Event::default()
        }
    }

    /// What a reader can know of it.
    fn is_read_as(&self, event: &Event<'_>, dialect: Dialect) {
        assert_eq!(event.dialect, dialect);
        assert_eq!(event.command, self.entry().command);
        assert_eq!((event.user, event.account), (&self.user[..], &self.user[..]));
        assert_eq!(event.query_time_us, self.query_time_us);
        assert_eq!(event.lock_time_us, self.lock_time_us);
        assert_eq!(event.connection, (dialect != Dialect::MySql55).then_some(self.connection));
        assert_eq!((event.rows.sent, event.rows.examined), (Some(self.rows.0), Some(self.rows.1)));
        assert_eq!((event.insert_id, event.rate), (self.insert_id, self.rate));
        assert!(!event.is_cut);
        let is_exact = matches!(dialect, Dialect::MySql57 | Dialect::Percona);
        assert_eq!(event.clock, if is_exact { Clock::Exact } else { Clock::EndSecond });
        assert_eq!(event.end_us, if is_exact { self.end_us } else { self.end_us / 1_000_000 * 1_000_000 });
        match event.schema {
            Schema::Own(name) => assert_eq!(name, self.schema),
            Schema::Used(name) => assert_eq!(name, self.schema),
            // A session without a schema looks like one that has that of the entry before.
            Schema::Carried(name) => assert!(self.schema.is_empty() || name == self.schema),
            Schema::Unknown => assert!(self.schema.is_empty()),
        }
    }
}

const DIALECTS: [Dialect; 5] =
    [Dialect::MariaDb, Dialect::MySql55, Dialect::MySql56, Dialect::MySql57, Dialect::Percona];

/// A whole entry, as somebody may have put it into a string.
const QUOTED_ENTRY: &str = "x;\n# Time: 200102  3:04:05\n# User@Host: root[root] @ localhost []\n# Thread_id: 5  Schema: shop  QC_hit: No\n\
    # Query_time: 0.1  Lock_time: 0.0  Rows_sent: 1  Rows_examined: 0\nSET timestamp=1577934245;\nDROP TABLE t;\n";

/// A statement in which every quote is closed, and no head stands outside of quotes.
fn sql() -> impl Strategy<Value = Vec<u8>> {
    let text = |text: &'static str| Just(text.as_bytes().to_vec()).boxed();
    let part = prop_oneof![
        text("SELECT 1"),
        text("\nFROM t\n"),
        text(";\n"),
        text("\n# Time: 200102  3:04:05\n"),
        text("\n# User@Host: me[me] @ here []\n"),
        text("\n# it's a comment\n"),
        text("\n-- don't\n"),
        text("/* it's\n# Time: 1 */"),
        text("/*!50000 'a' */"),
        text("'# administrator command: Quit;\n'"),
        text("'a\\'b''c\\\\'"),
        text("\"\n# Query_time: 1  Lock_time: 2\n\""),
        text("`# User@Host: `"),
        text("SET timestamp=5;\n"),
        text("use other;\n"),
        Just(format!("'{QUOTED_ENTRY}'").into_bytes()),
        Just(format!("\"{QUOTED_ENTRY}{QUOTED_ENTRY}\"").into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|mut bytes| {
            bytes.retain(|byte| !b"'\"`/#-\\*\n".contains(byte));
            [b"_binary'".as_slice(), &bytes, b"'"].concat()
        }),
    ];
    proptest::collection::vec(part, 1..8).prop_map(|parts| [b"SELECT ".to_vec(), parts.concat()].concat())
}

fn row() -> impl Strategy<Value = Row> {
    let command = prop_oneof![
        8 => sql().prop_map(|sql| (Some(sql), None)),
        1 => prop_oneof![Just("Quit"), Just("Init DB")].prop_map(|word| (None, Some(word.as_bytes().to_vec()))),
        1 => Just((None, None)),
    ];
    let schema = prop_oneof![Just(""), Just("shop"), Just("my db"), Just("a;b")];
    let times = (1_577_934_245_000_000u64..1_577_934_250_000_000, 0u64..20_000_000, 0u64..1_000);
    let ids = (1u64..5, proptest::option::of(1u64..9), proptest::option::of(2u64..9));
    (times, ids, schema, "[a-z\\[\\]]{0,6}", (0u64..100, 0u64..100), command).prop_map(
        |(
            (end_us, query_time_us, lock_time_us),
            (connection, insert_id, rate),
            schema,
            user,
            rows,
            (sql, administrator),
        )| Row {
            end_us,
            query_time_us,
            lock_time_us,
            user: user.into_bytes(),
            connection,
            schema: schema.as_bytes().to_vec(),
            rows,
            insert_id,
            rate: rate.map(|one_in| Rate { by: RateBy::Session, one_in }),
            sql,
            administrator,
        },
    )
}

fn written(rows: &[Row], dialect: Dialect, banner_before: usize) -> Vec<u8> {
    let mut writer = Writer::new(dialect);
    let mut log = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if at == banner_before {
            writer.banner(&mut log);
        }
        writer.write(&row.entry(), &mut log);
    }
    log
}

/// Feeds a log in pieces, and hands over each item. All of it must come out again.
fn read(
    log: &[u8],
    pieces: &[usize],
    start: Start,
    limits: Limits,
    mut each: impl FnMut(&Item<'_>),
) -> Reader {
    let mut reader = Reader::new(limits, start);
    let mut at = 0u64;
    let mut take = |reader: &mut Reader| {
        while let Some(item) = reader.next() {
            assert_eq!(item.offset(), at);
            assert_eq!(item.bytes(), &log[at as usize..at as usize + item.bytes().len()]);
            at += item.bytes().len() as u64;
            each(&item);
        }
    };
    let mut left = log;
    let mut nth = 0;
    while !left.is_empty() {
        let length = pieces[nth % pieces.len()].clamp(1, left.len());
        nth += 1;
        reader.feed(&left[..length]);
        take(&mut reader);
        left = &left[length..];
    }
    reader.finish();
    take(&mut reader);
    assert_eq!(at, log.len() as u64);
    assert_eq!(reader.pending_bytes(), 0);
    reader
}

/// All that does not depend on how the log was cut: neighbours that were not parsed for one reason are one.
fn outline(log: &[u8], pieces: &[usize], start: Start, limits: Limits) -> Vec<String> {
    let mut all: Vec<(String, String)> = Vec::new();
    read(log, pieces, start, limits, |item| match item {
        Item::Event(event) => {
            all.push(("event".to_owned(), format!("{} {}", event.offset, event.bytes.escape_ascii())))
        }
        Item::Banner { offset, .. } => all.push(("banner".to_owned(), format!("{offset}"))),
        Item::Unparsed { offset, why, .. } => {
            let why = format!("{why:?}");
            if all.last().is_none_or(|(last, _)| *last != why) {
                all.push((why, format!("{offset}")));
            }
        }
    });
    all.into_iter().map(|(kind, what)| kind + &what).collect()
}

proptest! {
    #[test]
    fn what_was_written_is_read_wherever_the_log_is_cut(
        rows in proptest::collection::vec(row(), 1..12),
        dialect in proptest::sample::select(&DIALECTS[..]),
        banner in 0usize..14,
        pieces in proptest::collection::vec(1usize..200, 1..6),
    ) {
        let log = written(&rows, dialect, banner);
        let mut nth = 0;
        let reader = read(&log, &pieces, Start::Whole, Limits::default(), |item| match item {
            Item::Event(event) => {
                // The last has nothing behind it.
                let is_cut_short = nth + 1 == rows.len() && rows[nth].entry().command == Command::Nothing;
                let is_before_banner = nth + 1 == banner && rows[nth].entry().command == Command::Nothing;
                if !is_cut_short && !is_before_banner {
                    rows[nth].is_read_as(event, dialect);
                }
                nth += 1;
            }
            Item::Banner { .. } => assert_eq!(nth, banner),
            Item::Unparsed { bytes, why, .. } => panic!("{why:?}: {} of {}", bytes.escape_ascii(), log.escape_ascii()),
        });
        assert_eq!(nth, rows.len(), "{}", log.escape_ascii());
        assert_eq!(reader.counts().events, rows.len() as u64);
    }

    #[test]
    fn from_the_middle_whole_entries_are_read(
        rows in proptest::collection::vec(row(), 2..12),
        dialect in proptest::sample::select(&DIALECTS[..]),
        from in any::<proptest::sample::Index>(),
        pieces in proptest::collection::vec(1usize..200, 1..6),
    ) {
        // Entries that quote a whole log are another test's.
        let is_plain = |row: &Row| row.sql.as_ref().is_none_or(|sql| !String::from_utf8_lossy(sql).contains("DROP TABLE"));
        let rows: Vec<Row> = rows.into_iter().filter(is_plain).collect();
        prop_assume!(!rows.is_empty());
        let log = written(&rows, dialect, usize::MAX);
        let from = from.index(log.len());
        let mut whole = Vec::new();
        read(&log, &[log.len()], Start::Whole, Limits::default(), |item| {
            if let Item::Event(event) = item {
                whole.push((event.offset, event.bytes.to_vec()));
            }
        });
        let mut seen = Vec::new();
        read(&log[from..], &pieces, Start::Middle, Limits::default(), |item| match item {
            Item::Event(event) => seen.push((event.offset + from as u64, event.bytes.to_vec())),
            Item::Banner { .. } => {}
            Item::Unparsed { why, .. } => assert_eq!(*why, Why::Before),
        });
        // MariaDB writes the time line once a second: an entry of which it was cut off is still whole without it.
        let bytes: Vec<_> = whole.iter().filter(|(offset, _)| *offset > from as u64).cloned().collect();
        assert!(seen.ends_with(&bytes[bytes.len().saturating_sub(seen.len())..]), "{seen:?}\n{bytes:?}");
        assert!(seen.len() + 1 >= bytes.len(), "{} of {} from {from}: {}", seen.len(), bytes.len(), log.escape_ascii());
    }

    #[test]
    fn the_items_are_the_same_however_a_log_is_cut(
        rows in proptest::collection::vec(row(), 1..8),
        dialect in proptest::sample::select(&DIALECTS[..]),
        noise in proptest::collection::vec((any::<proptest::sample::Index>(), proptest::sample::select(&b"'\"`;\n#/*-\\ x"[..])), 0..6),
        cut in any::<proptest::sample::Index>(),
        pieces in proptest::collection::vec(1usize..90, 1..6),
        limits in (20usize..4_000, 20usize..2_000, 20usize..2_000),
        start in proptest::sample::select(&[Start::Whole, Start::Middle][..]),
    ) {
        let mut log = written(&rows, dialect, 3);
        for (place, byte) in noise {
            let at = place.index(log.len());
            log[at] = byte;
        }
        log.truncate(cut.index(log.len() + 1));
        let (event_bytes_max, head_bytes_max, doubt_bytes_max) = limits;
        let limits = Limits { event_bytes_max, head_bytes_max, doubt_bytes_max };
        assert_eq!(outline(&log, &pieces, start, limits), outline(&log, &[usize::MAX], start, limits), "{}", log.escape_ascii());
    }
}
