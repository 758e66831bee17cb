//! The lab's commands by themselves.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    lab: lab::command::Lab,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    lab::command::run(Cli::parse().lab).await
}
