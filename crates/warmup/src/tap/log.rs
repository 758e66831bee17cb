//! Writes the reads of the proxy's clients as a slow log in MariaDB's format.
//!
//! The session state of a connection is written before its first read, and again where it changes, as separate entries (`SET NAMES ...`),
//! so that a replay of any connection starts with its state. The connection's number is the proxy's, with the count of its resets in the
//! upper half, so that no state is carried over a reset.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use hyper::body::Bytes;
use session::finished::{Counts, Finished, Offered, ReadState};
use slowlog::{Command, Dialect, Event, Rate, RateBy, Rows, Schema, Writer};
use tokio::io::AsyncRead;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;
use tokio_util::io::StreamReader;

use crate::recent::Recent;

/// Half of the greatest number of connections whose written state is remembered; for the others it is written again.
const CONNECTIONS_MAX: usize = 32 << 10;
/// The approximate size of one part, in bytes.
const PART_BYTES: usize = 64 << 10;
/// How long reads are collected before they are written: a wake-up for each one would cost more than the rest of the work.
const GATHER: Duration = Duration::from_millis(5);

/// The log as a reader. It ends when the proxy ends.
pub fn source(reads: Receiver<Offered>, counts: Arc<Counts>) -> impl AsyncRead + Unpin + Send {
    StreamReader::new(Box::pin(parts(reads, counts).map(|part| match part {
        Ok(part) => Ok::<_, io::Error>(part),
        Err(never) => match never {},
    })))
}

/// The log in parts of whole entries, as the body of an HTTP response.
pub fn parts(
    reads: Receiver<Offered>,
    counts: Arc<Counts>,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    futures_util::stream::unfold((reads, Log::new(counts)), |(mut reads, mut log)| async {
        let first = reads.recv().await?;
        sleep(GATHER).await;
        let mut out = Vec::new();
        log.write(&first.read, &mut out);
        drop(first);
        while out.len() < PART_BYTES
            && let Ok(next) = reads.try_recv()
        {
            log.write(&next.read, &mut out);
        }
        Some((Ok(Bytes::from(out)), (reads, log)))
    })
}

/// Writes the entries.
struct Log {
    writer: Writer,
    states: Recent<u64, Arc<ReadState>>,
    counts: Arc<Counts>,
    dropped_bytes_told: u64,
    entry: Vec<u8>,
}

impl Log {
    fn new(counts: Arc<Counts>) -> Self {
        Self {
            writer: Writer::new(Dialect::MariaDb),
            states: Recent::new(CONNECTIONS_MAX),
            counts,
            dropped_bytes_told: 0,
            entry: Vec::new(),
        }
    }

    /// Writes the read, after the entries for its connection's state where they are needed.
    fn write(&mut self, read: &Finished, out: &mut Vec<u8>) {
        let is_known = self.states.get(read.session).is_some_and(|known| Arc::ptr_eq(known, &read.state));
        if !is_known {
            let before = self.states.get(read.session).map(|known| Arc::clone(known));
            let before = before.as_ref().map_or(&[][..], |known| &known.statements);
            let said =
                read.state.statements.iter().zip(before).take_while(|(now, before)| now == before).count();
            // With the time at which the read began, so that in the order of starts it comes before the read.
            let at_us = read.ended_us.saturating_sub(read.took_us);
            for statement in &read.state.statements[said..] {
                let entry = Event { end_us: at_us, query_time_us: 0, ..entry(read, statement.as_bytes()) };
                self.put(&Event { rows: Rows::default(), ..entry }, out);
            }
            self.states.insert(read.session, Arc::clone(&read.state));
        }
        self.put(&entry(read, &read.sql), out);
    }

    fn put(&mut self, entry: &Event<'_>, out: &mut Vec<u8>) {
        self.entry.clear();
        self.writer.write(entry, &mut self.entry);
        let dropped_bytes = self.counts.dropped_bytes.load(Relaxed);
        if dropped_bytes > self.dropped_bytes_told {
            let more = dropped_bytes - self.dropped_bytes_told;
            self.dropped_bytes_told = dropped_bytes;
            // After the last line of the head: the entry's text begins with the schema, or with SET.
            let head =
                self.entry.split_inclusive(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"#"));
            let at: usize = head.map(<[u8]>::len).sum();
            let note = format!("# Understudy_dropped_bytes: {more}\n");
            self.entry.splice(at..at, note.into_bytes());
        }
        out.extend_from_slice(&self.entry);
    }
}

