//! `understudy check`: may this database node take traffic? As a server that answers all the time, or once.

pub mod account;
pub mod database;
pub mod door;
pub mod local;
pub mod once;
pub mod reply;
pub mod sockets;
pub mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use health::answer::Answer;
use health::duration;
use health::style::{self, Style};
use topology::health::{Question, Rules};

use crate::account::password;
use cli::duration::milliseconds;
use cli::exit::{CommandResult, Failure};
use cli::exposed;
use database::Database;
use mycnf::Options;
use once::Once;
use sockets::Sockets;
use watch::Watch;

/// Where HTTP is answered when nobody says: clustercheck's port, IPv6 and IPv4.
const LISTEN: &str = "[::]:9200";
/// Whom the original logs in as when nobody says.
pub const USER: &str = "clustercheckuser";
/// The original's file.
const DISABLED_FILE: &str = "/var/tmp/clustercheck.disabled";
/// Names another one, also for the drop-ins.
const DISABLED_FILE_ENV: &str = "UNDERSTUDY_DISABLED_FILE";
/// The password, before that of an option file.
const PASSWORD_ENV: &str = "UNDERSTUDY_CHECK_PASSWORD";
/// No database answers reliably in less.
const ANSWER_TIME_MIN_MS: u64 = 100;

/// For `--help`.
const MORE: &str = "\
The answer is clustercheck's, byte for byte, whatever is asked. Some paths have their own: /status (every fact, as JSON), /writer, \
/replica?max_lag=2s, /metrics. ?donor=1, ?readonly=0 and ?drained=1 hold for one question.

Stays in the foreground and logs to standard error (level: UNDERSTUDY_LOG, default info), until SIGTERM or SIGINT. SIGHUP reads user and \
password again. Sockets that systemd \
passes are used as well; one with FileDescriptorName=agent is for the agent check.

The password comes from --password-file, else from UNDERSTUDY_CHECK_PASSWORD, else from an option file; never from the command line.

--role writer means: this server may take writes. Where `understudy serve` answers, it means: it is the writer in force.

Exit codes of --once: 0 it may; 1 it must not, or cannot be asked; 2 wrong usage.";

/// Asks one MariaDB or MySQL server whether it may take traffic, and tells whoever asks.
#[derive(Args, Clone)]
#[command(after_help = MORE)]
pub struct Check {
    #[arg(
        long,
        help = "Answer over HTTP here; may be given several times [default: [::]:9200, which takes IPv4 too]",
        value_name = "ADDR:PORT",
        conflicts_with = "once"
    )]
    listen: Vec<String>,
    /// Answer HAProxy's agent check here; may be given several times
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "once")]
    agent: Vec<String>,
    /// Print one answer and end: asks a running check or serve of the same database first, then the database itself
    #[arg(long)]
    once: bool,
    /// With --once: whether this machine's `understudy serve` takes clients; no database is asked
    #[arg(long, requires = "once")]
    serve: bool,
    /// With --serve: its configuration [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE", requires = "serve")]
    config: Option<PathBuf>,
    /// With --once: what is asked
    #[arg(long, value_enum, default_value = "member", requires = "once")]
    role: Role,
    /// With --role replica: how far it may be behind, as 2s or 500ms [default: however far]
    #[arg(long, value_name = "TIME", value_parser = lag, requires = "once")]
    max_lag: Option<Duration>,
    /// Whose bytes are answered
    #[arg(long, value_enum, default_value = "clustercheck")]
    style: Whose,
    /// A node that feeds another (Donor/Desynced) may take traffic
    #[arg(long)]
    available_when_donor: bool,
    /// A node with read_only set must not take traffic
    #[arg(long)]
    no_available_when_readonly: bool,
    /// The server's host; localhost means its unix socket [default: as for the mysql client]
    #[arg(long, value_name = "NAME", conflicts_with = "mysql_socket")]
    host: Option<String>,
    /// The server's port [default: 3306]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "mysql_socket")]
    port: Option<u16>,
    /// The server's unix socket
    #[arg(long, value_name = "PATH")]
    mysql_socket: Option<PathBuf>,
    /// The account [default: the option file's, else clustercheckuser]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[arg(
        long,
        help = "Read only this option file ([client], [mysql], ...) instead of /etc/my.cnf, /etc/mysql/my.cnf and ~/.my.cnf",
        value_name = "FILE",
        conflicts_with = "defaults_extra_file"
    )]
    defaults_file: Option<PathBuf>,
    /// Read this option file as well
    #[arg(long, value_name = "FILE")]
    defaults_extra_file: Option<PathBuf>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// From one question to the database to the next
    #[arg(long, value_name = "TIME", default_value_t = 200, value_parser = milliseconds(10..=3_600_000))]
    interval_ms: u64,
    /// An answer older than this is none: 503. At least 100 more than --interval-ms; nine tenths of the difference are the database's
    #[arg(long, value_name = "TIME", default_value_t = 1000, value_parser = milliseconds(20..=7_200_000))]
    stale_ms: u64,
    /// While this file exists, the answer is 503
    #[arg(long, value_name = "FILE", env = DISABLED_FILE_ENV, default_value = DISABLED_FILE)]
    disabled_file: PathBuf,
    /// The unix socket between the command and a running check [default: /run/understudy/..., by the database]
    #[arg(long, value_name = "PATH")]
    answer_socket: Option<PathBuf>,
    /// Refused: it was the name of --answer-socket, and is the server's socket in every MySQL client
    #[arg(long, value_name = "PATH", hide = true)]
    socket: Option<PathBuf>,
}

