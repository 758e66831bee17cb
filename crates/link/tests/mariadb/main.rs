//! What a real MariaDB does on a connection: how it lets in, what it answers and reports, and how it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod answers;
mod endings;
mod login;
mod reports;
mod server;
mod tls;
