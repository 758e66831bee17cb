//! A node that answers every question and cannot commit, on real servers: found, and relieved, where another can write; and left alone where
//! that would help nobody.
//!
//! ```text
//!   replication  heartbeats beside switchovers ─> what must not look like it ─> write-lock ─> disk-full
//!   Galera       a long ALTER ─> write-lock ─> stuck DDL
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

#[path = "../program/mod.rs"]
mod program;
#[allow(dead_code)] // shared with another program
#[path = "../replication/scene.rs"]
mod scene;
#[allow(dead_code)]
#[path = "../replication/writers.rs"]
mod writers;

mod galera;
mod replication;
