//! Begins a new slow log file without a pause for the server, and removes the oldest ones without a pause for the file system.
//!
//! ```text
//!   slow.log.2 -> slow.log.3, slow.log.1 -> slow.log.2       the way is free
//!   slow.log   -> slow.log.1                                 the server goes on writing into it
//!   FLUSH NO_WRITE_TO_BINLOG SLOW LOGS                       the server opens a new slow.log, and closes the old one
//!   slow.log.N beyond those to keep                          cut from the end in steps, then removed
//! ```
//!
//! Only the flush touches the server: it waits for no statement, and statements wait for no more than one file's closing and one's opening. The old
//! file is written to disk before, because MySQL does that while it closes it. A file of many GiB is not removed at once, because some file systems
//! stop for seconds then, and with them the server.
//!
//! Every step leaves what the next run goes on from: after a rename without a flush there is no `slow.log`, so that is flushed first; a gap among
//! the numbers is the way that is free; what was cut is beyond those to keep and is removed.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use link::{Link, LinkError};

use crate::input;
use crate::pool::Server;

/// Connecting, and each small statement, may take so long.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Without the binlog: replicas rotate for themselves.
const FLUSH: &str = "FLUSH NO_WRITE_TO_BINLOG SLOW LOGS";
/// Between two looks for the new file.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What is rotated, and what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The slow log.
    pub log: PathBuf,
    /// So many rotated files stay; each has its age as a number behind its name.
    pub keep_files: u32,
    /// A file that goes is cut by so many bytes at once.
    pub step_bytes: u64,
    /// Between two cuts.
    pub pause: Duration,
    /// The server's new file is waited for so long.
    pub wait_max: Duration,
}

/// A rotation that was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// What the log is called now, and its bytes; nothing when it was empty.
    pub renamed: Option<(PathBuf, u64)>,
    /// How long the server took to flush.
    pub flushed_in: Duration,
    /// Files that were removed.
    pub removed: Vec<PathBuf>,
    /// Their bytes.
    pub removed_bytes: u64,
}

/// Why a log was not rotated.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// The log cannot be used.
    #[error("{0}")]
    Log(String),
    /// A file cannot be renamed, cut or removed.
    #[error(
        "{path} cannot be {action}: {source}; its directory must be writable: run this as root or as the server's user"
    )]
    File {
        /// Which file.
        path: PathBuf,
        /// "renamed", ...
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Somebody rotates already.
    #[error("a log in {0} is being rotated by another process; it is enough that one does")]
    Busy(PathBuf),
    /// The server cannot be asked.
    #[error("{at}: {source}")]
    Link {
        /// Which server.
        at: String,
        /// Why.
        source: LinkError,
    },
    /// The account may not flush. The log has its name again.
    #[error(
        "{at}: the account {user} may not flush the slow log, so nothing was rotated: GRANT RELOAD ON *.* TO {user}"
    )]
    Rights {
        /// Which server.
        at: String,
        /// Which account.
        user: String,
    },
    /// The server writes another file.
    #[error(
        "{at} writes its slow log to {its}, not to {log}: give that file (--file {its}), or the server that writes this one"
    )]
    Another {
        /// Which server.
        at: String,
        /// Its file.
        its: PathBuf,
        /// The one that was named.
        log: PathBuf,
    },
    /// No new file came.
    #[error(
        "{at} has begun no new {log} within {} s after the flush: may it write in that directory, and is there space? It stops logging when it cannot \
         (its error log says \"Turning logging off\"); then mend that, and SET GLOBAL slow_query_log = ON", after.as_secs()
    )]
    NoFile {
        /// Which server.
        at: String,
        /// Which file.
        log: PathBuf,
        /// So long was waited.
        after: Duration,
    },
}

