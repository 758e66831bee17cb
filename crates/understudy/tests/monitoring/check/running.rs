//! A check that runs, or another program beside it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use testbed::program::{LONG, bin, until};

use super::check_dir::CheckDir;

/// A running check, or whatever else says READY=1; killed at the end.
pub struct Running {
    pub child: Child,
    log: PathBuf,
    notify: UnixDatagram,
}

impl Running {
    /// To be called on a thread that lives as long as the child is wanted: it is killed with it.
    pub fn start(check_dir: &CheckDir, mut command: Command) -> Self {
        static NUMBER: Mutex<u32> = Mutex::new(0);
        let number = {
            let mut number = NUMBER.lock().unwrap();
            *number += 1;
            *number
        };
        let (log, socket) =
            (check_dir.path(&format!("log{number}")), check_dir.path(&format!("notify{number}")));
        let notify = UnixDatagram::bind(&socket).unwrap();
        notify.set_read_timeout(Some(LONG)).unwrap();
        let out = File::create(&log).unwrap();
        let child = command
            .env("NOTIFY_SOCKET", &socket)
            .env("UNDERSTUDY_LOG", "trace")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()
            .unwrap();
        let running = Self { child, log, notify };
        assert_eq!(running.told(), "READY=1", "{}", running.log());
        running
    }

    /// `understudy check` on a free port with the quiet account.
    pub fn check(check_dir: &CheckDir, args: &[&str]) -> (Self, SocketAddr) {
        let mut command = Command::new("setpriv");
        check_dir.furnish(&mut command).args([
            "--pdeathsig",
            "KILL",
            bin(),
            "check",
            "--listen",
            "127.0.0.1:0",
        ]);
        command.arg("--defaults-file").arg(check_dir.path("quiet.cnf")).args(args);
        let running = Self::start(check_dir, command);
        let address = running.address("http://");
        (running, address)
    }

    pub fn pyclustercheck(check_dir: &CheckDir, change: impl FnOnce(&mut Command)) -> (Self, SocketAddr) {
        let mut command = Command::new("setpriv");
        check_dir.furnish(&mut command).args(["--pdeathsig", "KILL"]).arg(check_dir.path("pyclustercheck"));
        change(&mut command);
        let running = Self::start(check_dir, command);
        let address = running.address("http://");
        (running, address)
    }

    pub fn told(&self) -> String {
        let mut buffer = [0; 64];
        let len = self.notify.recv(&mut buffer).unwrap_or_else(|e| panic!("{e}: {}", self.log()));
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Where it says it answers.
    pub fn address(&self, before: &str) -> SocketAddr {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("answering on ")).unwrap_or_else(|| panic!("{log}"));
        let words = line.rsplit("answering on ").next().unwrap().split(' ');
        words
            .filter_map(|word| word.strip_prefix(before))
            .find_map(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("{line}"))
    }

    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// SIGTERM, and the end in good order.
    pub fn stop(mut self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        let status = until("its end", || self.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(0), "{}", self.log());
        let words: Vec<String> =
            std::iter::from_fn(|| Some(self.told()).filter(|word| word != "STOPPING=1")).collect();
        assert!(words.iter().all(|word| word == "WATCHDOG=1"), "{words:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let plain = |line: &&str| !line.contains("TRACE") && !line.contains("DEBUG");
            eprintln!("its log:\n{}", log.lines().filter(plain).collect::<Vec<_>>().join("\n"));
        }
    }
}

/// A child that is told to end, and waited for.
pub struct Ending(pub Child);

impl Ending {
    pub fn end(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).stderr(Stdio::null()).status();
        let began = Instant::now();
        while self.0.try_wait().unwrap().is_none() && began.elapsed() < LONG {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
