//! How an action on a node fails.

use std::time::Duration;

use link::LinkError;
use tokio::time::timeout;

/// An action's failure: the server's error number, when it gave one, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub errno: u16,
    pub why: String,
}

impl From<LinkError> for Failed {
    fn from(error: LinkError) -> Self {
        let errno = if let LinkError::Rejected { errno, .. } = &error { *errno } else { 0 };
        Self { errno, why: error.to_string() }
    }
}

impl Failed {
    pub fn because(why: impl Into<String>) -> Self {
        Self { errno: 0, why: why.into() }
    }
}

pub(crate) async fn in_time<T>(
    within: Duration,
    work: impl Future<Output = Result<T, Failed>>,
) -> Result<T, Failed> {
    timeout(within, work)
        .await
        .unwrap_or_else(|_| Err(Failed::because(format!("no answer within {within:?}"))))
}
