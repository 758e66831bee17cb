//! Drop-ins: under another tool's name, the program is that tool.
//!
//! Enters: argv\[0\], so a link `clustercheck -> understudy` is all that an installation needs. Leaves: an exit code, or nothing when
//! the name is none of theirs.

mod clustercheck;
mod pyclustercheck;
mod sysconfig;

use std::path::Path;
use std::process::ExitCode;

/// Runs the tool that the program was called as.
pub fn run() -> Option<ExitCode> {
    let called = std::env::args_os().next()?;
    match Path::new(&called).file_name()?.to_str()? {
        "clustercheck" => Some(clustercheck::run()),
        "pyclustercheck" => Some(pyclustercheck::run()),
        _ => None,
    }
}
