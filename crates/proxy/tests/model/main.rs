//! The proxy's inner workings without a network: the lane's counting under a model checker, and a cluster in simulated time under random faults.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod lane_model;
mod simulation;
