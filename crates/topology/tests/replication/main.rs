//! A primary and its replicas as a model in simulated time, with the real brain in charge: what it decides word by word (`scripts/*.txt`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

#[allow(dead_code)] // shared with another simulation
#[path = "../../../proxy/tests/simulation/dice.rs"]
mod dice;
mod script;
mod server;
mod world;

#[test]
fn decisions() {
    script::play_all();
}
