//! The files in manager_workdir through which MHA's commands find each other.
//!
//! ```text
//!   APP.master_status.health   pid TAB code:text TAB master:host     rewritten while the manager watches
//!   APP.failover.complete      the last failover succeeded: no other one for some time
//!   APP.failover.error         the last failover failed: no other one until this file is removed
//! ```

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use import::mha::conf::Conf;

/// The directory, and the name of the application.
pub struct Workdir {
    dir: PathBuf,
    app: String,
}

/// The manager's last report.
pub struct Health {
    pub pid: i32,
    pub code: u8,
    pub master: String,
    pub age: Duration,
}

impl Workdir {
    pub fn of(conf: &Conf, given: Option<&str>) -> Self {
        Self {
            dir: given.or_else(|| conf.get("manager_workdir")).unwrap_or("/var/tmp").into(),
            app: conf.app(),
        }
    }

    pub fn file(&self, what: &str) -> PathBuf {
        self.dir.join(format!("{}.{what}", self.app))
    }

    /// The age of a file; `None` when it does not exist.
    pub fn age(&self, what: &str) -> Option<Duration> {
        let changed = std::fs::metadata(self.file(what)).and_then(|data| data.modified()).ok()?;
        Some(changed.elapsed().unwrap_or_default())
    }

    pub fn write(&self, what: &str, text: &str) -> Result<(), String> {
        let path = self.file(what);
        std::fs::create_dir_all(&self.dir)
            .and_then(|()| {
                std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&path)
            })
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| format!("{} cannot be written: {e}", path.display()))
    }

    pub fn remove(&self, what: &str) {
        // An error is ignored: the file need not exist.
        let _ = std::fs::remove_file(self.file(what));
    }

    pub fn write_health(&self, code: u8, text: &str, master: &str) -> Result<(), String> {
        let line = format!("{}\t{code}:{text}\tmaster:{master}\n", std::process::id());
        self.write("master_status.health", &line)
    }

    /// Reads the manager's report; `None` when there is none, or its process does not exist.
    pub fn health(&self) -> Option<Health> {
        let text = infile::read_text(self.file("master_status.health")).ok()?;
        let mut fields = text.trim_end().split('\t');
        let pid: i32 = fields.next()?.parse().ok()?;
        let (code, _) = fields.next()?.split_once(':')?;
        let master = fields.next().and_then(|field| field.strip_prefix("master:")).unwrap_or_default();
        let found = rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid)?);
        // Another user's process may not be signalled, and lives.
        let lives = found != Err(rustix::io::Errno::SRCH);
        let age = self.age("master_status.health").unwrap_or_default();
        lives.then(|| Health { pid, code: code.parse().unwrap_or(0), master: master.into(), age })
    }
}
