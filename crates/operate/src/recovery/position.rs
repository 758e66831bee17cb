//! `understudy recovery position`: where a stopped node stands, and proof that it is stopped. Run on the node's own host; a `proof_command`
//! for `bootstrap = "proven"`.
//!
//! ```text
//!   does a process use the data? ── grastate.dat ──(no seqno)── mariadbd --wsrep-recover ── does a process use the data now?
//! ```
//!
//! A process is looked for by the kernel's own books: the locks that InnoDB and Aria hold on their files, and every open file of every process.
//! Both are about the files themselves, so a pid file, a name or a port cannot deceive them. A frozen process counts as running.
//!
//! Nothing is written but what InnoDB's recovery writes, as at each start of the server.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use clap::Args;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use topology::galera::position::{self, Left};

use cli::duration::seconds;
use cli::exit::{CommandResult, Failure};

/// Files that a running server holds a lock on, or has open.
const HELD: [&str; 4] = ["ibdata1", "aria_log_control", "grastate.dat", "galera.cache"];
/// How often it is looked whether another of these commands has ended.
const TURN_GAP: Duration = Duration::from_millis(50);
/// The program prints its options so soon.
const OPTIONS_WITHIN: Duration = Duration::from_secs(10);
/// Of a recovery that failed, so many of its last lines are shown.
const SHOWN_LINES: usize = 3;
/// Where servers are, when PATH does not lead there.
const PLACES: [&str; 4] = ["/usr/sbin", "/usr/libexec", "/usr/bin", "/usr/local/sbin"];
/// Servers' names, the newer one first.
const PROGRAMS: [&str; 2] = ["mariadbd", "mysqld"];

/// For `--help`.
const MORE: &str = "\
Refuses when a process uses the data directory, when it is in the middle of a full copy (SST), and when its position cannot be told. Run it as root, \
or as the account of the server. Writes nothing but what InnoDB's recovery writes at each start.

Exit codes: 0 no process uses it, and its position is on standard output; 1 anything else; 2 wrong usage.";

/// Where the stopped server of a data directory stands, and that it is stopped.
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Where {
    /// The server's data directory, on this host
    #[arg(long, value_name = "DIR")]
    datadir: PathBuf,
    #[command(flatten)]
    means: Means,
}

/// How a position is found out.
#[derive(Args, Clone, Debug)]
pub struct Means {
    /// The server's program, for --wsrep-recover after a crash [default: mariadbd, or mysqld]
    #[arg(long, value_name = "PROGRAM")]
    mariadbd: Option<PathBuf>,
    /// The server's option file, when it is not where the program looks for it
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    /// How long --wsrep-recover may take
    #[arg(long, value_name = "TIME", default_value_t = 3600, value_parser = seconds(1..=86_400))]
    recover_s: u64,
}

impl Means {
    /// The server's program: the one that was named, or one that is installed.
    pub fn program(&self) -> Option<PathBuf> {
        self.mariadbd.clone().or_else(installed)
    }
}

impl Where {
    /// Looks, and prints.
    pub fn run(self) -> CommandResult {
        let left = cli::runtime::run(async {
            inspect(&self.datadir, &self.means).await.map_err(|why| Failure::Failed(why.to_string()))
        })?;
        let taken = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        print!("{}{}", left.lines(), position::taken(taken));
        Ok(ExitCode::SUCCESS)
    }
}

/// Why nothing is known of a data directory.
#[derive(Debug)]
pub enum Unknown {
    /// A process uses it.
    Runs(String),
    /// None does, and its position cannot be told; or it cannot even be looked at.
    Untold(String),
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Runs(why) | Self::Untold(why)) = self;
        f.write_str(why)
    }
}

/// What the stopped server of that data directory left.
///
/// # Errors
/// When it runs, or when that or its position cannot be told.
pub async fn inspect(datadir: &Path, means: &Means) -> Result<Left, Unknown> {
    let shown = datadir.display();
    let read = |name: &str| infile::read_text(datadir.join(name));
    let text = read("grastate.dat").map_err(|error| {
        Unknown::Untold(format!(
            "{shown}: cannot read grastate.dat ({error}): is it the data directory of a Galera node?"
        ))
    })?;
    let _mine = turn(datadir, Duration::from_secs(means.recover_s)).await?;
    unused(datadir)?;
    let grastate = position::grastate(&text).map_err(|why| Unknown::Untold(format!("{shown}: {why}")))?;
    if datadir.join("sst_in_progress").exists() || !grastate.has_data {
        let why = "it has no data of any cluster, or is in the middle of a full copy (SST)";
        return Err(Unknown::Untold(format!("{shown}: {why}: what it has is worth nothing")));
    }
    let (position, is_lower_bound) = match grastate.position {
        Ok(position) => (position, false),
        Err(_) => recover(datadir, means).await?,
    };
    let members = match read("gvwstate.dat") {
        Ok(text) => position::last_primary_view(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Unknown::Untold(format!("{shown}: cannot read gvwstate.dat: {error}"))),
    };
    // Somebody may have started it meanwhile.
    unused(datadir)?;
    Ok(Left { position, members, safe_to_bootstrap: grastate.safe_to_bootstrap, is_lower_bound })
}

