//! Rotates the slow log without pausing the server, and removes the oldest files without stalling the file system.
//!
//! ```text
//!   slow.log.2 -> slow.log.3, slow.log.1 -> slow.log.2       makes room for the next
//!   slow.log   -> slow.log.1                                 the server goes on writing into it
//!   FLUSH NO_WRITE_TO_BINLOG SLOW LOGS                       the server opens a new slow.log, and closes the old one
//!   slow.log.N beyond those to keep                          cut from the end in steps, then removed
//! ```
//!
//! Only the flush affects the server: it waits for no statement, and statements wait at most for closing one file and opening another. The
//! old file is synced to disk before, because MySQL syncs it while closing it. A file of many GiB is not removed in one step, because some
//! file systems then stall for seconds, and the server with them.
//!
//! The file that is renamed must be the one that this server has open; otherwise the server would not write to the new file, and another
//! server's log would have been renamed. Therefore, before anything is changed, a statement that the server logs is sent, and it has to
//! appear in that file (`proof`).
//!
//! If MariaDB cannot create the new file, for example on a full disk, it stops logging until logging is enabled again. A full disk is
//! therefore detected beforehand.
//!
//! Every step leaves a state from which the next run continues: after a rename without a flush there is no `slow.log`, so the flush is done
//! first; a gap among the numbers means that the files were already renumbered; a truncated file is beyond the number to keep, and is
//! removed.

mod files;
mod proof;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use link::{Link, LinkError};
use topology::rules::variables::is_on;

use self::files::{Files, resolved};
use crate::input;
use crate::pool::Server;

/// Time limit of connecting, and of each short statement.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Not written to the binlog, because replicas rotate their own logs.
const FLUSH: &str = "FLUSH NO_WRITE_TO_BINLOG SLOW LOGS";

/// The settings of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The slow log.
    pub log: PathBuf,
    /// The number of rotated files to keep; the number after a file's name is its age in rotations.
    pub keep_files: u32,
    /// The number of bytes by which a file to be removed is truncated in one step.
    pub step_bytes: u64,
    /// The pause between two steps.
    pub pause: Duration,
    /// How long to wait for the server's new file.
    pub wait_max: Duration,
}

/// The result of a rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// The new name of the log and its size in bytes; `None` when it was empty.
    pub renamed: Option<(PathBuf, u64)>,
    /// How long the server took to flush.
    pub flushed_in: Duration,
    /// The number of files that were removed.
    pub removed: Vec<PathBuf>,
    /// Their total size in bytes.
    pub removed_bytes: u64,
}

/// Why a log was not rotated.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// The log cannot be used.
    #[error("{0}")]
    Log(String),
    /// A file cannot be renamed, truncated or removed.
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
    /// Another process is rotating the log.
    #[error("a log in {0} is being rotated by another process; it is enough that one does")]
    Busy(PathBuf),
    /// The server cannot be queried.
    #[error("{at}: {source}")]
    Link {
        /// Which server.
        at: String,
        /// Why.
        source: LinkError,
    },
    /// The account lacks the privilege to flush. The log has been renamed back.
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
    /// The server does not write this file, although its path is the same.
    #[error(
        "{at} names {log} as its slow log, but a statement that was sent to it did not appear in that file within {} s, so nothing was rotated. The \
         file on this machine may be another server's (the named one runs in a container or on another host: run this where it runs); the file may have \
         been renamed and another made in its place (then: FLUSH SLOW LOGS, and remove the empty one); or the server has stopped logging (its error log \
         says \"Turning logging off\": mend that, then SET GLOBAL slow_query_log = ON)", waited.as_secs()
    )]
    Unproven {
        /// Which server.
        at: String,
        /// The file.
        log: PathBuf,
        /// So long was waited.
        waited: Duration,
    },
    /// The server writes no file at present, so nothing shows which one is its own.
    #[error(
        "{at} writes no slow log to a file at present (slow_query_log or log_output), so nothing shows that {log} is its own, and nothing was rotated: \
         SET GLOBAL slow_query_log = ON, log_output = 'FILE'; or move the file away by hand, since no server is writing it"
    )]
    NotLogging {
        /// Which server.
        at: String,
        /// The file.
        log: PathBuf,
    },
    /// There is no space for a new file. Nothing was renamed.
    #[error(
        "{path} has no space for a new slow log ({source}), so nothing was rotated: a server that cannot begin one stops logging. Make space, or keep \
         fewer files (--keep)"
    )]
    Full {
        /// The log's directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The server could not begin a new file.
    #[error(
        "{at} could not begin a new {log} and logs no statements any more, although slow_query_log still says ON: {message}. Mend that, then: SET \
         GLOBAL slow_query_log = ON"
    )]
    Refused {
        /// Which server.
        at: String,
        /// Which file.
        log: PathBuf,
        /// The server's sentence.
        message: String,
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

/// Rotates once. Only one process may do so at a time; a second one gets an error.
pub async fn rotate(server: &Server, settings: &Settings) -> Result<Rotated, RotateError> {
    let (files, _locked, mut writer, written) = prepare(server, settings).await?;
    if let Some(written) = written {
        writer.prove(&written, settings.wait_max).await?;
    }
    let mut rotated = Rotated::default();
    if let Err(full) = files.probe() {
        // The files to be removed may be what fills the disk.
        files.remove_surplus(settings, &mut rotated).await?;
        if rotated.removed.is_empty() {
            return Err(full);
        }
        files.probe()?;
    }
    let old = match fs::metadata(&files.log) {
        Ok(about) if about.len() == 0 => None,
        Ok(about) => {
            files.shift()?;
            let to = files.numbered(1);
            files.rename(&files.log, &to)?;
            rotated.renamed = Some((to, about.len()));
            Some(about)
        }
        // An earlier run ended between renaming and flushing: the server writes into the first rotated file.
        Err(_) => fs::metadata(files.numbered(1)).ok(),
    };
    if old.is_some() {
        // Syncing here leaves nothing to write for a server that syncs while closing the file. A failure to sync is no reason to stop.
        let to = files.numbered(1);
        let _ = tokio::task::spawn_blocking(move || File::open(to).and_then(|file| file.sync_data())).await;
        rotated.flushed_in = match writer.flush(&files.log).await {
            Ok(spent) => spent,
            Err(error) => {
                // Only if the flush certainly did not happen; otherwise the old name belongs to the new file.
                if matches!(error, RotateError::Rights { .. }) && rotated.renamed.is_some() {
                    files.rename(&files.numbered(1), &files.log)?;
                }
                return Err(error);
            }
        };
        files.wait_for_new(old.as_ref().map(MetadataExt::ino), settings.wait_max, &writer.at).await?;
    }
    files.remove_surplus(settings, &mut rotated).await?;
    Ok(rotated)
}

/// What [`rotate`] would do now, by the files and the server's settings; nothing is changed. The proof that the server has this very file open is not
/// part of it: for that, a statement is logged.
pub async fn preview(server: &Server, settings: &Settings) -> Result<Rotated, RotateError> {
    let (files, _locked, writer, _) = prepare(server, settings).await?;
    writer.link.quit();
    let bytes = fs::metadata(&files.log).map_or(0, |about| about.len());
    let renamed = (bytes > 0).then(|| (files.numbered(1), bytes));
    let removed = files.surplus(settings.keep_files, renamed.is_some())?;
    let removed_bytes = removed.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).sum();
    Ok(Rotated { renamed, removed, removed_bytes, ..Rotated::default() })
}

