//! What was decided, when and why; kept in the store, the last 10,000 rows.

use tokio::sync::oneshot;
use topology::view::Level;

use crate::store::{Store, StoreError, Work};

/// A sentence, when it was said and in which term.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct JournalRow {
    /// Milliseconds since 1970.
    pub at_unix_ms: u64,
    /// How grave.
    pub level: Level,
    /// The sentence.
    pub text: String,
    /// The term then in force.
    pub term: u64,
}

/// Reads the journal.
#[derive(Clone)]
pub struct Journal {
    pub(crate) store: Store,
}

impl Journal {
    /// The last `rows_max` rows, newest last.
    pub async fn last(&self, rows_max: u32) -> Result<Vec<JournalRow>, StoreError> {
        let (reply, rows) = oneshot::channel();
        self.store.send(Work::Last(rows_max, reply)).map_err(|_| StoreError::Closed)?;
        rows.await.unwrap_or(Err(StoreError::Closed))
    }
}
