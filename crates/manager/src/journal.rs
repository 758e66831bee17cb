//! The journal: what was decided, when and why. The last 10,000 rows are kept in the store.

use tokio::sync::oneshot;
use topology::Term;
use topology::action::Sentence;

use crate::cycle;
use topology::view::JournalRow;

use crate::store::{Store, StoreError, Work};

/// Reads the journal, and adds rows.
#[derive(Clone)]
pub struct Journal {
    pub(crate) store: Store,
}

impl Journal {
    /// Adds what another part of the program did under this term; it is logged as well.
    pub fn note(&self, term: Term, sentence: Sentence) {
        cycle::say(&self.store, term, sentence);
    }

    /// The last `rows_max` rows, newest last.
    pub async fn last(&self, rows_max: u32) -> Result<Vec<JournalRow>, StoreError> {
        let (reply, rows) = oneshot::channel();
        self.store.send(Work::Last(rows_max, reply)).map_err(|_| StoreError::Closed)?;
        rows.await.unwrap_or(Err(StoreError::Closed))
    }
}