/// Whose bytes.
#[derive(Clone, Copy, ValueEnum)]
enum Whose {
    /// The shell script's
    Clustercheck,
    /// Percona XtraDB Cluster's version of it
    Pxc,
    /// The Python server's
    Pyclustercheck,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// May it take traffic, as a member of a Galera cluster
    Member,
    /// May it take writes
    Writer,
    /// Does it replicate, and closely enough
    Replica,
}

impl Check {
    /// Serves, or answers once.
    pub fn run(self) -> CommandResult {
        if self.stale_ms < self.interval_ms + ANSWER_TIME_MIN_MS {
            return Err(Failure::usage(format!(
                "--stale-ms is {} and must be at least {ANSWER_TIME_MIN_MS} more than --interval-ms, {}: that is the time which the \
                 database has for its answer",
                self.stale_ms, self.interval_ms
            )));
        }
        if self.max_lag.is_some() && self.role != Role::Replica {
            return Err(Failure::usage("--max-lag is for --role replica"));
        }
        if self.serve && self.role != Role::Member {
            return Err(Failure::usage("--serve asks about Understudy itself, which has no --role"));
        }
        if let Some(socket) = &self.socket {
            let socket = socket.display();
            return Err(Failure::usage(format!(
                "--socket {socket} could mean two sockets: write --mysql-socket {socket} for the database server's, or --answer-socket \
                 {socket} for the one between this command and a running check"
            )));
        }
        if self.serve {
            return Ok(tell(&door::answer(self.config.as_deref())?));
        }
        let secrets = [&self.password_file, &self.defaults_file, &self.defaults_extra_file];
        let exposed = secrets.into_iter().flatten().filter_map(|file| exposed::file(file)).collect();
        let arguments = self.clone();
        let read = move || Database::of(arguments.options()?, || USER.into());
        let database = read()?;
        let read_login = Box::new(move || Ok(read()?.login));
        let socket = self.answer_socket.unwrap_or_else(|| database.target.file());
        let (donor, read_only) = (self.available_when_donor, !self.no_available_when_readonly);
        let rules = Rules { donor, read_only, ..Rules::STRICT };
        let style = match self.style {
            Whose::Clustercheck => Style::Clustercheck,
            Whose::Pxc => Style::Pxc,
            Whose::Pyclustercheck => Style::Pyclustercheck,
        };
        let age_max = Duration::from_millis(self.stale_ms);
        let disabled_file = Some(self.disabled_file);
        if self.once {
            let question = match self.role {
                Role::Member => Question::Member(rules),
                Role::Writer => Question::Writer,
                Role::Replica => Question::Replica { lag_max: self.max_lag },
            };
            return Ok(print(&Once { database, question, socket, age_max, disabled_file }, style));
        }
        let sockets = Sockets::open(&self.listen, &self.agent, LISTEN)?;
        let interval = Duration::from_millis(self.interval_ms);
        Watch { database, read_login, interval, age_max, disabled_file, rules, style, socket, exposed }
            .run(sockets)
    }

    /// What the command line, the password's place and the option files say of the database.
    fn options(&self) -> Result<Options, Failure> {
        let files = match &self.defaults_file {
            Some(file) => Options::of_file(file),
            None => Options::standard(self.defaults_extra_file.as_deref()),
        };
        let password = password(self.password_file.as_deref(), PASSWORD_ENV)?;
        let said = Options {
            user: self.user.clone(),
            password,
            host: self.host.clone(),
            port: self.port,
            socket: self.mysql_socket.clone(),
            ..Options::default()
        };
        Ok(said.or(files.map_err(Failure::usage)?))
    }
}

/// One sentence about this machine's Understudy.
fn tell(answer: &Answer) -> ExitCode {
    reply::give(format!("understudy serve {}\n", answer.reason).as_bytes());
    if answer.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The style's answer for a program, the reason for a person.
fn print(once: &Once, style: Style) -> ExitCode {
    let answer = once.answer();
    let bytes = match once.question {
        Question::Member(_) => style.text(&answer),
        Question::Writer | Question::Replica { .. } => style::role(&answer),
    };
    reply::give(&bytes);
    if answer.is_good() {
        ExitCode::SUCCESS
    } else {
        reply::remark(&format!("{} {}", once.database.shown(), answer.reason));
        ExitCode::FAILURE
    }
}

/// While it exists, the node is not to be used.
pub fn disabled_file() -> PathBuf {
    std::env::var_os(DISABLED_FILE_ENV).map_or_else(|| DISABLED_FILE.into(), PathBuf::from)
}

fn lag(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| "it must be a time such as 2s or 500ms".into())
}
