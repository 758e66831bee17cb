//! What others are told of the cluster: load balancers, monitoring, and who watches.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod check;
mod dashboard;
mod described;
mod live;
mod metrics;
mod prometheus;
mod serve_health;
