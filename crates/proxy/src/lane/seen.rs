//! What the lane's node shows the manager's account of one of the lane's sessions: MySQL keeps it from the session itself
//! ([`session::saving::of_thread`]). One connection serves all sessions of the lane; it is opened when one asks, and closed when none does any more.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use link::{Asker, Login};
use session::saving::{Seen, of_thread};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::Lane;

/// The answer is awaited for this long, including the questions of other sessions before it (each took 0.2 ms on MySQL 9.7). Without it the session
/// stays where it is.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// See the head of this file.
#[derive(Default)]
pub struct SessionViewer {
    asker: Mutex<Option<Asker>>,
    asking: AtomicU32,
}

impl Lane {
    /// What the session with this connection id has; `None` when that cannot be known. `monitor`: the manager's account.
    pub async fn seen(&self, connection_id: u32, monitor: &Login) -> Option<Seen> {
        let viewer = &self.session_viewer;
        let _asking = Asking::begin(&viewer.asking);
        let answer = timeout(ANSWER_MAX, async {
            let mut slot = viewer.asker.lock().await;
            let asker = slot.get_or_insert_with(|| Asker::new(&*self.address, monitor.clone(), ANSWER_MAX));
            let answer = asker.ask(&of_thread(connection_id), ANSWER_MAX).await;
            // Another login may do better: the settings may have changed.
            if answer.is_err() || viewer.asking.load(SeqCst) == 1 {
                asker.quit();
                *slot = None;
            }
            answer
        });
        let rows = answer.await.ok()?.ok()?;
        Seen::of(rows.rows.iter().map(Vec::as_slice))
    }
}

/// Counts one that asks, as long as it lives.
struct Asking<'a>(&'a AtomicU32);

impl<'a> Asking<'a> {
    fn begin(asking: &'a AtomicU32) -> Self {
        asking.fetch_add(1, SeqCst);
        Self(asking)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
