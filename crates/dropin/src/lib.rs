//! Drop-in replacements: called by the name of another tool, the program behaves like that tool.
//!
//! Input: argv\[0\], so a link `clustercheck -> understudy` is all that an installation needs; for MHA's names and myq_status also the
//! first argument (`understudy masterha_master_switch ...`). Output: an exit code, or nothing when the name is none of these.

mod clustercheck;
mod masterha;
mod mysql_slowlogd;
mod percona_playback;
mod pyclustercheck;
mod sysconfig;

use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitCode;

use operate::lab;
use watch::myq;

const MYQ_STATUS: &str = "myq_status";

/// Runs the tool by whose name the program was called; `None` for any other name.
pub fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let called = arguments.next()?;
    let name = Path::new(&called).file_name()?.to_str()?;
    match name {
        "clustercheck" => Some(clustercheck::run()),
        "pyclustercheck" => Some(pyclustercheck::run()),
        "mysql_slowlogd" => Some(mysql_slowlogd::run()),
        "percona-playback" => Some(percona_playback::run()),
        "sysbench" => Some(lab::start(name, arguments).tell()),
        MYQ_STATUS => Some(myq::run(std::env::args_os())),
        _ => {
            if std::env::args_os().nth(1).is_some_and(|first| first == MYQ_STATUS) {
                return Some(myq::run(std::env::args_os().skip(1)));
            }
            // Invalid UTF-8 matches no option either.
            let mut rest: VecDeque<String> =
                arguments.map(|text| text.to_string_lossy().into_owned()).collect();
            let name = if name.starts_with("masterha_") { name.to_owned() } else { rest.pop_front()? };
            if name.starts_with("masterha_") { masterha::run(&name, rest.into()) } else { None }
        }
    }
}
