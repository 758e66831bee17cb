//! Facts that clients alone can cause at any rate: that an account is not known, that a statement may have changed a table. Each kind is
//! kept once here, however many clients cause it, so that the bounded queue of facts has room for losses of links.
//!
//! Enters: hints at any rate, without waiting. Leaves: the newest of each kind, at most one in [`GAP`], and none while half of the queue is full.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use topology::fact::ProxyFact;

/// The time between two hints. The manager reads the accounts and tables again much less often.
const GAP: Duration = Duration::from_millis(10);

/// The hints that wait. See the head of this file. The task that forwards them ends with this.
#[derive(Debug)]
pub struct Hints {
    slots: Arc<Slots>,
    carrier: AbortHandle,
}

#[derive(Debug, Default)]
struct Slots {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    unknown_user: Option<String>,
    tables_changed: bool,
}

impl Hints {
    /// Must be called inside a tokio runtime, which runs the task that forwards the hints.
    pub fn start(facts: mpsc::Sender<ProxyFact>) -> Self {
        let slots = Arc::new(Slots::default());
        let carrier = tokio::spawn(carry(slots.clone(), facts)).abort_handle();
        Self { slots, carrier }
    }

    /// A client's login failed: its account, or its password, may be new.
    pub fn unknown_account(&self, user: &str) {
        self.slots.with(|waiting| waiting.unknown_user = Some(user.to_owned()));
        self.slots.wake.notify_one();
    }

    /// A statement ran that may have created, changed or dropped a table of an engine without transactions.
    pub fn tables_changed(&self) {
        self.slots.with(|waiting| waiting.tables_changed = true);
        self.slots.wake.notify_one();
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

impl Slots {
    fn with<T>(&self, act: impl FnOnce(&mut Waiting) -> T) -> T {
        act(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self) -> Option<ProxyFact> {
        self.with(|waiting| {
            if let Some(user) = waiting.unknown_user.take() {
                return Some(ProxyFact::UnknownAccount { user });
            }
            std::mem::take(&mut waiting.tables_changed).then_some(ProxyFact::TablesChanged)
        })
    }
}

async fn carry(slots: Arc<Slots>, facts: mpsc::Sender<ProxyFact>) {
    loop {
        if facts.capacity() <= facts.max_capacity() / 2 {
            tokio::time::sleep(GAP).await;
            continue;
        }
        let Some(fact) = slots.take() else {
            slots.wake.notified().await;
            continue;
        };
        if facts.send(fact).await.is_err() {
            return; // the manager has ended
        }
        tokio::time::sleep(GAP).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn however_many_hints_leave_half_of_the_queue_to_losses() {
        let (facts, mut heard) = mpsc::channel(8);
        let hints = Hints::start(facts.clone());
        for number in 0..10_000 {
            hints.unknown_account(&format!("u{number}"));
            hints.tables_changed();
            if number % 1000 == 0 {
                tokio::time::sleep(GAP * 2).await;
            }
        }
        assert_eq!(facts.capacity(), 4, "nobody reads them");
        // As soon as they are read, the newest of each kind comes.
        let mut users = vec![];
        let mut tables = 0;
        while let Ok(Some(fact)) = tokio::time::timeout(GAP * 4, heard.recv()).await {
            match fact {
                ProxyFact::UnknownAccount { user } => users.push(user),
                ProxyFact::TablesChanged => tables += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(users.last().map(String::as_str), Some("u9999"));
        assert!(tables >= 1 && users.len() + tables < 20, "{users:?}, {tables}");
    }
}
