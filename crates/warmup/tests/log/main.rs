//! A slow log that is written while it is rotated.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod rotate_proof;
mod rotation;
