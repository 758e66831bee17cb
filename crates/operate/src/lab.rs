//! `understudy lab`: starts `understudy-lab`, which a host that runs databases does without.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use cli::exit::{CommandResult, Failure};

/// The lab's program.
const PROGRAM: &str = "understudy-lab";

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
        start("understudy lab", self.line)
    }
}

/// Replaces this program by the lab's, called by `name`; returns only if that fails.
pub fn start(name: impl AsRef<OsStr>, line: impl IntoIterator<Item = OsString>) -> CommandResult {
    let program = program();
    let error = Command::new(&program).arg0(name).args(line).exec();
    Err(Failure::Failed(match error.kind() {
        ErrorKind::NotFound => format!(
            "the lab is a program of its own, {PROGRAM}, and is neither beside this one nor in PATH: install the package {PROGRAM}, or build it \
             with `make build`"
        ),
        _ => format!("{} cannot be started: {error}", program.display()),
    }))
}

/// The one beside this program: it is of the same version. Otherwise the one in PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
    beside.ok().filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}
