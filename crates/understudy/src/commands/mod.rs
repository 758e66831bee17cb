//! The commands: one file each, and the list of them here.

mod drain;
mod errors;
mod journal;
mod limit;
mod serve;
mod show_settings;
mod status;
mod switchover;

use clap::Subcommand;

use crate::doctor;
use crate::exit::{Failure, Outcome};

/// What the program can be asked to do.
#[derive(Subcommand)]
pub enum Command {
    /// Serve: proxy, manager and API, until told to stop
    Serve(serve::Serve),
    /// Show the nodes, the writer, the hold and the last decisions
    Status(status::Status),
    /// Move the writer in good order: transactions end first, statements wait meanwhile
    Switchover(switchover::Switchover),
    /// Take a node out: its sessions move to another one
    Drain(drain::Drain),
    /// Let a drained node take sessions again
    Undrain(drain::Undrain),
    /// Set how many sessions a node takes at most
    SetMaxConnections(limit::SetMaxConnections),
    /// Show what was decided, and why
    Journal(journal::Journal),
    /// Ask the nodes for what decides the length of a failover, and propose better values
    Doctor(doctor::Doctor),
    /// Show every setting, its default and its meaning
    Settings(show_settings::ShowSettings),
    /// Show the errors that the proxy itself gives to clients
    Errors(errors::Errors),
    /// Start real clusters on this machine, load them, break them, measure
    #[command(subcommand)]
    Lab(lab::command::Lab),
}

/// Runs one.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Serve(serve) => serve.run(),
        Command::Status(status) => status.run(),
        Command::Switchover(switchover) => switchover.run(),
        Command::Drain(drain) => drain.run(),
        Command::Undrain(undrain) => undrain.run(),
        Command::SetMaxConnections(limit) => limit.run(),
        Command::Journal(journal) => journal.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Settings(show) => Ok(show.run()),
        Command::Errors(errors) => Ok(errors.run()),
        Command::Lab(lab) => {
            let runtime = runtime()?;
            runtime.block_on(lab::command::run(lab)).map_err(|e| Failure::failed(&e))
        }
    }
}

/// A runtime for commands that need one.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|e| Failure::Failed(format!("cannot start the runtime's threads: {e}")))
}
