//! `percona-playback`: Percona's replayer of slow logs, as far as it reads them: its options and its report.
//!
//! It streams from standard input, as 0.5 to 0.7 did. What it does better is said in the docs: order by the start of statements, schemas
//! as the log tells them, no retries of statements that failed, and nothing but reads.
//! Source: the tool as described in seed-tools.md, section 4.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use link::{Login, Place, Secret};
use warmup::replay::target::Target;
use warmup::replay::{Sessions, Settings, Speed};

use crate::commands::replay::{self, Source};
use crate::exit::{Failure, Outcome};

/// The original's exit code for options that it does not take.
const WRONG_OPTION: u8 = 255;
/// Allows an account that may write: the seed's own command line logs in with one.
const WRITABLE_ENV: &str = "UNDERSTUDY_REPLAY_WRITABLE_ACCOUNT";

/// Replays the reads of a slow log on a server.
#[derive(Parser)]
#[command(name = "percona-playback", version, infer_long_args = true)]
struct PerconaPlayback {
    /// libmysqlclient; null is not served
    #[arg(long, value_name = "NAME", default_value = "libmysqlclient")]
    db_plugin: String,
    /// query-log; general-log and tcpdump are not served
    #[arg(long, value_name = "NAME", default_value = "query-log")]
    input_plugin: String,
    /// thread-per-connection or thread-pool
    #[arg(long, value_name = "NAME", default_value = "thread-per-connection")]
    dispatcher_plugin: String,
    /// Sessions of the thread pool [default: one for each processor]
    #[arg(long, value_name = "N")]
    thread_pool_threads_count: Option<usize>,
    /// Taken; memory is bounded otherwise
    #[arg(long, value_name = "N")]
    queue_depth: Option<u64>,
    /// Run by each session first
    #[arg(long, value_name = "SQL")]
    session_init_query: Option<String>,
    /// Do not print this report; may be given several times
    #[arg(long, value_name = "NAME")]
    disable_reporting_plugin: Vec<String>,
    /// The server
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    mysql_host: String,
    /// Its port
    #[arg(long, value_name = "N", default_value_t = 3306)]
    mysql_port: u16,
    /// Its unix socket, with --mysql-host=localhost
    #[arg(long, value_name = "PATH", default_value = "/var/lib/mysql/mysql.sock")]
    mysql_socket: PathBuf,
    /// The account
    #[arg(long, value_name = "NAME", default_value = "root")]
    mysql_username: String,
    /// Its password; better in UNDERSTUDY_PASSWORD, where `ps` does not show it
    #[arg(long, value_name = "PASSWORD", env = "UNDERSTUDY_PASSWORD", hide_env_values = true)]
    mysql_password: Option<String>,
    /// The schema that sessions begin in
    #[arg(long, value_name = "NAME", default_value = "test")]
    mysql_schema: String,
    /// Taken; a statement that failed is not sent again
    #[arg(long, value_name = "N")]
    mysql_max_retries: Option<u64>,
    /// Taken; the connection is always tested
    #[arg(long, value_name = "on|off")]
    mysql_test_connect: Option<String>,
    /// The slow log
    #[arg(long, value_name = "FILE", conflicts_with = "query_log_stdin")]
    query_log_file: Option<PathBuf>,
    /// The slow log comes from standard input
    #[arg(long)]
    query_log_stdin: bool,
    /// Keep recorded times
    #[arg(long)]
    query_log_accurate_mode: bool,
    /// Do not put statements into the order of their starts
    #[arg(long)]
    query_log_disable_sorting: bool,
    /// Taken; rows are compared in sum
    #[arg(long)]
    ignore_row_result_diffs: bool,
}

/// Runs it.
pub fn run() -> ExitCode {
    match PerconaPlayback::try_parse() {
        Ok(asked) => asked.play().unwrap_or_else(|failure| failure.tell()),
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { ExitCode::from(WRONG_OPTION) } else { ExitCode::SUCCESS }
        }
    }
}

impl PerconaPlayback {
    fn play(self) -> Outcome {
        for (option, value, served) in [
            ("--db-plugin", self.db_plugin.as_str(), &["libmysqlclient"][..]),
            ("--input-plugin", &self.input_plugin, &["query-log"]),
            ("--dispatcher-plugin", &self.dispatcher_plugin, &["thread-per-connection", "thread-pool"]),
        ] {
            if !served.contains(&value) {
                eprintln!("{option}={value} is not served here: {} is", served.join(" or "));
                return Ok(ExitCode::from(WRONG_OPTION));
            }
        }
        let source = match (self.query_log_file, self.query_log_stdin) {
            (Some(file), _) => Source::File(file),
            (None, true) => Source::Stdin,
            (None, false) => {
                eprintln!("no slow log is named: --query-log-file=FILE or --query-log-stdin");
                return Ok(ExitCode::from(WRONG_OPTION));
            }
        };
        let place = if self.mysql_host == "localhost" {
            Place::Unix(self.mysql_socket)
        } else {
            Place::Tcp(format!("{}:{}", self.mysql_host, self.mysql_port))
        };
        let secret =
            self.mysql_password.filter(|text| !text.is_empty()).map_or(Secret::None, Secret::Password);
        let mut login = Login::new(self.mysql_username, secret);
        login.database = Some(self.mysql_schema.into_bytes());
        let threads = self
            .thread_pool_threads_count
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        let settings = Settings {
            sessions: if self.dispatcher_plugin == "thread-pool" {
                Sessions::Pool(threads.max(1))
            } else {
                Sessions::PerConnection { idle_max: Duration::from_secs(60) }
            },
            speed: if self.query_log_accurate_mode { Speed::Recorded(1.0) } else { Speed::AtOnce },
            order_window: if self.query_log_disable_sorting {
                Duration::ZERO
            } else {
                Settings::default().order_window
            },
            ..Settings::default()
        };
        eprintln!("Database Plugin: {}\n Running...", self.db_plugin);
        let mut session_init: Vec<String> = self.session_init_query.into_iter().collect();
        session_init.retain(|sql| {
            let is_fake = sql.to_ascii_lowercase().contains("innodb_fake_changes");
            if is_fake {
                eprintln!("innodb_fake_changes is not set: no server has had it since 2017. Sessions are READ ONLY in its place.");
            }
            !is_fake
        });
        let target = Target { place, login, session_init };
        let may_write = std::env::var_os(WRITABLE_ENV).is_some();
        let played = replay::play(source, target, settings, may_write).map_err(|failure| match failure {
            Failure::Usage(why) => Failure::Failed(why),
            other => other,
        })?;
        if !self.disable_reporting_plugin.iter().any(|name| name == "simple_report") {
            print!("{}", played.figures.report(played.spent));
        }
        // The original ends with 0 whatever became of its queries.
        Ok(ExitCode::SUCCESS)
    }
}
