//! `percona-playback`: Percona's replayer of slow logs, with its options and its report; other input formats are not supported.
//!
//! It reads standard input as a stream, as 0.5 to 0.7 did. The docs list what it does better: order by the start of statements, schemas
//! from the log, no retries of failed statements, and only reads. Source: the tool as described in seed-tools.md, section 4.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use link::{Endpoint, LinkError, Login};
use protocol::errno::{BAD_DB_ERROR, DBACCESS_DENIED_ERROR};
use warmup::replay::target::Target;
use warmup::replay::{Sessions, Speed};

use cli::exit::{CommandResult, Failure};
use cli::runtime;
use operate::replay::{self, Source};

/// The original's exit code for unknown options.
const WRONG_OPTION: u8 = 255;
/// Allows an account with write privileges: the seed article's own command line logs in with one.
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
    /// Taken, without effect: memory is bounded otherwise
    #[arg(long, value_name = "N")]
    queue_depth: Option<u64>,
    /// Taken, without effect: the log is replayed once
    #[arg(long, value_name = "N")]
    r#loop: Option<u64>,
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
    /// The schema that sessions begin in [default: test, where it is there and the account may use it; otherwise none]
    #[arg(long, value_name = "NAME")]
    mysql_schema: Option<String>,
    /// Taken, without effect: a statement that failed is not sent again
    #[arg(long, value_name = "N")]
    mysql_max_retries: Option<u64>,
    /// Taken, without effect: errors are counted by class, and none is printed
    #[arg(long, value_name = "REGEX")]
    mysql_filter_error: Option<String>,
    /// Taken, without effect: the connection is always tested
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
    /// The same as --query-log-accurate-mode
    #[arg(long)]
    query_log_preserve_query_startime: bool,
    /// Taken, without effect: the log is read once
    #[arg(long, value_name = "N")]
    query_log_read_count: Option<u64>,
    /// Taken, without effect: statements run in the standby's time
    #[arg(long)]
    query_log_set_timestamp: bool,
    /// Taken, without effect: statements take as long as they take
    #[arg(long)]
    query_log_preserve_query_time: bool,
    /// Taken, without effect: the order is that of the starts
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "1")]
    query_log_use_innodb_trx_id: Option<String>,
    /// Taken, without effect: connections are counted, and not listed
    #[arg(long)]
    show_per_connection_query_count: bool,
    /// Taken, without effect: rows are compared in sum
    #[arg(long)]
    ignore_row_result_diffs: bool,
}