/// Rotates once. Must be called by one process at a time; another one's call is refused.
pub async fn rotate(server: &Server, settings: &Settings) -> Result<Rotated, RotateError> {
    let log = resolved(&settings.log);
    if let Some(sentence) = input::unusable_log(&log) {
        return Err(RotateError::Log(sentence));
    }
    let files = Files { log };
    let _locked = files.lock()?;
    let mut writer = Writer::connect(server).await?;
    let writes_file = writer.check(&files.log).await?;
    let mut rotated = Rotated::default();
    let old = match fs::metadata(&files.log) {
        Ok(about) if about.len() == 0 => None,
        Ok(about) => {
            files.shift()?;
            let to = files.numbered(1);
            files.rename(&files.log, &to)?;
            rotated.renamed = Some((to, about.len()));
            Some(about)
        }
        // An earlier run was ended between renaming and flushing: the server writes into the first rotated file.
        Err(_) => fs::metadata(files.numbered(1)).ok(),
    };
    if old.is_some() {
        // A server that syncs while it closes finds nothing left to write. What cannot be synced is no reason to stop here.
        let to = files.numbered(1);
        let _ = tokio::task::spawn_blocking(move || File::open(to).and_then(|file| file.sync_data())).await;
        rotated.flushed_in = match writer.flush().await {
            Ok(spent) => spent,
            Err(error) => {
                // Only if it surely was not flushed: else the old name is the new file's.
                if matches!(error, RotateError::Rights { .. }) && rotated.renamed.is_some() {
                    files.rename(&files.numbered(1), &files.log)?;
                }
                return Err(error);
            }
        };
        if writes_file {
            files.wait_for_new(old.as_ref().map(MetadataExt::ino), settings.wait_max, &writer.at).await?;
        }
    }
    for (number, path) in files.rotated()? {
        if number > u64::from(settings.keep_files) {
            rotated.removed_bytes += remove_in_steps(&path, settings.step_bytes, settings.pause).await?;
            rotated.removed.push(path);
        }
    }
    Ok(rotated)
}

/// The server that writes the log.
struct Writer<'a> {
    link: Link,
    server: &'a Server,
    at: String,
}

impl<'a> Writer<'a> {
    async fn connect(server: &'a Server) -> Result<Writer<'a>, RotateError> {
        let at = server.address();
        match Link::connect_to(&server.place, &server.login, ANSWER_MAX).await {
            Ok(link) => Ok(Writer { link, server, at }),
            Err(source) => Err(RotateError::Link { at, source }),
        }
    }

    /// It is this server that writes the log; whether it does so at present.
    async fn check(&mut self, log: &Path) -> Result<bool, RotateError> {
        let sql = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('slow_query_log', 'slow_query_log_file', 'log_output', 'datadir')";
        let rows = self.link.query(sql, ANSWER_MAX).await;
        let rows = rows.map_err(|source| RotateError::Link { at: self.at.clone(), source })?;
        let of = |name| rows.value_of(name).unwrap_or_default();
        let its = resolved(&Path::new(of("datadir")).join(of("slow_query_log_file")));
        if its != log {
            return Err(RotateError::Another { at: self.at.clone(), its, log: log.to_owned() });
        }
        let is_on = matches!(of("slow_query_log"), "ON" | "1");
        Ok(is_on && of("log_output").split(',').any(|output| output.eq_ignore_ascii_case("FILE")))
    }

    async fn flush(&mut self) -> Result<Duration, RotateError> {
        let begin = Instant::now();
        match self.link.query(FLUSH, ANSWER_MAX).await {
            Ok(_) => Ok(begin.elapsed()),
            // ER_SPECIFIC_ACCESS_DENIED_ERROR
            Err(LinkError::Rejected { errno: 1227, .. }) => {
                Err(RotateError::Rights { at: self.at.clone(), user: self.server.login.user.clone() })
            }
            Err(source) => Err(RotateError::Link { at: self.at.clone(), source }),
        }
    }
}

/// The log and its rotated files: `slow.log`, `slow.log.1`, `slow.log.2`, ...
struct Files {
    log: PathBuf,
}

impl Files {
    fn numbered(&self, number: u64) -> PathBuf {
        let mut name: OsString = self.log.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    }

