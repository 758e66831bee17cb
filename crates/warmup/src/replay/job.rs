//! One statement that waits to be replayed.

use slowlog::{Event, Times};
use tokio::sync::OwnedSemaphorePermit;

use super::guard::necessary;
use super::state::{State, Texts};

/// A statement of the log.
pub(super) struct Job {
    /// The connection on which it was recorded; 0 where the log does not contain it (MySQL 5.5).
    pub(super) connection: u64,
    /// Its default schema; `None` when it had none, or it is unknown.
    pub(super) schema: Option<Box<[u8]>>,
    pub(super) sql: Box<[u8]>,
    /// The session state of its connection.
    pub(super) state: Texts,
    /// The modes under which it has to be run.
    pub(super) modes: u16,
    /// When it ran, by the log's clock; known when it is its turn.
    pub(super) times: Times,
    pub(super) rows_sent: Option<u64>,
    /// Its share of the memory limit for waiting statements.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl Job {
    /// `None` for an event without SQL.
    pub(super) fn of(event: &Event<'_>, state: State) -> Option<Job> {
        let sql = event.sql()?;
        Some(Job {
            connection: event.connection.unwrap_or(0),
            schema: event.schema.name().map(Into::into),
            sql: sql.into(),
            state: state.texts,
            modes: necessary(state.modes, sql),
            times: Times::default(),
            rows_sent: event.rows.sent,
            permit: None,
        })
    }

    /// Its approximate size in memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Job>() + self.sql.len() + self.schema.as_ref().map_or(0, |schema| schema.len())
    }
}
