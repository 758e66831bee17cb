//! Entries by their starts, and entries that are left out.

use proptest::prelude::*;
use slowlog::{
    Command, Dialect, Event, Item, Limits, Order, OrderLimits, Ordered, RateBy, Reader, Sampling, Schema,
    Start, Writer, alone,
};

const NOW_US: u64 = 1_577_934_245_000_000;
const SECOND_US: u64 = 1_000_000;

fn entry(end_us: u64, query_time_us: u64, connection: u64, sql: &[u8]) -> Event<'_> {
    Event {
        end_us,
        query_time_us,
        user: b"app",
        account: b"app",
        host: b"localhost",
        connection: Some(connection),
        schema: Schema::Own(b"shop"),
        command: Command::Statement(sql),
        ..Event::default()
    }
}

/// Entries of (end in ms from now, duration in ms, connection), in the order of the log; what comes out, by their numbers, and how many of it
/// were late.
fn ordered(dialect: Dialect, limits: OrderLimits, entries: &[(u64, u64, u64)]) -> (Vec<usize>, usize) {
    let mut writer = Writer::new(dialect);
    let mut log = Vec::new();
    for (number, (end_ms, took_ms, connection)) in entries.iter().enumerate() {
        let sql = format!("SELECT {number}");
        writer.write(&entry(NOW_US + end_ms * 1_000, took_ms * 1_000, *connection, sql.as_bytes()), &mut log);
    }
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    reader.feed(&log);
    reader.finish();
    let mut order = Order::new(limits);
    let (mut given, mut late) = (Vec::new(), 0);
    let mut take = |order: &mut Order<usize>| {
        while let Some(next) = order.next() {
            given.push(next.what);
            late += usize::from(next.is_late);
        }
    };
    let mut number = 0;
    while let Some(item) = reader.next() {
        let Item::Event(event) = item else { panic!("{item:?}") };
        order.push(&event, number);
        number += 1;
        take(&mut order);
        assert!(order.held().0 <= limits.events_max && order.held().1 <= limits.bytes_max);
    }
    order.finish();
    take(&mut order);
    assert_eq!(given.len(), entries.len());
    (given, late)
}

#[test]
fn a_long_statement_comes_before_those_that_began_after_it() {
    // It began at 0 and ended at 5 s; the others ran meanwhile.
    let log = [(1_000, 1, 1), (2_000, 1, 2), (3_000, 1, 1), (5_000, 5_000, 3), (6_000, 1, 1)];
    let (given, late) = ordered(Dialect::MySql57, OrderLimits::default(), &log);
    assert_eq!((given, late), (vec![3, 0, 1, 2, 4], 0));
    let (given, ..) = ordered(Dialect::MariaDb, OrderLimits::default(), &log);
    assert_eq!(given, [3, 0, 1, 2, 4], "with whole seconds, too");
}

#[test]
fn with_whole_seconds_short_statements_keep_the_order_of_their_ends() {
    // The first ended before the second, which took longer, began.
    let log = [(100, 1, 1), (700, 500, 2), (900, 10, 1)];
    let (given, ..) = ordered(Dialect::MariaDb, OrderLimits::default(), &log);
    assert_eq!(given, [0, 1, 2]);
}

#[test]
fn what_took_longer_than_the_window_is_late_and_counted() {
    let limits = OrderLimits { window_us: SECOND_US, ..OrderLimits::default() };
    let log = [(1_000, 1, 1), (2_000, 1, 1), (3_000, 1, 1), (4_000, 1, 1), (4_500, 4_500, 3), (6_000, 1, 1)];
    let (given, late) = ordered(Dialect::MySql57, limits, &log);
    assert_eq!(late, 1);
    assert!(given.iter().position(|number| *number == 4) > given.iter().position(|number| *number == 0));
}