fn entry<'a>(read: &'a Finished, sql: &'a [u8]) -> Event<'a> {
    let by = if read.by_session { RateBy::Session } else { RateBy::Event };
    Event {
        end_us: read.ended_us,
        query_time_us: read.took_us,
        user: read.user.as_bytes(),
        account: read.user.as_bytes(),
        connection: Some(read.session),
        schema: Schema::Own(read.schema.as_deref().unwrap_or_default()),
        rows: Rows { sent: read.rows_sent, ..Rows::default() },
        rate: (read.one_in > 1).then_some(Rate { by, one_in: read.one_in }),
        command: Command::Statement(sql),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use session::finished::Room;
    use slowlog::{Item, Limits, Reader, Start};
    use tokio::io::AsyncReadExt;
    use tokio::sync::mpsc;

    use super::*;

    fn read(session: u64, sql: &[u8], state: &Arc<ReadState>) -> Offered {
        let read = Finished {
            session,
            user: "app".into(),
            client: [127, 0, 0, 1].into(),
            schema: Some(b"shop"[..].into()),
            ended_us: 1_700_000_010_300_000,
            took_us: 2_500_000,
            rows_sent: Some(3),
            sql: sql.into(),
            state: Arc::clone(state),
            one_in: 10,
            by_session: false,
        };
        Offered { read, room: Room::take(&Arc::new(AtomicUsize::new(0)), 1, 10).unwrap() }
    }

    fn state(statements: &[&str]) -> Arc<ReadState> {
        Arc::new(ReadState { statements: statements.iter().map(|text| (*text).to_owned()).collect() })
    }

    #[tokio::test]
    async fn a_connection_s_state_stands_before_its_first_read() {
        let (queue, reads) = mpsc::channel(10);
        let counts = Arc::new(Counts::default());
        let (plain, later) = (state(&["SET NAMES latin1"]), state(&["SET NAMES latin1", "SET @a = 1"]));
        for (session, sql, state) in [
            (1, &b"SELECT 'it''s; \n# Time: 1'"[..], &plain),
            (1, b"SELECT 2", &plain),
            (2, b"SELECT 3", &plain),
            (1, b"SELECT @a", &later),
        ] {
            queue.send(read(session, sql, state)).await.unwrap();
        }
        counts.dropped_bytes.store(77, Relaxed);
        drop(queue);
        let mut bytes = Vec::new();
        source(reads, counts).read_to_end(&mut bytes).await.unwrap();
        let mut reader = Reader::new(Limits::default(), Start::Whole);
        reader.feed(&bytes);
        reader.finish();
        let (mut found, mut dropped) = (vec![], vec![]);
        let mut orders = vec![];
        while let Some(item) = reader.next() {
            let Item::Event(event) = item else { panic!("{item:?}") };
            assert_eq!((event.dialect, event.schema.name()), (Dialect::MariaDb, Some(&b"shop"[..])));
            assert_eq!(event.rate.map(|rate| rate.one_in), Some(10));
            dropped.extend(event.field("Understudy_dropped_bytes").map(<[u8]>::to_vec));
            let sql = String::from_utf8(event.sql().unwrap().to_vec()).unwrap();
            found.push((event.connection.unwrap(), sql));
            orders.push((event.connection.unwrap(), event.order_us()));
        }
        let wanted: Vec<(u64, String)> = [
            (1, "SET NAMES latin1"),
            (1, "SELECT 'it''s; \n# Time: 1'"),
            (1, "SELECT 2"),
            (2, "SET NAMES latin1"),
            (2, "SELECT 3"),
            (1, "SET @a = 1"),
            (1, "SELECT @a"),
        ]
        .map(|(session, sql)| (session, sql.to_owned()))
        .into();
        assert_eq!(found, wanted);
        assert_eq!(dropped, [b"77"]);
        assert!(orders[0].1 <= orders[1].1, "the state before what needs it: {orders:?}");
    }
}
