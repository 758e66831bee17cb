//! The brain in charge of clusters that are written down or modelled: facts in, decisions out, word by word or against what must always hold.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod bootstrap;
mod components;
mod health;
mod invariants;
mod member;
mod reads;
mod reconfigured;
mod replication;
mod transcripts;
