//! Writes what packages have beside the programs: a man page of each command, and completions for bash, zsh and fish.
//!
//! ```text
//!   cargo run -p understudy --example manual --features manual -- DIRECTORY
//!   DIRECTORY/man/understudy-serve.1 ...  DIRECTORY/lab-man/understudy-lab-up.1 ...  DIRECTORY/completions/{understudy,_understudy,understudy.fish}
//! ```

use std::fs::{create_dir_all, rename};
use std::path::PathBuf;

use clap::{Command, CommandFactory, Subcommand};
use clap_complete::Shell;
use clap_complete::generate_to;

#[allow(dead_code)]
#[path = "../src/commands/mod.rs"]
mod commands;

fn lab(name: &'static str) -> Command {
    let lab = Command::new(name).version(env!("CARGO_PKG_VERSION")).propagate_version(true);
    lab::command::Lab::augment_subcommands(
        lab.about("Real clusters on this machine: start them, load them, break them, measure"),
    )
}

fn main() -> std::io::Result<()> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from);
    let directory = directory.ok_or_else(|| std::io::Error::other("usage: manual DIRECTORY"))?;
    let [man, lab_man, completions] = ["man", "lab-man", "completions"].map(|name| directory.join(name));
    for directory in [&man, &lab_man, &completions] {
        create_dir_all(directory)?;
    }
    // The lab's pages are in the package of the lab.
    clap_mangen::generate_to(commands::Cli::command().mut_subcommand("lab", |lab| lab.hide(true)), man)?;
    clap_mangen::generate_to(lab("understudy-lab"), lab_man)?;
    let mut all = commands::Cli::command().mut_subcommand("lab", |_| lab("lab"));
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut all, "understudy", &completions)?;
    }
    // Where bash looks for it by the command's name.
    rename(completions.join("understudy.bash"), completions.join("understudy"))
}