/// One at a time: a server that is started only to tell its position would be taken for one that runs. The lock is on the directory, which no
/// server locks, and is let go of when the file is closed.
async fn turn(datadir: &Path, limit: Duration) -> Result<File, Unknown> {
    let cannot =
        |error: std::io::Error| Unknown::Untold(format!("cannot lock {}: {error}", datadir.display()));
    let directory = File::open(datadir).map_err(cannot)?;
    let until = tokio::time::Instant::now() + limit;
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(directory),
            Err(Errno::WOULDBLOCK) if tokio::time::Instant::now() < until => {
                tokio::time::sleep(TURN_GAP).await
            }
            Err(error) => return Err(cannot(error.into())),
        }
    }
}

/// No process holds a lock on its files, or has one open. Quick, and changes nothing.
///
/// # Errors
/// Who uses it, or why that cannot be told.
pub fn unused(datadir: &Path) -> Result<(), Unknown> {
    let mut files = BTreeSet::new();
    for name in HELD {
        let path = datadir.join(name);
        let cannot =
            |error: std::io::Error| Unknown::Untold(format!("cannot look at {}: {error}", path.display()));
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(cannot(error)),
        };
        let metadata = file.metadata().map_err(cannot)?;
        files.insert((metadata.dev(), metadata.ino()));
        let lock =
            fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)).map_err(|error| cannot(error.into()))?;
        if let Some(lock) = lock {
            let who = lock.pid.map_or_else(String::new, |pid| format!(" (process {})", pid.as_raw_nonzero()));
            return Err(Unknown::Runs(format!("a server runs{who}: it has locked {}", path.display())));
        }
    }
    for process in
        fs::read_dir("/proc").map_err(|error| Unknown::Untold(format!("cannot read /proc: {error}")))?
    {
        let Ok(process) = process else { continue };
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if !is_this_program(pid) {
            looked_at(pid, &files, datadir)?;
        }
    }
    Ok(())
}

/// Also in the moment in which this process starts another one, which has its open files until then.
fn is_this_program(pid: u32) -> bool {
    let file = |pid: u32| fs::metadata(format!("/proc/{pid}/exe")).map(|file| (file.dev(), file.ino())).ok();
    pid == std::process::id() || file(pid).is_some_and(|file_of| Some(file_of) == file(std::process::id()))
}

/// The process has none of these files open. One that has ended meanwhile has none.
fn looked_at(pid: u32, files: &BTreeSet<(u64, u64)>, datadir: &Path) -> Result<(), Unknown> {
    let open = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(open) => open,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = name.trim();
            if PROGRAMS.contains(&name) || name.is_empty() {
                return Err(Unknown::Untold(format!(
                    "process {pid} ({name}) may use {}, and its files cannot be looked at: run this as root, or as the account of the server",
                    datadir.display()
                )));
            }
            return Ok(());
        }
        Err(_) => return Ok(()),
    };
    for entry in open.flatten() {
        if let Ok(metadata) = fs::metadata(entry.path())
            && files.contains(&(metadata.dev(), metadata.ino()))
        {
            let file = fs::read_link(entry.path()).unwrap_or_default();
            return Err(Unknown::Runs(format!(
                "a server runs (process {pid}): it has {} open",
                file.display()
            )));
        }
    }
    Ok(())
}

/// Asks InnoDB, by the server's own program. While it runs it holds InnoDB's lock, so that no server can start on the same data. And whether
/// that is only a lower bound of what the server acknowledged.
async fn recover(datadir: &Path, means: &Means) -> Result<(position::Position, bool), Unknown> {
    let untold = |why: String| Unknown::Untold(format!("{}: {why}", datadir.display()));
    let program = means.program().ok_or_else(|| {
        untold("the server crashed, and neither mariadbd nor mysqld was found for --wsrep-recover: name it with --mariadbd".to_owned())
    })?;
    let mut command = with_options(&program, means);
    command.arg(format!("--datadir={}", datadir.display())).args([
        "--wsrep-recover",
        "--skip-networking",
        "--disable-log-error",
    ]);
    let owner = fs::metadata(datadir).map_err(|error| untold(error.to_string()))?.uid();
    if rustix::process::geteuid().is_root() {
        // It takes a number for a name, but refuses to be root unless that is said.
        command.arg(if owner == 0 { "--user=root".to_owned() } else { format!("--user={owner}") });
    }
    // What systemd tells its services by: a server that is started only to tell its position is not the service, and would talk in its
    // place.
    for name in
        ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]
    {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    let limit = Duration::from_secs(means.recover_s);
    let output = match tokio::time::timeout(limit, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(untold(format!("{} cannot be run: {error}", program.display()))),
        Err(_) => return Err(untold(format!("--wsrep-recover did not end within {} s", limit.as_secs()))),
    };
    let log =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" / ");
        return Err(untold(format!("--wsrep-recover failed ({}), and said: {last}", output.status)));
    }
    let position = position::recovered(&log).map_err(|why| {
        let is_off = log.contains("WSREP: disabled");
        let hint = if is_off {
            "; its option file does not load Galera: name the server's own with --defaults-file"
        } else {
            ""
        };
        untold(format!("{why}{hint}"))
    })?;
    Ok((position, flush_at_commit(&program, means).await != Some(1)))
}

