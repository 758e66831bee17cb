//! `myq_status`: one line per second about the activity of a Galera node, in the classic columns; from a running server, or from the output
//! of `mysqladmin ext -i 1`.
//!
//! ```text
//!   server   ──SHOW GLOBAL STATUS──┐
//!                                  ├──> columns: a status and the one before it ──> a line
//!   recorded ──mysqladmin's tables─┘
//! ```
//!
//! It changes nothing on the server. The original sent FLUSH STATUS after each line, which resets the counters for everybody who reads
//! them; this one does not.

mod columns;
mod number;
mod recorded;

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Parser};
use link::{Link, LinkError, Rows};
use time::{OffsetDateTime, UtcOffset};
use tokio::time::{MissedTickBehavior, interval};

use self::columns::{Lines, Names, Status, View};
use self::recorded::{Next, Recorded};
use cli::exit::{CommandResult, Failure};
use mycnf::Options;
use nodecheck::database::{Database, system_user};

const STATUS: &str = "SHOW GLOBAL STATUS";
const VARIABLES: &str =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_cluster_name','wsrep_node_name','version')";
/// The time limit of connecting with login, and of each query.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// The variable that MySQL's own clients read.
const PASSWORD_ENV: &str = "MYSQL_PWD";

/// What a Galera node does, a line a second. Modes: wsrep, wsrep_latency.
#[derive(Parser)]
#[command(name = "myq_status", version, disable_help_flag = true)]
struct MyqStatus {
    /// Print this and exit
    #[arg(short = '?', long = "help", action = ArgAction::Help)]
    _help: Option<bool>,
    /// As whom to log in [default: as the mysql client]
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,
    /// The password; it can be seen in the list of processes: rather put it in ~/.my.cnf or MYSQL_PWD
    #[arg(short, value_name = "PASSWORD", num_args = 0..=1, default_missing_value = "")]
    password: Option<String>,
    /// The server's host; localhost means its unix socket
    #[arg(short = 'h', long, value_name = "NAME")]
    host: Option<String>,
    /// The server's port
    #[arg(short = 'P', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The server's unix socket
    #[arg(short = 'S', long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    socket: Option<PathBuf>,
    /// Seconds between two lines
    #[arg(short = 't', value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Read what `mysqladmin ext -i 1` wrote to this file (- is standard input), and no server
    #[arg(short = 'f', value_name = "FILE", conflicts_with_all = ["host", "port", "socket", "user", "password"])]
    file: Option<PathBuf>,
    /// Accepted, as the original has it; there is nothing to debug
    #[arg(short = 'd')]
    _debug: bool,
    /// What is shown
    mode: String,
}

/// Runs the command; `arguments` begin with the program's name.
pub fn run(arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    sigpipe::reset();
    let arguments = match MyqStatus::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    arguments.show().unwrap_or_else(|failure| failure.tell())
}

impl MyqStatus {
    fn show(&self) -> CommandResult {
        let view = match self.mode.as_str() {
            "wsrep" => View::Wsrep,
            "wsrep_latency" => View::Latency,
            other => {
                return Err(Failure::usage(format!(
                    "there is no mode {other} here: wsrep and wsrep_latency are shown; `understudy top` shows a whole cluster"
                )));
            }
        };
        match &self.file {
            Some(file) if file == Path::new("-") => recorded(view, "standard input", std::io::stdin().lock()),
            Some(file) => {
                let opened = File::open(file)
                    .map_err(|e| Failure::usage(format!("{} cannot be read: {e}", file.display())))?;
                recorded(view, &file.display().to_string(), BufReader::new(opened))
            }
            None => self.live(view),
        }
    }

    fn live(&self, view: View) -> CommandResult {
        // The local time zone can be determined only while the process has one thread.
        let offset = UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC);
        let password = match self.password.as_deref() {
            Some("") => {
                let message = "-p alone would ask for the password, which this does not do: put it in ~/.my.cnf, in MYSQL_PWD, or right behind -p";
                return Err(Failure::usage(message));
            }
            Some(password) => Some(password.to_owned()),
            None => std::env::var(PASSWORD_ENV).ok(),
        };
        let said = Options {
            user: self.user.clone(),
            password,
            host: self.host.clone(),
            port: self.port,
            socket: self.socket.clone(),
            ..Options::default()
        };
        let database = Database::of(said.or(Options::standard(None).map_err(Failure::usage)?), system_user)?;
        let place = database.shown();
        let every = Duration::from_secs(u64::from(self.seconds));
        let runtime = cli::runtime::start()?;
        runtime.block_on(async {
            let message = |e: LinkError| match e {
                LinkError::Rejected { errno, message, .. } => {
                    Failure::Failed(format!("{place} refuses: {message} ({errno})"))
                }
                e => Failure::Unreachable(format!("{place} does not answer: {e}")),
            };
            let mut link = Link::connect_to(database.whereabouts.now(), &database.login, ANSWER_TIME_MAX)
                .await
                .map_err(message)?;
            let variables = link.query(VARIABLES, ANSWER_TIME_MAX).await.map_err(message)?;
            let variable = |name: &str| variables.value_of(name).unwrap_or_default().to_owned();
            let names = Names {
                cluster: variable("wsrep_cluster_name"),
                node: variable("wsrep_node_name"),
                version: variable("version"),
            };
            let mut lines = Lines::new(view, names);
            let mut tick = interval(every);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let now = OffsetDateTime::now_utc().to_offset(offset);
                let time = format!("{:02}:{:02}:{:02}", now.hour(), now.minute(), now.second());
                let status = status(&link.query(STATUS, ANSWER_TIME_MAX).await.map_err(message)?);
                if !status.is_of_galera() {
                    return Err(Failure::usage(format!(
                        "{place} is no Galera node: its status has no wsrep_local_state_comment"
                    )));
                }
                write(&lines.line(&time, status))?;
            }
        })
    }
}

fn status(rows: &Rows) -> Status {
    Status::of((0..rows.len()).filter_map(|row| Some((rows.text(row, 0)?, rows.text(row, 1)?))))
}

/// Prints the lines of a recording; their time is the seconds since its first table, by the server's uptime.
fn recorded(view: View, name: &str, lines: impl std::io::BufRead) -> CommandResult {
    let mut tables = Recorded::new(lines);
    let mut lines = Lines::new(view, Names::default());
    let mut first_uptime_s = None;
    loop {
        let next = tables.next().map_err(|problem| Failure::usage(format!("{name} {problem}")))?;
        let status = match next {
            Next::Table(status) => status,
            Next::End => return Ok(ExitCode::SUCCESS),
            Next::CutOff(line) => {
                eprintln!("{name} ends within the table that begins in line {line}, which is left out");
                return Ok(ExitCode::SUCCESS);
            }
        };
        if !status.is_of_galera() {
            let why = "is not of a Galera node: its tables have no wsrep_local_state_comment";
            return Err(Failure::usage(format!("{name} {why}")));
        }
        let uptime_s = status.uptime_s().ok_or_else(|| {
            Failure::usage(format!("{name} has a table without Uptime, so that nothing can be told a second"))
        })?;
        let since_s = uptime_s.saturating_sub(*first_uptime_s.get_or_insert(uptime_s));
        write(&lines.line(&format!("{since_s:>8}"), status))?;
    }
}

fn write(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failure::Failed(format!("standard output cannot be written: {e}")))
}
