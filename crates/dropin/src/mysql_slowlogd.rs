//! `mysql_slowlogd`: Groupon's server that streams slow logs, with its options, port and routes.
//!
//! Without `-x` the program goes to the background, as the original does: it starts itself again in a new session, and exits with 0 once
//! that process listens, or with 1 if it cannot. The process in the background keeps nothing of its caller: not the directory, and no
//! descriptor, so that a pipe that the caller reads ends, and a lock that it holds is its own. What it logs is then lost; `-x` shows it.
//! Source: the tool as described in seed-tools.md, section 5.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use warmup::stream;

use cli::exit::{CommandResult, Failure};
use cli::foreground;
use operate::slowlog::{self, Door};

/// A reader that is further behind than this, in bytes, continues at the end of the log.
const BEHIND_BYTES_MAX: u64 = 1 << 30;
/// Set for the process in the background, which then reports on standard output when it listens.
const BACKGROUND: &str = "UNDERSTUDY_SLOWLOGD_BACKGROUND";
/// The line that it prints then.
const LISTENS: &str = "listens";

/// Serves a slow log over HTTP: GET /slow[?rate_limit=N]
#[derive(Parser)]
#[command(name = "mysql_slowlogd", version)]
struct MysqlSlowlogd {
    /// The slow log
    #[arg(short = 'f', long = "slowlog", value_name = "PATH")]
    slowlog: Option<PathBuf>,
    /// Port to listen on, at all addresses
    #[arg(short, long, value_name = "N", default_value_t = 3307)]
    port: u16,
    /// Stay in the foreground
    #[arg(short = 'x', long)]
    no_daemon: bool,
}

/// Runs the command.
pub fn run() -> ExitCode {
    let arguments = match MysqlSlowlogd::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            // The original's exit code for wrong usage.
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let Some(file) = arguments.slowlog.clone() else {
        eprintln!(
            "usage: mysql_slowlogd -f PATH [-p PORT] [-x]\n-f (--slowlog) says which slow log is streamed"
        );
        return ExitCode::FAILURE;
    };
    let ran = match (arguments.no_daemon, std::env::var_os(BACKGROUND)) {
        (false, None) => to_background(),
        (_, background) => serve(file, arguments.port, background.is_some()),
    };
    ran.unwrap_or_else(|failure| failure.tell())
}

fn serve(file: PathBuf, port: u16, is_background: bool) -> CommandResult {
    foreground::log();
    // Before the directory changes.
    let file = std::path::absolute(file).map_err(|e| failed("where the slow log is cannot be told", e))?;
    if is_background {
        rustix::process::setsid().map_err(|e| failed("no session of its own can be had", e))?;
        std::env::set_current_dir("/").map_err(|e| failed("the directory / cannot be entered", e))?;
    }
    let settings = stream::Settings { log: file, behind_bytes_max: BEHIND_BYTES_MAX };
    tracing::warn!(
        "port {port} answers everybody, as mysql_slowlogd always did, and a slow log shows what clients write and read; \
         `understudy slowlog serve` has keys and TLS"
    );
    let door = Door { listen: vec![format!("[::]:{port}")], key: None, tls: None, pool: None };
    slowlog::serve(settings, door, |_| {
        println!("{}", if is_background { LISTENS.to_owned() } else { format!("listening on port {port}") });
        let _ = std::io::stdout().flush();
        if is_background && let Err(error) = drop_standard_streams() {
            tracing::error!("standard output and standard error stay those of the caller: {error}");
        }
    })
}

fn failed(what: &str, error: impl Display) -> Failure {
    Failure::Failed(format!("{what}: {error}"))
}

fn drop_standard_streams() -> std::io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// Has all descriptors behind the standard streams closed when this program starts another.
fn keep_descriptors_here() -> std::io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number: Option<RawFd> = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(number) = number.filter(|&number| number > 2) {
            // SAFETY: only a flag of the descriptor changes, and nothing is read, written or closed by it. One that is not open is refused (EBADF).
            #[allow(unsafe_code)]
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
        }
    }
    Ok(())
}

fn to_background() -> CommandResult {
    keep_descriptors_here().map_err(|e| failed("the caller's descriptors cannot be kept back", e))?;
    let program = std::env::current_exe().map_err(|e| failed("where this program is cannot be told", e))?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        std::os::unix::process::CommandExt::arg0(&mut command, name);
    }
    let mut child = command
        .args(arguments)
        .env(BACKGROUND, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed("the process in the background cannot be started", e))?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        // If it cannot listen, it ends without this line, and has logged the reason.
        let _ = BufReader::new(out).read_line(&mut line);
    }
    Ok(if line.trim() == LISTENS { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
