//! How the API has a reload carried out.

use api::Reloaded;
use tokio::sync::oneshot;
use topology::order::OrderRefused;

/// What comes of a reload: a sentence and what changed, or why nothing did.
pub type ReloadReply = Result<(String, Reloaded), OrderRefused>;
/// A reload that the API was asked for, and where its answer goes.
pub type ReloadRequest = oneshot::Sender<ReloadReply>;
