//! What the test programs of `understudy` share: the program as a user runs it, a primary with two replicas behind it, and writers that know what they
//! were told.
//!
//! Only tests use this crate. A test that cannot get what it stands on must fail, so this crate panics on errors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod copies;
pub mod described;
pub mod informed;
pub mod printed;
pub mod program;
pub mod scene;
pub mod writers;
