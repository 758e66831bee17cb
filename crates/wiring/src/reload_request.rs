//! How the API has a reload carried out.

use api::Reloaded;
use tokio::sync::oneshot;
use topology::order::OrderRefused;

/// What comes of a reload: a sentence and what changed, or why nothing did.
pub type ReloadReply = Result<(String, Reloaded), OrderRefused>;

/// A reload that the API was asked for.
pub struct ReloadRequest {
    /// Only to be told what would change.
    pub dry_run: bool,
    /// Where its answer goes.
    pub reply: oneshot::Sender<ReloadReply>,
}
