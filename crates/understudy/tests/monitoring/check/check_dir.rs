//! What one check needs and nobody else has.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use fixture::Server;
use tempfile::TempDir;
use testbed::program::{Ended, bin, run};

use super::{DOWN, SECRET, UP};

/// A directory with everything that a check needs and nobody else has: an option file, links with the drop-ins' names.
pub struct CheckDir {
    pub dir: TempDir,
}

impl CheckDir {
    /// `place` are lines for [client].
    pub fn new(place: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("understudy-test-").tempdir().unwrap();
        for name in ["clustercheck", "pyclustercheck"] {
            symlink(bin(), dir.path().join(name)).unwrap();
        }
        fs::create_dir(dir.path().join("run")).unwrap();
        let check_dir = Self { dir };
        check_dir.write("place.cnf", &format!("[client]\n{place}\n"));
        check_dir.write("quiet.cnf", &format!("[client]\n{place}\nuser=quiet\npassword={SECRET}\n"));
        check_dir
    }

    pub fn of(server: &Server) -> Self {
        Self::new(&format!("socket={}", server.socket().display()))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Puts `command` in here: nothing of this machine is read.
    pub fn furnish<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env("UNDERSTUDY_RUN_DIR", self.path("run"))
            .env("UNDERSTUDY_DISABLED_FILE", self.path("disabled"))
            .env("UNDERSTUDY_SYSCONFIG", self.path("sysconfig"))
            .env("DEFAULTS_EXTRA_FILE", self.path("place.cnf"))
    }

    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(if name == "understudy" { bin().into() } else { self.path(name) });
        self.furnish(&mut command);
        command
    }

    pub fn clustercheck(&self, args: &[&str]) -> Ended {
        run(self.command("clustercheck").args(args))
    }

    /// The drop-in with the seed's account, and what comes after it.
    pub fn seed(&self, more: &[&str]) -> (String, i32) {
        let ended = self.clustercheck(&[&["clustercheck", "password"], more].concat());
        (ended.out, ended.code)
    }

    pub fn once(&self, args: &[&str]) -> Ended {
        run(self.command("understudy").args(["check", "--once"]).args(args))
    }

    /// The same with the account that works.
    pub fn once_quietly(&self, args: &[&str]) -> Ended {
        self.once(&[&["--defaults-file", &self.text("quiet.cnf")], args].concat())
    }
}

pub fn up() -> (String, i32) {
    (UP.to_owned(), 0)
}

pub fn down() -> (String, i32) {
    (DOWN.to_owned(), 1)
}
