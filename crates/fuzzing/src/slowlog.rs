//! A slow log, in pieces.
//!
//! Input: a byte that chooses where reading begins and how small the limits are, one for how the log is cut into pieces, then the log. Checked: nothing
//! panics; the bytes of all items are those of the log, with their offsets; items are the same however the log is cut; an entry's parts lie
//! within it; an entry that stands alone is read as itself; what is kept is bounded; whatever is read, order gives all of it out.

use crate::packets::lies_within;
use slowlog::{
    Command, Event, Item, Limits, Order, OrderLimits, RateBy, Reader, Sampling, Start, Why, alone,
};

pub(crate) fn holds(input: &[u8]) {
    let [choice, cut, log @ ..] = input else { return };
    let start = if choice & 1 == 0 { Start::Whole } else { Start::Middle };
    let limits = match choice >> 1 & 3 {
        0 => Limits::default(),
        1 => Limits { event_bytes_max: 300, head_bytes_max: 250, doubt_bytes_max: 100 },
        2 => Limits { event_bytes_max: 60, head_bytes_max: 500, doubt_bytes_max: 400 },
        _ => Limits { doubt_bytes_max: 0, ..Limits::default() },
    };
    let whole = read(log, log.len().max(1), start, limits);
    let pieces = read(log, usize::from(*cut).max(1), start, limits);
    assert_eq!(whole, pieces, "the pieces count");
}

/// Each item: where it begins, and what it is. Neighbours that were not parsed for one reason are one.
fn read(log: &[u8], piece_bytes: usize, start: Start, limits: Limits) -> Vec<(u64, String)> {
    let mut reader = Reader::new(limits, start);
    let mut sampling = Sampling::new(RateBy::Event, 2);
    let mut order = Order::new(OrderLimits { window_us: 1_000, events_max: 3, bytes_max: 1_000 });
    let has_usual_limits = limits.head_bytes_max == Limits::default().head_bytes_max;
    let mut found = Found { items: Vec::new(), at: 0, ordered: 0, why: None, has_usual_limits };
    for piece in log.chunks(piece_bytes) {
        reader.feed(piece);
        found.take(&mut reader, log, &mut sampling, &mut order);
    }
    reader.finish();
    found.take(&mut reader, log, &mut sampling, &mut order);
    order.finish();
    while order.next().is_some() {
        found.ordered += 1;
    }
    assert_eq!(found.at, log.len(), "bytes are missing");
    assert_eq!(reader.counts().events, found.ordered);
    assert_eq!((order.held(), reader.pending_bytes()), ((0, 0), 0));
    found.items
}

struct Found {
    items: Vec<(u64, String)>,
    at: usize,
    ordered: u64,
    why: Option<Why>,
    /// Where a head ends without a SET line depends on the limits.
    has_usual_limits: bool,
}

impl Found {
    fn take(&mut self, reader: &mut Reader, log: &[u8], sampling: &mut Sampling, order: &mut Order<u64>) {
        while let Some(item) = reader.next() {
            let bytes = item.bytes();
            assert!(!bytes.is_empty());
            assert_eq!(item.offset(), self.at as u64);
            assert_eq!(bytes, &log[self.at..self.at + bytes.len()]);
            self.at += bytes.len();
            let why = match item {
                Item::Event(event) => {
                    self.items.push((event.offset, one(&event, self.has_usual_limits)));
                    order.push(&event, event.offset);
                    let _ = sampling.keeps(&event);
                    None
                }
                Item::Banner { offset, .. } => {
                    self.items.push((offset, "banner".to_owned()));
                    None
                }
                Item::Unparsed { offset, why, .. } => {
                    if self.why != Some(why) {
                        self.items.push((offset, format!("{why:?}")));
                    }
                    Some(why)
                }
            };
            self.why = why;
            while order.next().is_some() {
                self.ordered += 1;
            }
            assert!(order.held().0 <= 3 && order.held().1 <= 1_000);
        }
    }
}

fn one(event: &Event<'_>, has_usual_limits: bool) -> String {
    for part in [event.user, event.account, event.host, event.address, event.sql().unwrap_or_default()] {
        assert!(part.is_empty() || lies_within(part, event.bytes));
    }
    for (key, value) in event.fields() {
        assert!(lies_within(key, event.bytes) && (value.is_empty() || lies_within(value, event.bytes)));
    }
    assert!(event.head_bytes <= event.bytes.len() && event.start_us <= event.end_us);
    let _ = event.kind();
    if has_usual_limits {
        stands_alone(event);
    }
    format!("{} {:?} {:?} {}", event.bytes.len(), event.command, event.schema, event.quoted)
}

/// Behind another: the end of a log may always be the beginning of one.
const NEXT: &[u8] = b"# User@Host: root[root] @ localhost []\n# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 0\n\
    SET timestamp=1577934245;\nSELECT 1;\n";

/// What was put in makes it no other entry.
fn stands_alone(event: &Event<'_>) {
    let name = event.schema.name().unwrap_or_default();
    if event.is_cut || event.quoted > 0 || name.contains(&b'\n') {
        return;
    }
    // A banner may stand in a line of the head behind what a server had begun to write: what is left as the text looks like a line of the head.
    let has_set_line = event.bytes[..event.head_bytes].windows(5).any(|part| part == b"\nSET ");
    let text = event.sql().unwrap_or_default();
    let last = text.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    if !has_set_line && (last.starts_with(b"SET ") || last.starts_with(b"use ")) {
        return;
    }
    let mut out = Vec::new();
    alone::write(event, event.rate, b"", &mut out);
    out.extend_from_slice(NEXT);
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    reader.feed(&out);
    reader.finish();
    let Some(Item::Event(again)) = reader.next() else { panic!("no entry: {}", out.escape_ascii()) };
    assert_eq!(again.command, event.command);
    assert_eq!((again.connection, again.query_time_us), (event.connection, event.query_time_us));
    assert!(!matches!(again.command, Command::Nothing) || event.sql().is_none());
}