#[test]
fn an_entry_with_a_time_of_its_own_changes_nothing_for_the_others() {
    // SET timestamp in a session: MariaDB logs its statements under that time.
    let (past, future) = (0, 4_000_000_000);
    let log = [
        (50_000, 1, 1),
        (past, 1, 9),
        (50_100, 1, 1),
        (future, 1, 9),
        (52_000, 1_500, 2),
        (52_100, 1, 1),
        (53_000, 1, 1),
    ];
    let (given, ..) = ordered(Dialect::MySql57, OrderLimits::default(), &log);
    let place = |number| given.iter().position(|given| *given == number).unwrap();
    assert!(
        place(0) < place(2) && place(2) < place(4) && place(4) < place(5) && place(5) < place(6),
        "{given:?}"
    );
}

proptest! {
    #[test]
    fn what_fits_into_the_window_is_in_order_and_each_session_always_is(
        statements in proptest::collection::vec((0u64..4, 0u64..900, 0u64..3_000), 1..80),
        dialect in proptest::sample::select(&[Dialect::MariaDb, Dialect::MySql56, Dialect::MySql57][..]),
        is_bounded in any::<bool>(),
    ) {
        // Four sessions, each of which runs one statement after another.
        let mut free = [0u64; 4];
        let mut log = Vec::new();
        for (session, pause_ms, took_ms) in statements {
            let start = free[session as usize] + pause_ms;
            free[session as usize] = start + took_ms;
            log.push((start + took_ms, took_ms, session));
        }
        log.sort_by_key(|(end, ..)| *end);
        let limits = OrderLimits { events_max: if is_bounded { 5 } else { 100_000 }, ..OrderLimits::default() };
        let (given, late) = ordered(dialect, limits, &log);
        let start = |number: &usize| log[*number].0 - log[*number].1;
        for session in 0..4 {
            let own: Vec<u64> = given.iter().filter(|number| log[**number].2 == session).map(start).collect();
            prop_assert!(own.is_sorted(), "{own:?}");
        }
        if !is_bounded {
            prop_assert_eq!(late, 0);
            if dialect == Dialect::MySql57 {
                let starts: Vec<u64> = given.iter().map(start).collect();
                prop_assert!(starts.is_sorted(), "{starts:?}");
            }
        }
    }
}

#[test]
fn whatever_times_single_sessions_have_the_log_goes_on() {
    // Each: the share of entries of other times, in percent, the sessions that have them, and how far off they are, in seconds.
    for (percent, sessions, off_s) in [
        (1, 1, 900_000_000),
        (50, 1, i64::MAX / 2_000_000),
        (50, 1, 900_000_000),
        (50, 1, -900_000_000),
        (90, 1, 900_000_000),
        (90, 9, 900_000_000),
        (100, 1, -7_200),
    ] {
        let mut writer = Writer::new(Dialect::MySql57);
        let (mut log, mut random) = (Vec::new(), 5_u64);
        for number in 0..3_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = random >> 33;
            // Before and behind it all is well.
            let is_other = (1_000..2_000).contains(&number) && draw % 100 < percent;
            let now_us = NOW_US + number * 10_000;
            let end_us = if is_other { now_us.saturating_add_signed(off_s * 1_000_000) } else { now_us };
            let connection = if is_other { 100 + draw % sessions } else { draw % 4 };
            let took_us = if number % 500 == 499 { u64::MAX / 2 } else { 100 };
            writer.write(&entry(end_us, took_us, connection, b"SELECT 1"), &mut log);
        }
        let mut reader = Reader::new(Limits::default(), Start::Whole);
        reader.feed(&log);
        reader.finish();
        let mut order = Order::new(OrderLimits { window_us: SECOND_US, ..OrderLimits::default() });
        let (mut given, mut late) = (0, 0);
        let mut first_us = None;
        while let Some(item) = reader.next() {
            let Item::Event(event) = item else { panic!("{item:?}") };
            order.push(&event, ());
            while let Some(Ordered { times, is_late, .. }) = order.next() {
                given += 1;
                late += usize::from(is_late);
                let first_us = *first_us.get_or_insert(times.order_us);
                let name = format!("{percent} % of {sessions} sessions by {off_s} s, at {given}");
                // 30 s of a log are as long, and nothing in it lags behind.
                assert!(times.order_us - first_us < 60 * SECOND_US, "{name}: {times:?}");
                assert!(order.clock().now_us() - times.end_us <= 11 * SECOND_US, "{name}: {times:?}");
                assert_eq!(times.query_time_us % 100, 0, "{name}");
            }
        }
        order.finish();
        while let Some(Ordered { is_late, .. }) = order.next() {
            given += 1;
            late += usize::from(is_late);
        }
        assert_eq!((given, late), (3_000, 0));
        assert!(order.clock().corrected() >= 6, "{}", order.clock().corrected());
    }
}