    fn directory(&self) -> &Path {
        self.log.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Held until the file is dropped; gone with the process, whatever ends it.
    fn lock(&self) -> Result<File, RotateError> {
        let directory = self.directory();
        let failed = |source| RotateError::File { path: directory.to_owned(), action: "opened", source };
        let file = File::open(directory).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(RotateError::Busy(directory.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Makes the way free for number 1: each file up to the first gap gets the next number.
    fn shift(&self) -> Result<(), RotateError> {
        let mut gap = 1;
        while self.numbered(gap).symlink_metadata().is_ok() {
            gap += 1;
        }
        (1..gap).rev().try_for_each(|number| self.rename(&self.numbered(number), &self.numbered(number + 1)))
    }

    /// Never onto a file that is there.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), RotateError> {
        let failed = |source| RotateError::File { path: from.to_owned(), action: "renamed", source };
        if to.symlink_metadata().is_ok() {
            return Err(failed(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{} is there", to.display()),
            )));
        }
        fs::rename(from, to).map_err(failed)
    }

    /// The rotated files with their numbers, oldest first.
    fn rotated(&self) -> Result<Vec<(u64, PathBuf)>, RotateError> {
        let directory = self.directory();
        let failed = |source| RotateError::File { path: directory.to_owned(), action: "read", source };
        let Some(name) = self.log.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
        let mut rotated = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let other = entry.file_name();
            let number = other.to_str().and_then(|other| other.strip_prefix(name)?.strip_prefix('.'));
            // `slow.log.01` is nobody's of ours.
            let number = number.and_then(|text| text.parse().ok().filter(|n: &u64| n.to_string() == text));
            if let Some(number) = number
                && entry.file_type().is_ok_and(|kind| kind.is_file())
            {
                rotated.push((number, entry.path()));
            }
        }
        rotated.sort_by(|a, b| b.cmp(a));
        Ok(rotated)
    }

    async fn wait_for_new(
        &self,
        old_inode: Option<u64>,
        wait_max: Duration,
        at: &str,
    ) -> Result<(), RotateError> {
        let begin = Instant::now();
        // The server writes three lines into a file that it begins.
        while !fs::metadata(&self.log).is_ok_and(|about| Some(about.ino()) != old_inode && about.len() > 0) {
            if begin.elapsed() > wait_max {
                return Err(RotateError::NoFile {
                    at: at.to_owned(),
                    log: self.log.clone(),
                    after: wait_max,
                });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// Cuts a file from its end until nothing is left, and removes it; gives its bytes.
async fn remove_in_steps(path: &Path, step_bytes: u64, pause: Duration) -> Result<u64, RotateError> {
    let failed = |source| RotateError::File { path: path.to_owned(), action: "removed", source };
    let file = File::options().write(true).open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut left = bytes;
    while left > 0 {
        left = left.saturating_sub(step_bytes.max(1));
        file.set_len(left).map_err(failed)?;
        tokio::time::sleep(pause).await;
    }
    fs::remove_file(path).map_err(failed)?;
    Ok(bytes)
}

/// The file behind all links, also where it is not there at present.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (directory.canonicalize(), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let log = dir.path().join("slow.log");
        (dir, Files { log })
    }

    fn content(files: &Files, number: u64) -> Option<String> {
        fs::read_to_string(files.numbered(number)).ok()
    }

    #[test]
    fn files_move_up_to_the_first_gap() {
        let (_dir, files) = files(&["slow.log", "slow.log.1", "slow.log.2", "slow.log.4"]);
        files.shift().unwrap();
        assert_eq!(content(&files, 1), None);
        assert_eq!(content(&files, 2).as_deref(), Some("slow.log.1"));
        assert_eq!(content(&files, 3).as_deref(), Some("slow.log.2"));
        assert_eq!(content(&files, 4).as_deref(), Some("slow.log.4"));
    }

    #[test]
    fn a_file_is_never_renamed_onto_another() {
        let (_dir, files) = files(&["slow.log", "slow.log.1"]);
        let said = files.rename(&files.log, &files.numbered(1)).unwrap_err().to_string();
        assert!(said.contains("slow.log.1 is there"), "{said}");
        assert_eq!(content(&files, 1).as_deref(), Some("slow.log.1"));
    }

    #[test]
    fn only_numbered_files_of_this_log_are_its_rotated_ones() {
        let (_dir, files) = files(&[
            "slow.log",
            "slow.log.1",
            "slow.log.12",
            "slow.log.02",
            "slow.log.1.gz",
            "slow.log.x",
            "slower.log.3",
        ]);
        let numbers: Vec<u64> = files.rotated().unwrap().into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [12, 1]);
    }

    #[tokio::test]
    async fn a_file_is_cut_in_steps_before_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slow.log.8");
        fs::write(&path, vec![b'x'; 1000]).unwrap();
        let begin = Instant::now();
        let pause = Duration::from_millis(5);
        assert_eq!(remove_in_steps(&path, 300, pause).await.unwrap(), 1000);
        assert!(!path.exists() && begin.elapsed() >= pause * 4);
    }

    #[test]
    fn one_rotates_at_a_time() {
        let (_dir, files) = files(&["slow.log"]);
        let locked = files.lock().unwrap();
        assert!(matches!(files.lock(), Err(RotateError::Busy(_))));
        drop(locked);
        assert!(files.lock().is_ok());
    }
}
