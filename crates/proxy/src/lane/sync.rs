//! What the files beside this one use for sharing; the model checker of `tests/model/lane_model.rs` puts its own in this place.

pub use std::sync::atomic::AtomicU64;
pub use std::sync::{Mutex, MutexGuard};
