//! The present manager's view, for the parts that stay when the manager is replaced.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio::sync::watch;
use topology::view::ClusterView;

/// The newest view of whichever manager is the present one. Its clones show the same.
#[derive(Clone)]
pub struct PresentView {
    channel: Arc<RwLock<watch::Receiver<Arc<ClusterView>>>>,
    /// When the views' clock began: each manager goes on with that of the first.
    pub started: Instant,
}

impl PresentView {
    /// That of this manager.
    pub fn of(manager: &manager::Handles) -> Self {
        Self::new(manager.view.clone(), manager.started)
    }

    /// That of this channel. `started`: when the view's clock began.
    pub fn new(view: watch::Receiver<Arc<ClusterView>>, started: Instant) -> Self {
        Self { channel: Arc::new(RwLock::new(view)), started }
    }

    /// From now on, that of the next manager.
    pub fn replace(&self, manager: &manager::Handles) {
        *self.channel.write().unwrap_or_else(PoisonError::into_inner) = manager.view.clone();
    }

    /// The newest view.
    pub fn now(&self) -> Arc<ClusterView> {
        self.channel.read().unwrap_or_else(PoisonError::into_inner).borrow().clone()
    }

    /// The channel itself, which ends with its manager.
    pub fn channel(&self) -> watch::Receiver<Arc<ClusterView>> {
        self.channel.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