/// Runs the command.
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
    /// A sentence for each given option that has no effect.
    fn without_effect(&self) -> Vec<String> {
        [
            (self.queue_depth.is_some(), "--queue-depth", "what waits is bounded by its bytes"),
            (self.r#loop.is_some(), "--loop", "the log is replayed once"),
            (
                self.mysql_max_retries.is_some(),
                "--mysql-max-retries",
                "a statement that failed is not sent again",
            ),
            (
                self.mysql_filter_error.is_some(),
                "--mysql-filter-error",
                "errors are counted by class, and none is printed",
            ),
            (self.mysql_test_connect.is_some(), "--mysql-test-connect", "the connection is always tested"),
            (self.query_log_read_count.is_some(), "--query-log-read-count", "the log is read once"),
            (
                self.query_log_set_timestamp,
                "--query-log-set-timestamp",
                "statements run in the standby's time",
            ),
            (
                self.query_log_preserve_query_time,
                "--query-log-preserve-query-time",
                "statements take as long as they take",
            ),
            (
                self.query_log_use_innodb_trx_id.is_some(),
                "--query-log-use-innodb-trx-id",
                "the order is that of the starts",
            ),
            (
                self.show_per_connection_query_count,
                "--show-per-connection-query-count",
                "connections are counted, and not listed",
            ),
            (
                self.ignore_row_result_diffs,
                "--ignore-row-result-diffs",
                "rows are compared in sum, and no difference is printed",
            ),
        ]
        .into_iter()
        .filter(|(is_given, ..)| *is_given)
        .map(|(_, option, why)| format!("{option} has no effect here: {why}."))
        .collect()
    }

    fn play(self) -> CommandResult {
        self.without_effect().iter().for_each(|sentence| eprintln!("{sentence}"));
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
            Endpoint::Unix(self.mysql_socket)
        } else {
            Endpoint::Tcp(format!("{}:{}", self.mysql_host, self.mysql_port))
        };
        let mut login = Login::with_password(self.mysql_username, self.mysql_password.unwrap_or_default());
        login.database = Some(self.mysql_schema.as_deref().unwrap_or("test").into());
        let threads = self
            .thread_pool_threads_count
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        let settings = warmup::replay::Settings {
            sessions: if self.dispatcher_plugin == "thread-pool" {
                Sessions::Pool(threads.max(1))
            } else {
                Sessions::PerConnection { idle_max: Duration::from_secs(60) }
            },
            speed: if self.query_log_accurate_mode || self.query_log_preserve_query_startime {
                Speed::Recorded(1.0)
            } else {
                Speed::AtOnce
            },
            order_window: if self.query_log_disable_sorting {
                Duration::ZERO
            } else {
                warmup::replay::Settings::default().order_window
            },
            ..warmup::replay::Settings::default()
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
        let mut target = Target { place, login, session_init };
        if self.mysql_schema.is_none() && !may_use_schema(&target)? {
            eprintln!("Schema test is not there or not this account's: sessions begin without one.");
            target.login.database = None;
        }
        let may_write = std::env::var_os(WRITABLE_ENV).is_some();
        let name = source.name();
        let played = replay::play(source, target, settings, may_write).map_err(|failure| match failure {
            Failure::Usage(why) => Failure::Failed(why),
            other => other,
        })?;
        // A reader that has enough, as in `| head`, ends it.
        sigpipe::reset();
        let is_wanted = |report: &str| !self.disable_reporting_plugin.iter().any(|name| name == report);
        if is_wanted("simple_report") {
            print!("{}", played.figures.report());
        }
        if is_wanted("full_report") {
            print!("{}", played.figures.detailed_report());
        }
        // The report has its lines; what it does not count is said beside it.
        played.figures.account().iter().for_each(|line| eprintln!("{line}"));
        played.found_entries(&name)?;
        // The original exits with 0 regardless of failed queries.
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether the server lets the account begin in its schema. Any other refusal is for the replay to tell.
fn may_use_schema(target: &Target) -> Result<bool, Failure> {
    runtime::run(async {
        let tried = target.connect().await;
        Ok(!matches!(tried, Err(LinkError::Rejected { errno: DBACCESS_DENIED_ERROR | BAD_DB_ERROR, .. })))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_effect_are_said_and_unknown_ones_refused() {
        let given = |args: &[&str]| {
            let all = [&["percona-playback", "--query-log-stdin"], args].concat();
            PerconaPlayback::try_parse_from(all).map(|asked| asked.without_effect())
        };
        assert_eq!(
            given(&["--mysql-host=db2", "--thread-pool-threads-count", "8"]).unwrap(),
            Vec::<String>::new()
        );
        for option in [
            "--queue-depth=5",
            "--loop=3",
            "--mysql-max-retries=1",
            "--mysql-filter-error=.*",
            "--mysql-test-connect=off",
            "--query-log-read-count=2",
            "--query-log-set-timestamp",
            "--query-log-preserve-query-time",
            "--query-log-use-innodb-trx-id=1",
            "--show-per-connection-query-count",
            "--ignore-row-result-diffs",
        ] {
            let name = option.split('=').next().unwrap();
            let said = given(&[option]).unwrap();
            assert!(said.len() == 1 && said[0].starts_with(name), "{option}: {said:?}");
        }
        for option in ["--tcpdump-file=x", "--general-log-stdin", "--libdrizzle-host=x", "--nothing"] {
            assert!(given(&[option]).is_err(), "{option}");
        }
    }
}
