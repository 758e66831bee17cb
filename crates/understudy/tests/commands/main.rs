//! The command line, the configuration and the documentation: what the program says, with which exit code, and that the pages say the same.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod bad_input;
mod cli;
mod docs;
mod documented;