/// The files with their lock, the server, which names this log as its own, and the file that it writes, if that is to be rotated.
async fn prepare<'a>(
    server: &'a Server,
    settings: &Settings,
) -> Result<(Files, File, Writer<'a>, Option<PathBuf>), RotateError> {
    let log = resolved(&settings.log);
    if let Some(sentence) = input::unusable_log(&log) {
        return Err(RotateError::Log(sentence));
    }
    let files = Files::of(log);
    let locked = files.lock()?;
    let mut writer = Writer::connect(server).await?;
    let writes_file = writer.check(&files.log).await?;
    let written = files.written();
    if let Some(log) = written.clone().filter(|_| !writes_file) {
        return Err(RotateError::NotLogging { at: writer.at, log });
    }
    Ok((files, locked, writer, written))
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

    /// Checks that this server writes the log, and returns whether logging is enabled at present.
    async fn check(&mut self, log: &Path) -> Result<bool, RotateError> {
        let sql = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('slow_query_log', 'slow_query_log_file', 'log_output', 'datadir')";
        let rows = self.link.query(sql, ANSWER_MAX).await;
        let rows = rows.map_err(|source| RotateError::Link { at: self.at.clone(), source })?;
        let of = |name| rows.value_of(name).unwrap_or_default();
        let its = resolved(&Path::new(of("datadir")).join(of("slow_query_log_file")));
        if its != log {
            return Err(RotateError::Another { at: self.at.clone(), its, log: log.to_owned() });
        }
        Ok(is_on(of("slow_query_log"))
            && of("log_output").split(',').any(|output| output.eq_ignore_ascii_case("FILE")))
    }

    /// Checks that the server has this very file open: the same path may exist on many hosts.
    async fn prove(&mut self, log: &Path, waited: Duration) -> Result<(), RotateError> {
        let appeared = proof::appears(&mut self.link, log, waited).await;
        match appeared.map_err(|why| why.into_error(&self.at, log))? {
            true => Ok(()),
            false => Err(RotateError::Unproven { at: self.at.clone(), log: log.to_owned(), waited }),
        }
    }

    async fn flush(&mut self, log: &Path) -> Result<Duration, RotateError> {
        let begin = Instant::now();
        match self.link.query(FLUSH, ANSWER_MAX).await {
            Ok(_) => Ok(begin.elapsed()),
            // ER_SPECIFIC_ACCESS_DENIED_ERROR
            Err(LinkError::Rejected { errno: 1227, .. }) => {
                Err(RotateError::Rights { at: self.at.clone(), user: self.server.login.user.clone() })
            }
            // MariaDB then disables the log internally, while its variable still shows ON.
            Err(LinkError::Rejected { message, .. }) => {
                Err(RotateError::Refused { at: self.at.clone(), log: log.to_owned(), message })
            }
            Err(source) => Err(RotateError::Link { at: self.at.clone(), source }),
        }
    }
}
