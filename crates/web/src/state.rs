//! What the handlers share.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;

use crate::key::Keys;
use crate::readers::Readers;
use crate::repeat::Repeat;

pub struct Api<C> {
    pub(crate) control: Arc<C>,
    pub(crate) keys: Keys,
    pub(crate) readers: Arc<Readers>,
    pub(crate) budget: Duration,
    pub(crate) failover: Arc<Repeat>,
}

/// What stays when the routes are replaced.
#[derive(Clone, Default)]
pub struct Kept {
    pub(crate) readers: Arc<Readers>,
    pub(crate) failover: Arc<Repeat>,
}

pub(crate) type Shared<C> = State<Arc<Api<C>>>;
