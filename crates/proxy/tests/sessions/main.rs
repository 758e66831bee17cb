//! What a session has, and is told, wherever its statements run: moved from node to node, or with its reads on replicas; beside a twin that stands
//! on one server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod begun_with;
mod moves;
mod pinned_sessions;
mod read_port;
mod restore_all;
mod situations;
mod split;
mod steps;