#[test]
fn a_sample_says_for_how_many_each_stands_and_a_session_is_whole() {
    let mut writer = Writer::new(Dialect::MariaDb);
    let mut log = Vec::new();
    for number in 0..4_000u64 {
        let schema: &[u8] = if number % 3 == 0 { b"shop" } else { b"store" };
        writer.write(
            &Event {
                schema: Schema::Own(schema),
                ..entry(NOW_US + number * 1_000, 10, number % 400, b"SELECT 1")
            },
            &mut log,
        );
    }
    for by in [RateBy::Event, RateBy::Session] {
        let sample = sampled(&log, by, 10);
        let mut reader = Reader::new(Limits::default(), Start::Whole);
        reader.feed(&sample);
        reader.finish();
        let (mut stands_for, mut connections) = (0, std::collections::BTreeMap::new());
        while let Some(item) = reader.next() {
            let Item::Event(event) = item else { panic!("{item:?}") };
            let rate = event.rate.unwrap();
            assert_eq!(rate.by, by);
            stands_for += rate.one_in;
            *connections.entry(event.connection.unwrap()).or_insert(0) += 1;
            assert_eq!(event.end_us / SECOND_US * SECOND_US, event.end_us);
        }
        match by {
            RateBy::Event => assert_eq!(stands_for, 4_000),
            RateBy::Session => {
                assert!(connections.values().all(|count| *count == 10), "each session is whole");
                assert!((2_000..6_000).contains(&stands_for), "{stands_for}");
            }
        }
        // A sample of a sample.
        let again = sampled(&sample, by, 2);
        let mut reader = Reader::new(Limits::default(), Start::Whole);
        reader.feed(&again);
        assert!(matches!(reader.next(), Some(Item::Event(event)) if event.rate.unwrap().one_in == 20));
    }
}

fn sampled(log: &[u8], by: RateBy, one_in: u64) -> Vec<u8> {
    let mut sampling = Sampling::new(by, one_in);
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    reader.feed(log);
    reader.finish();
    let mut out = Vec::new();
    while let Some(item) = reader.next() {
        let Item::Event(event) = item else { panic!("{item:?}") };
        if sampling.keeps(&event) {
            alone::write(&event, sampling.rate(&event), b"", &mut out);
        }
    }
    out
}

#[test]
fn a_time_that_stands_still_does_not_stop_a_log_of_two_connections() {
    for still_us in [NOW_US - 900_000_000 * SECOND_US, NOW_US + 900_000_000 * SECOND_US] {
        let mut writer = Writer::new(Dialect::MariaDb);
        let mut log = Vec::new();
        for number in 0..2_000 {
            // The client with a time of its own is the first, and runs as many as the other.
            let (end_us, connection) =
                if number % 2 == 0 { (still_us, 9) } else { (NOW_US + number * 100_000, 1) };
            writer.write(&entry(end_us, 100, connection, b"SELECT 1"), &mut log);
        }
        let mut reader = Reader::new(Limits::default(), Start::Whole);
        reader.feed(&log);
        let mut order = Order::new(OrderLimits { window_us: SECOND_US, ..OrderLimits::default() });
        let mut held_max = 0;
        while let Some(item) = reader.next() {
            let Item::Event(event) = item else { panic!("{item:?}") };
            order.push(&event, ());
            while let Some(next) = order.next() {
                assert!(order.clock().now_us() - next.times.end_us <= 11 * SECOND_US, "{next:?}");
            }
            held_max = held_max.max(order.held().0);
        }
        assert!(held_max < 300, "{held_max} are held back");
    }
}
