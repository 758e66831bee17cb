//! How far a load is.

use tokio::sync::watch;

/// The phase of a load; each phase includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// New transactions become due.
    Running,
    /// No new ones; those due are finished.
    Draining,
    /// Those still in progress are given up.
    Ended,
}

/// Completes when the load has reached `stage`.
pub(crate) async fn reached(signal: &mut watch::Receiver<Stage>, stage: Stage) {
    // An error means that the load was dropped: that is an end too.
    let _ = signal.wait_for(|now| *now >= stage).await;
}
