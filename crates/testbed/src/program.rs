//! The program from outside, as a user would run it: one command with a deadline, or `understudy serve` as a child process.
//!
//! Enters: arguments and a configuration file. Leaves: what was said, and how it ended. Nothing here looks inside of the
//! program. Invariant: no child outlives its value, nor this test program (the kernel kills it then).

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fixture::wait::within;
pub use fixture::wait::{LONG, until};
use tempfile::TempDir;

use crate::described::Description;

/// The program. Cargo builds it before its tests, into the directory above theirs.
pub fn bin() -> &'static str {
    static BIN: OnceLock<String> = OnceLock::new();
    BIN.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let built = test.ancestors().nth(2).unwrap().join("understudy");
        assert!(built.exists(), "{} is not built", built.display());
        built.into_os_string().into_string().unwrap()
    })
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; a command that was killed by a signal fails the test.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// From its start.
    pub took: Duration,
}

impl Ended {
    /// Both streams.
    pub fn said(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// Standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.said()))
    }

    /// What it said, when it ended with this code; the test fails otherwise.
    pub fn with(&self, code: i32) -> String {
        assert_eq!(self.code, code, "{}", self.said());
        self.said()
    }
}

/// Runs a command to its end, which must come within [`LONG`].
pub fn run(command: &mut Command) -> Ended {
    run_within(command, LONG)
}

/// The same for a command that may take longer.
pub fn run_within(command: &mut Command, limit: Duration) -> Ended {
    let began = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Both pipes are emptied while it runs: a full one would stop it.
    let out = child.stdout.take().map(drain);
    let err = child.stderr.take().map(drain);
    let status = end_of(&mut child, limit).unwrap_or_else(|| {
        let _ = child.kill();
        let _ = child.wait();
        panic!("{command:?} does not end")
    });
    let text = |thread: Option<std::thread::JoinHandle<String>>| thread.unwrap().join().unwrap();
    let code = status.code().unwrap_or_else(|| panic!("{command:?}: {status}"));
    let ended = Ended { code, out: text(out), err: text(err), took: began.elapsed() };
    crate::printed::check(command, &ended.out);
    ended
}

fn drain(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn end_of(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    within(limit, || child.try_wait().unwrap()).ok()
}

/// One command of the program, in an empty directory.
pub fn understudy(args: &[&str]) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    run(Command::new(bin()).args(args).current_dir(&dir))
}

/// One command of the program with `--config FILE` after it.
pub fn with_config(config: &Path, args: &[&str]) -> Ended {
    run(Command::new(bin()).args(args).arg("--config").arg(config))
}

/// The permission bits of a file.
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A directory with a configuration in it.
pub fn directory(config: &str) -> TempDir {
    let dir = tempfile::Builder::new().prefix("understudy-test-").tempdir().unwrap();
    std::fs::write(dir.path().join("understudy.toml"), config).unwrap();
    dir
}

/// A running `understudy serve`; killed when the test ends without having stopped it.
pub struct Serving {
    child: Child,
    dir: PathBuf,
    notify: UnixDatagram,
    /// Where it told systemd that it listens.
    pub mysql: String,
    /// The same for orders.
    pub http: String,
    /// The same for orders over TLS; empty without.
    pub https: String,
    /// How it describes its answers, when that was first needed.
    described: OnceLock<Description>,
}

impl Serving {
    /// Starts it with the configuration in `dir`, and returns when it listens. The log goes to the end of `dir`/log, with
    /// every level: what must not be in a log must not be in the most talkative one. To be called on a thread that lives as
    /// long as the child is wanted.
    pub fn start(dir: &Path) -> Self {
        Self::start_by(Command::new("setpriv"), dir)
    }

    /// The same, and it may open no more than so many files.
    pub fn start_with_files(dir: &Path, files_max: u64) -> Self {
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--nofile={files_max}:{files_max}")).arg("setpriv");
        Self::start_by(limited, dir)
    }

    fn start_by(mut command: Command, dir: &Path) -> Self {
        let socket = dir.join("notify");
        let _ = std::fs::remove_file(&socket);
        let notify = UnixDatagram::bind(&socket).unwrap();
        notify.set_read_timeout(Some(LONG)).unwrap();
        let log = File::options().create(true).append(true).open(dir.join("log")).unwrap();
        let already = std::fs::read_to_string(dir.join("log")).unwrap().len();
        let child = command
            .args(["--pdeathsig", "KILL", bin(), "serve"])
            .current_dir(dir)
            .env("NOTIFY_SOCKET", &socket)
            .env("UNDERSTUDY_LOG", "trace")
            .env("UNDERSTUDY_RUN_DIR", dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut this = Self {
            child,
            dir: dir.to_owned(),
            notify,
            mysql: String::new(),
            http: String::new(),
            https: String::new(),
            described: OnceLock::new(),
        };
        let line = until("the line that it serves", || {
            let log = this.log();
            assert!(this.child.try_wait().unwrap().is_none(), "the program ended before it served:\n{log}");
            log[already..].lines().find(|line| line.contains("serving mysql on")).map(str::to_owned)
        });
        let after = |name: &str| {
            let rest = line.split_once(name).map_or("", |(_, rest)| rest);
            rest.split([',', ' ']).next().unwrap_or_default().to_owned()
        };
        (this.mysql, this.http, this.https) =
            (after("serving mysql on "), after(", http on "), after(", https on "));
        assert_eq!(this.told(), "READY=1");
        this
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file in its state directory.
    pub fn state(&self, name: &str) -> PathBuf {
        self.dir.join("state").join(name)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it logged, also before a restart.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    /// The next word to systemd.
    pub fn told(&self) -> String {
        let mut buffer = [0; 64];
        let len = self.notify.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    /// A command that finds it by the configuration.
    pub fn ask(&self, args: &[&str]) -> Ended {
        with_config(&self.dir.join("understudy.toml"), args)
    }

    /// The whole status, which is as it is described.
    pub fn status(&self) -> serde_json::Value {
        let ended = self.ask(&["status", "--json"]);
        assert_eq!(ended.code, 0, "{}", ended.said());
        let status = ended.json();
        if !self.http.is_empty() {
            self.described.get_or_init(|| Description::of(&self.http)).is("Status", &status);
        }
        status
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let sent = Command::new("kill").arg("-TERM").arg(self.pid().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        end_of(&mut self.child, LONG).unwrap_or_else(|| panic!("it does not end:\n{}", self.log()))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let plain = |line: &&str| !line.contains("TRACE") && !line.contains("DEBUG");
            eprintln!("its log:\n{}", log.lines().filter(plain).collect::<Vec<_>>().join("\n"));
        }
    }
}
