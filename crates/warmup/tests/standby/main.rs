//! A standby that is warmed: by the reads of a proxy's clients, by a load of its buffer pool, and while it answers slowly or not at all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod pool_load;
mod slow_standby;
mod tap;
