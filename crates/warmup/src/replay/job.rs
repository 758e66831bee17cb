//! One statement that waits to be replayed.

use slowlog::Event;
use tokio::sync::OwnedSemaphorePermit;

use super::state::Texts;

/// A statement of the log.
pub(super) struct Job {
    /// The connection it was recorded on; 0 where the log does not tell (MySQL 5.5).
    pub(super) connection: u64,
    /// Its default schema; None where it had none, or it is not known.
    pub(super) schema: Option<Box<[u8]>>,
    pub(super) sql: Box<[u8]>,
    /// What its connection had set.
    pub(super) state: Texts,
    /// When it was begun, as it is ordered.
    pub(super) order_us: u64,
    pub(super) query_time_us: u64,
    pub(super) rows_sent: Option<u64>,
    /// Its share of what may wait.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl Job {
    /// Nothing for an event without SQL.
    pub(super) fn of(event: &Event<'_>, state: impl FnOnce() -> Texts) -> Option<Job> {
        Some(Job {
            connection: event.connection.unwrap_or(0),
            schema: event.schema.name().map(Into::into),
            sql: event.sql()?.into(),
            state: state(),
            order_us: event.order_us(),
            query_time_us: event.query_time_us,
            rows_sent: event.rows.sent,
            permit: None,
        })
    }

    /// What it takes, more or less.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Job>() + self.sql.len() + self.schema.as_ref().map_or(0, |schema| schema.len())
    }
}
