//! The manager beside servers: a real one, and modelled ones of MySQL's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod mysql;
mod reconfigure;
