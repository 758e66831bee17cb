//! `clustercheck`: the output of the shell script of that name, byte for byte, and its exit code, but it cannot hang like the script.
//!
//! ```text
//!   clustercheck [USER] [PASS] [AVAILABLE_WHEN_DONOR] [LOG_FILE] [AVAILABLE_WHEN_READONLY] [DEFAULTS_EXTRA_FILE]
//! ```
//!
//! An argument takes precedence over the sysconfig file, that over the environment, that over the default. Sources: the script
//! (olafz/percona-clustercheck), Percona XtraDB Cluster's version of it and their READMEs, as described in seed-tools.md, section 1.
//!
//! Under xinetd, standard output and standard error are the client's socket, so only the answer is written there; reasons are written to
//! LOG_FILE.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use health::answer::{Answer, AnswerKind};
use health::refresh;
use health::style::Style;
use topology::health::{Question, Rules};

use super::sysconfig::Sysconfig;
use mycnf::Options;
use nodecheck::database::{Database, system_user};
use nodecheck::once::Once;
use nodecheck::reply::{give, remark};
use nodecheck::{USER, disabled_file};

const USAGE: &str =
    "<user> <pass> <available_when_donor=0|1> <log_file> <available_when_readonly=0|1> <defaults_extra_file>";
/// From the original's documentation.
const PASSWORD: &str = "clustercheckpassword!";
const DEFAULTS_EXTRA_FILE: &str = "/etc/my.cnf";
/// The environment variable that passes the password from the first execution of the program to the second.
const HIDDEN: &str = "UNDERSTUDY_HIDDEN_PASSWORD";
/// Replaces the password on the command line.
const MASK: &str = "********";
/// An older answer of a running check is not used; then the database is queried.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Runs the command.
pub fn run() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let first = arguments.first().map(|first| first.to_string_lossy());
    match first.as_deref() {
        Some("-h" | "--help") => {
            give(format!("Usage: clustercheck {USAGE}\n").as_bytes());
            return ExitCode::SUCCESS;
        }
        // The original would take it for a user name. No user has such a name; the caller meant an option.
        Some(option) if option.starts_with("--") => {
            let why = format!("{option} is not an option; usage: clustercheck {USAGE}");
            remark(&why);
            give(&Style::Clustercheck.text(&Answer::new(AnswerKind::Unknown, why, Duration::ZERO)));
            return ExitCode::from(2);
        }
        _ => {}
    }
    if let Some(answer) = refresh::disabled(&disabled_file()) {
        return tell(&answer, None);
    }
    hide_password(&mut arguments);
    let settings = CheckSettings { arguments, sysconfig: Sysconfig::read() };
    settings.check()
}

/// Every user can see a command line in `ps`. The program executes itself again with the password in its environment, which only its own
/// user and root can read. It remains the same process, with the same standard input and output.
fn hide_password(arguments: &mut [OsString]) {
    let Some(password) = arguments.get_mut(1).filter(|password| !password.is_empty()) else { return };
    if *password == MASK
        && let Some(hidden) = std::env::var_os(HIDDEN)
    {
        *password = hidden;
        return;
    }
    let hidden = std::mem::replace(password, MASK.into());
    let called = std::env::args_os().next().unwrap_or_else(|| "clustercheck".into());
    // Returns only on failure: then the password stays visible for the duration of the check.
    let _failed =
        Command::new("/proc/self/exe").arg0(called).args(arguments.iter()).env(HIDDEN, &hidden).exec();
    arguments[1] = hidden;
}

struct CheckSettings {
    arguments: Vec<OsString>,
    sysconfig: Sysconfig,
}

impl CheckSettings {
    /// A setting by its position on the command line (from 1) or its name.
    fn get(&self, place: usize, name: &str) -> Option<String> {
        let argument = self.arguments.get(place - 1).map(|text| text.to_string_lossy().into_owned());
        // For the first two, an empty value is meaningful: "give the client no such option".
        let argument = argument.filter(|text| place <= 2 || !text.is_empty());
        argument.or_else(|| self.sysconfig.get(name).filter(|text| place <= 2 || !text.is_empty()))
    }

    /// A switch as in the shell's arithmetic: any text that is not a number is 0.
    fn number(&self, place: usize, name: &str, default: i64) -> i64 {
        self.get(place, name).map_or(default, |text| text.trim().parse().unwrap_or(0))
    }

    fn check(&self) -> ExitCode {
        let log = self.get(4, "ERR_FILE").map(PathBuf::from);
        let file = self.get(6, "DEFAULTS_EXTRA_FILE").unwrap_or_else(|| DEFAULTS_EXTRA_FILE.into());
        let mut remarks = self.sysconfig.remarks.clone();
        // The original skips the file when it cannot be read.
        let extra = Some(Path::new(&file)).filter(|file| match std::fs::File::open(file) {
            Ok(_) => true,
            Err(e) if file != &Path::new(DEFAULTS_EXTRA_FILE) => {
                remarks.push(format!("{}: cannot be read: {e}", file.display()));
                false
            }
            Err(_) => false,
        });
        let given = |place, name, default: &str| {
            Some(self.get(place, name).unwrap_or_else(|| default.into())).filter(|text| !text.is_empty())
        };
        let said = Options {
            user: given(1, "MYSQL_USERNAME", USER),
            password: given(2, "MYSQL_PASSWORD", PASSWORD),
            ..Options::default()
        };
        let rules = Rules {
            donor: self.number(3, "AVAILABLE_WHEN_DONOR", 0) == 1,
            read_only: self.number(5, "AVAILABLE_WHEN_READONLY", 1) != 0,
            ..Rules::STRICT
        };
        let database = Options::standard(extra).map_err(|why| why.to_string());
        let database = database
            .and_then(|files| Database::of(said.or(files), system_user).map_err(|why| why.text().to_owned()));
        let (answer, place) = match database {
            Err(why) => (Answer::new(AnswerKind::Unknown, why, Duration::ZERO), String::new()),
            Ok(database) => {
                let place = database.shown();
                let socket = database.target.file();
                let question = Question::Member(rules);
                let once = Once { database, question, socket, age_max: AGE_MAX, disabled_file: None };
                (once.answer(), place)
            }
        };
        if !answer.is_good() {
            remarks.push(format!("{place} {}", answer.reason).trim_start().to_owned());
        }
        tell(&answer, log.map(|log| (log, remarks)))
    }
}

/// Writes the answer for the client and the reason to the log. The log is truncated at each check, as in the original.
fn tell(answer: &Answer, log: Option<(PathBuf, Vec<String>)>) -> ExitCode {
    give(&Style::Clustercheck.text(answer));
    if let Some((file, remarks)) = log {
        let written =
            create(&file).and_then(|mut log| remarks.iter().try_for_each(|remark| writeln!(log, "{remark}")));
        if let Err(e) = written {
            remark(&format!("the log file {} cannot be written: {e}", file.display()));
        }
    }
    if answer.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Truncates or creates the log. O_NONBLOCK: a named pipe without a reader gives an error instead of blocking.
fn create(file: &Path) -> std::io::Result<std::fs::File> {
    let without_waiting = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(without_waiting)
        .open(file)
}
