//! What was decided, when and why; kept in the store, the last 10,000 rows.

use tokio::sync::oneshot;

use crate::store::{JournalRow, Store, StoreError, Work};

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
