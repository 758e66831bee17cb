//! The processes that one command has become: what a shell has started does not go on when its time is over.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// The process group of a child that was spawned with `process_group(0)`. All of it is killed when this is dropped.
#[derive(Debug)]
pub struct Group(Option<Pid>);

impl Group {
    /// The one that this child leads.
    #[must_use]
    pub fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Sends a signal to all of it.
    pub fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            // They may have just ended.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// The child has been waited for, so its process id may be used again; what it has left running is left.
    pub fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
