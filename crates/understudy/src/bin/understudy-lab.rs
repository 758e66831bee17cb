//! `understudy-lab`: what `understudy lab ...` starts; called as `sysbench`, the load of sysbench 0.5.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use cli::exit::Failure;
use lab::command::{self, Lab, sysbench};

/// Real clusters on this machine: start them, load them, break them, measure.
#[derive(Parser)]
#[command(name = "understudy lab", bin_name = "understudy lab", version, propagate_version = true, after_help = cli::exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Lab,
}

fn main() -> ExitCode {
    let called = std::env::args_os().next();
    if called.is_some_and(|called| Path::new(&called).file_name().is_some_and(|name| name == "sysbench")) {
        return sysbench::run();
    }
    cli::line::run(|cli: Cli| {
        if cli.command.only_prints() {
            sigpipe::reset();
        }
        let runtime = cli::runtime::start()?;
        runtime.block_on(command::run(cli.command)).map_err(|error| Failure::failed(&error))
    })
}
