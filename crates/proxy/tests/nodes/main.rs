//! What becomes of a node's clients: while it serves, when it ends an idle link, and when it is lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod idle_links;
mod node_lost;
mod one_node;
