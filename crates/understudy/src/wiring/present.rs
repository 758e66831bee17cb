//! The present manager's view, for the parts that stay when the manager is replaced.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio::sync::watch;
use topology::view::ClusterView;

/// The newest view of whichever manager is the present one. Its clones show the same.
#[derive(Clone)]
pub struct PresentView(Arc<RwLock<Source>>);

struct Source {
    view: watch::Receiver<Arc<ClusterView>>,
    /// When the view's clock began.
    started: Instant,
}

impl PresentView {
    /// That of this manager.
    pub fn of(manager: &manager::Handles) -> Self {
        Self::new(manager.view.clone(), manager.started)
    }

    /// That of this channel. `started`: when the view's clock began.
    pub fn new(view: watch::Receiver<Arc<ClusterView>>, started: Instant) -> Self {
        Self(Arc::new(RwLock::new(Source { view, started })))
    }

    /// From now on, that of the next manager.
    pub fn replace(&self, manager: &manager::Handles) {
        let next = Source { view: manager.view.clone(), started: manager.started };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// The newest view, and when its clock began.
    pub fn now(&self) -> (Arc<ClusterView>, Instant) {
        let source = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (source.view.borrow().clone(), source.started)
    }

    /// The channel itself, which ends with its manager.
    pub fn channel(&self) -> watch::Receiver<Arc<ClusterView>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).view.clone()
    }
}
