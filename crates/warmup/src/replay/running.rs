//! The connections that a replay has on its server, so that their statements can be killed there when the replay is aborted: a server does not
//! notice that the client of a long SELECT has gone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::task::TaskTracker;

/// Connections that are open, by the server's numbers for them, and the tasks that may use them.
#[derive(Debug, Default)]
pub struct Running {
    open: Mutex<BTreeMap<u32, Instant>>,
    tasks: TaskTracker,
}

impl Running {
    /// Counts whoever may send something to the server, until it has ended or was dropped.
    pub(crate) fn counted<Task: Future>(&self, task: Task) -> impl Future<Output = Task::Output> + use<Task> {
        self.tasks.track_future(task)
    }

    /// Waits until nobody that was counted is left. An aborted task may run on for a moment on another thread.
    pub(crate) async fn quiet(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(crate) fn opened(&self, connection_id: u32) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(connection_id, Instant::now());
    }

    pub(crate) fn closed(&self, connection_id: u32) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection_id);
    }

    /// The numbers, which are forgotten with that, and the age of the oldest connection. A server that was started later than that means others by
    /// these numbers.
    pub fn take(&self) -> (Vec<u32>, Duration) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let age = open.values().min().map_or(Duration::ZERO, Instant::elapsed);
        (open.into_keys().collect(), age)
    }
}
