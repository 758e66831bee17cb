//! A primary and its replicas as a model in simulated time, with the real brain in charge, and runs of it in which everything can go wrong.

mod copies;
mod demands;
pub mod ending;
mod events;
mod lanes;
mod links;
mod orders;
mod price;
pub mod server;
mod shell;
pub mod simulation;
mod traffic;
pub mod world;
