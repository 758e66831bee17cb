//! Understudy keeps a stand-in ready for every node of a MySQL-protocol cluster, and hands traffic over unnoticed.
//!
//! One binary. `serve` is the program itself, put together in [`wiring`]; the order commands talk to a running one through
//! its API; `lab` measures. This file only tells the story: read the command line, run one command, say how it ended.

mod client;
mod commands;
mod descriptors;
mod doctor;
mod dropin;
mod duration;
mod errant;
mod exit;
mod exposed;
mod local;
mod mha;
mod mycnf;
mod myq;
mod notify;
mod runtime;
mod settings;
mod table;
mod top;
mod windows;
mod wiring;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

/// glibc's allocator keeps what a crowd of clients has used, since a few allocations that stay hold whole regions; this one gives it back to
/// the system within some seconds (docs/in-front-of-an-application.md has the figures).
#[cfg(target_env = "gnu")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Keeps a stand-in ready for a database node, and hands traffic over so that the application need not notice.
#[derive(Parser)]
#[command(name = "understudy", version, propagate_version = true, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    if let Some(code) = dropin::run() {
        return code;
    }
    let line = Cli::command().try_get_matches();
    let read = line.and_then(|line| Ok((wants_json(&line), Cli::from_arg_matches(&line)?)));
    let (is_json, cli) = match read {
        Ok(read) => read,
        Err(error) => return not_understood(&error),
    };
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(failure) if is_json => failure.tell_program(),
        Err(failure) => failure.tell(),
    }
}

/// Whether the command was told to print JSON on standard output.
fn wants_json(line: &ArgMatches) -> bool {
    let mut line = line;
    while let Some((_, below)) = line.subcommand() {
        line = below;
    }
    let is_asked = matches!(line.try_get_one::<bool>("json"), Ok(Some(true)));
    let is_standard_output = |file: &PathBuf| file.as_os_str() == "-";
    is_asked || matches!(line.try_get_one::<PathBuf>("json"), Ok(Some(file)) if is_standard_output(file))
}

/// A command line that is none, or that asks for help.
fn not_understood(error: &clap::Error) -> ExitCode {
    // Not `args`, which panics where an argument is no UTF-8.
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if asks_for_json(Cli::command(), &words) && error.use_stderr() {
        let text = error.to_string();
        println!("{}", exit::json_error("usage", exit::USAGE, text.trim()));
    }
    // Fails only when nobody reads.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS }
}

/// Whether a command line that could not be read asks for JSON on standard output: by `--json`, where that option names a file by
/// `--json -` or without a name.
fn asks_for_json(program: clap::Command, words: &[String]) -> bool {
    let mut command = &program;
    for word in words {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let names_a_file = command
        .get_arguments()
        .find(|argument| argument.get_long() == Some("json"))
        .is_some_and(|argument| argument.get_action().takes_values());
    let mut pairs = words.iter().zip(words.iter().skip(1).map(Some).chain([None]));
    pairs.any(|(word, next)| match word.as_str() {
        "--json=-" => true,
        // Alone, or "-".
        "--json" => !names_a_file || next.is_none_or(|next| next.starts_with('-')),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_wherever_it_stands() {
        let asks = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            asks_for_json(Cli::command(), &words)
        };
        for line in [
            "status --json --bogus",
            "drain --json db1 --bogus",
            "drain db1 --bogus --json",
            "--json nothing",
        ] {
            assert!(asks(line), "{line}");
        }
        assert!(asks("switchover --check --json - --bogus") && asks("switchover --check --json=- --bogus"));
        for line in ["status --bogus", "switchover --check --json file --bogus", "drain json"] {
            assert!(!asks(line), "{line}");
        }
    }
}
