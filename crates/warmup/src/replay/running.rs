//! The connections that a replay has open on its server, so that their statements can be killed when the replay is aborted: a server does
//! not notice that the client of a long SELECT has gone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::task::TaskTracker;

/// Open connections by their connection numbers on the server, and the tasks that may use them.
#[derive(Debug, Default)]
pub struct Running {
    open: Mutex<BTreeMap<u32, Instant>>,
    tasks: TaskTracker,
}

impl Running {
    /// Registers a task that may send statements to the server, until the returned guard is dropped.
    pub(crate) fn counted<Task: Future>(&self, task: Task) -> impl Future<Output = Task::Output> + use<Task> {
        self.tasks.track_future(task)
    }

    /// Waits until no registered task is left. An aborted task may run on for a moment on another thread.
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

    /// Takes the connection numbers out of the register, with the age of the oldest connection. On a server that was started after that,
    /// these numbers belong to other connections.
    pub fn take(&self) -> (Vec<u32>, Duration) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let age = open.values().min().map_or(Duration::ZERO, Instant::elapsed);
        (open.into_keys().collect(), age)
    }
}
