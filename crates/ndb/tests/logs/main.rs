//! NDB Cluster's logs: each recorded start (`tests/recordings`), what the docs say of it, older versions' forms, and damaged input.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod damaged;
mod forms;
mod older;
mod recorded;
mod table;