/// The server's program with its option file.
fn with_options(program: &Path, means: &Means) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    if let Some(file) = &means.defaults_file {
        command.arg(format!("--defaults-file={}", file.display()));
    }
    command
}

/// innodb_flush_log_at_trx_commit by the server's option files; `None` where they do not tell. What somebody set while the server ran is gone
/// with it.
async fn flush_at_commit(program: &Path, means: &Means) -> Option<u8> {
    let mut command = with_options(program, means);
    command.arg("--print-defaults").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(OPTIONS_WITHIN, command.output()).await.ok()?.ok()?;
    let arguments = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| position::flush_at_commit(&arguments)).flatten()
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from)).collect();
    PROGRAMS
        .iter()
        .find_map(|name| places.iter().map(|place| place.join(name)).find(|program| program.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";

    fn means() -> Means {
        Means { mariadbd: Some("/no/such/program".into()), defaults_file: None, recover_s: 5 }
    }

    fn directory(uuid: &str, seqno: i64) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "# GALERA saved state\nversion: 2.1\nuuid:    {uuid}\nseqno:   {seqno}\nsafe_to_bootstrap: 1\n"
        );
        fs::write(dir.path().join("grastate.dat"), text).unwrap();
        fs::write(dir.path().join("ibdata1"), "x").unwrap();
        dir
    }

    #[tokio::test]
    async fn a_clean_stop_needs_no_recovery() {
        let dir = directory(UUID, 7);
        fs::write(dir.path().join("gvwstate.dat"), "member: a-1 0\n").unwrap();
        let left = inspect(dir.path(), &means()).await.unwrap();
        assert_eq!((left.position.seqno, left.safe_to_bootstrap), (7, true));
        assert_eq!(left.members, ["a-1"]);
    }

    #[tokio::test]
    async fn a_process_that_has_its_files_open_is_seen() {
        let dir = directory(UUID, 7);
        let file = File::open(dir.path().join("ibdata1")).unwrap();
        let mut holder =
            std::process::Command::new("sleep").arg("60").stdin(Stdio::from(file)).spawn().unwrap();
        let why = inspect(dir.path(), &means()).await;
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(matches!(&why, Err(Unknown::Runs(why)) if why.contains("ibdata1 open")), "{why:?}");
        // A child of another test has a copy of the file for the moment between its fork and its exec.
        let released = async {
            while inspect(dir.path(), &means()).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        assert!(
            tokio::time::timeout(Duration::from_secs(20), released).await.is_ok(),
            "nobody has it open any more"
        );
    }

    #[tokio::test]
    async fn a_recovered_position_is_a_lower_bound_unless_each_commit_was_written_at_once() {
        use std::os::unix::fs::PermissionsExt as _;
        for (options, is_lower_bound) in [
            ("echo --port=1", false),
            ("echo --innodb-flush-log-at-trx-commit=1", false),
            ("echo --innodb_flush_log_at_trx_commit=2", true),
            ("exit 1", true),
        ] {
            let dir = directory(UUID, -1);
            let program = dir.path().join("server");
            let script = format!(
                "#!/bin/sh\ncase \"$*\" in *--print-defaults*) {options};; *) echo 'WSREP: Recovered position: {UUID}:9';; esac\n"
            );
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let means = Means { mariadbd: Some(program), ..means() };
            let left = inspect(dir.path(), &means).await.unwrap();
            assert_eq!((left.position.seqno, left.is_lower_bound), (9, is_lower_bound), "{options}");
        }
        // A clean stop has written everything.
        assert!(!inspect(directory(UUID, 7).path(), &means()).await.unwrap().is_lower_bound);
    }

    #[tokio::test]
    async fn what_cannot_be_told_is_no_position() {
        let crashed = directory(UUID, -1);
        let why = inspect(crashed.path(), &means()).await.unwrap_err().to_string();
        assert!(why.contains("/no/such/program cannot be run"), "{why}");
        let empty = directory("00000000-0000-0000-0000-000000000000", -1);
        let why = inspect(empty.path(), &means()).await.unwrap_err().to_string();
        assert!(why.contains("worth nothing"), "{why}");
        let copying = directory(UUID, 7);
        fs::write(copying.path().join("sst_in_progress"), "").unwrap();
        assert!(inspect(copying.path(), &means()).await.is_err());
        let why = inspect(Path::new("/no/such/directory"), &means()).await.unwrap_err().to_string();
        assert!(why.contains("is it the data directory"), "{why}");
    }
}
