//! From the command line to the exit code. An error is told in words on standard error, and to whoever asked for JSON as JSON on standard
//! output, also where the line itself could not be read.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Parser};

use crate::exit::{self, CommandResult};

/// Reads the program's command line, and runs `command` with it.
pub fn run<P: Parser>(command: impl FnOnce(P) -> CommandResult) -> ExitCode {
    let line = with_exit_codes(P::command()).try_get_matches();
    let read = line.and_then(|line| Ok((wants_json(&line), P::from_arg_matches(&line)?)));
    let (is_json, asked) = match read {
        Ok(read) => read,
        Err(error) => return not_understood(P::command(), &error),
    };
    match command(asked) {
        Ok(code) => code,
        Err(failure) if is_json => failure.tell_program(),
        Err(failure) => failure.tell(),
    }
}

/// Each command's help says how it ends: those that say nothing of their own end as all do.
pub fn with_exit_codes(command: clap::Command) -> clap::Command {
    let said = command.get_after_help().or(command.get_after_long_help()).map(ToString::to_string);
    let command = match said {
        Some(said) if said.contains("Exit codes") => command,
        Some(said) => command.after_help(format!("{said}\n\n{}", exit::HELP)),
        None => command.after_help(exit::HELP),
    };
    command.mut_subcommands(with_exit_codes)
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
fn not_understood(program: clap::Command, error: &clap::Error) -> ExitCode {
    // Not `args`, which panics where an argument is no UTF-8.
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if asks_for_json(program, &words) && error.use_stderr() {
        let text = error.to_string();
        println!("{}", exit::json_error("usage", exit::USAGE, text.trim()));
    }
    // Fails only when nobody reads.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS }
}

/// Whether a command line that could not be read asks for JSON on standard output: by `--json`, where that option names a file by
/// `--json -` or without a name.
pub fn asks_for_json(program: clap::Command, words: &[String]) -> bool {
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
