//! `understudy lab`: starts `understudy-lab`, which a host that runs databases does without.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use cli::exit::{CommandResult, Failure};

/// The lab's program.
const PROGRAM: &str = "understudy-lab";
/// How it is called here.
const NAME: &str = "understudy lab";
/// Names to the lab the program that it measures.
const MEASURED: &str = "UNDERSTUDY_BIN";

/// Options of the command.
#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Lab {
    /// The lab's command and its options; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    line: Vec<OsString>,
}

impl Lab {
    /// Becomes the lab.
    pub fn run(self) -> CommandResult {
        let wants_json = self.line.iter().any(|word| word == "--json");
        let failure = start(NAME, self.line);
        if wants_json { Ok(failure.tell_program()) } else { Err(failure) }
    }
}

/// `understudy help lab ...`: the lab itself knows its commands.
pub fn help() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let asks =
        words.next().is_some_and(|word| word == "help") && words.next().is_some_and(|word| word == "lab");
    asks.then(|| start(NAME, std::iter::once("help".into()).chain(words)).tell())
}

/// Replaces this program by the lab's, called by `name`; returns only if that fails.
pub fn start(name: impl AsRef<OsStr>, line: impl IntoIterator<Item = OsString>) -> Failure {
    let program = program();
    let mut command = Command::new(&program);
    // What the lab measures is the program that was called.
    if let (None, Ok(own)) = (std::env::var_os(MEASURED), std::env::current_exe()) {
        command.env(MEASURED, own);
    }
    let error = command.arg0(name).args(line).exec();
    Failure::Failed(match error.kind() {
        ErrorKind::NotFound => format!(
            "the lab is a program of its own, {PROGRAM}, and is neither beside this one nor in PATH: `make build` makes both"
        ),
        _ => format!("{} cannot be started: {error}", program.display()),
    })
}

/// The one beside this program: it is of the same version. Otherwise the one in PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
    beside.ok().filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}
