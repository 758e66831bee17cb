//! Which KILLs by other clients a link has had.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use tokio::sync::Notify;

/// The KILLs of one link by other clients. A KILL counts only after the node's OK: before that it is not known whether its issuer has the
/// privilege, and a session must not be told that it was killed by somebody who may not kill it.
#[derive(Debug, Default)]
pub struct Kills {
    /// Sent to the node, which has not answered yet.
    unanswered: AtomicU32,
    allowed: AtomicBool,
    answered: Notify,
}

impl Kills {
    /// A KILL is about to be sent to the node.
    pub(crate) fn ask(self: &Arc<Self>) -> AskedKill {
        self.unanswered.fetch_add(1, SeqCst);
        AskedKill(self.clone())
    }

    /// Whether the node has answered one with OK.
    pub fn is_allowed(&self) -> bool {
        self.allowed.load(SeqCst)
    }

    /// The same for a link that has ended: the node's OK may still be on its way to the issuer, and is awaited. That takes no longer than a
    /// KILL may take, which is [`crate::Settings::connect_timeout`].
    pub async fn was_allowed(&self) -> bool {
        loop {
            let mut answered = pin!(self.answered.notified());
            answered.as_mut().enable();
            if self.is_allowed() {
                return true;
            }
            if self.unanswered.load(SeqCst) == 0 {
                return false;
            }
            answered.await;
        }
    }
}

/// A KILL that the node has not answered. When this is dropped, it no longer will.
pub(crate) struct AskedKill(Arc<Kills>);

impl AskedKill {
    pub(crate) fn is_allowed(&self) {
        self.0.allowed.store(true, SeqCst);
    }
}

impl Drop for AskedKill {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, SeqCst);
        self.0.answered.notify_waiters();
    }
}
