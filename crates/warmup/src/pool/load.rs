//! Runs one load: writes the pages to the server's own dump file, orders the server to load it, and restores the original file.
//!
//! On MariaDB the file's name cannot be changed while the server runs, so the file itself is replaced for the duration of the load:
//!
//! ```text
//!   ib_buffer_pool                     the server's own            ours, while it is loaded     the server's own again
//!   ib_buffer_pool.understudy          ours, written and complete  a second name of the same    (gone)
//!   ib_buffer_pool.understudy-own                                  the server's own             (gone)
//! ```
//!
//! Every step leaves a state that the next run repairs: a file that is still ours, by its inode, is replaced by the server's own; a file
//! that the server has written in the meantime, as it does at shutdown, is newer and stays.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::server::{LOOK_EVERY, PoolError, Server, ServerLink, identity, unusable};
use super::snapshot::{Page, Snapshot, write_dump};
use super::translate::{LeftOut, translate};

/// A load whose status has not changed for this long has stopped. (A busy server loads `innodb_io_capacity` pages per second, and reports
/// every 32 MiB.)
const STALL_MAX: Duration = Duration::from_secs(300);
/// The time limit for a load to end after it was aborted.
const ABORT_MAX: Duration = Duration::from_secs(30);
/// The status variable with the state of the load.
const STATUS: &str = "Innodb_buffer_pool_load_status";
/// The status variable with the number of pages in memory.
const PAGES: &str = "Innodb_buffer_pool_pages_data";

/// Operations that are refused unless they are allowed here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Loading on a server that takes writes, as all Galera nodes do.
    pub writable: bool,
}

/// The progress of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Pages that the server has read from disk, or requested.
    pub loaded: u64,
    /// All pages to load.
    pub pages: u64,
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Pages in the dump.
    pub dumped: u64,
    /// Pages that were given to the server.
    pub pages: u64,
    /// The pages that were left out, by reason.
    pub left_out: LeftOut,
    /// Pages in the server's memory before, of all tables.
    pub before_pages: u64,
    /// Pages in the server's memory afterwards.
    pub after_pages: u64,
    /// The capacity of its buffer pool, in pages.
    pub pool_pages: u64,
    /// How long the load took; nothing in a dry run.
    pub spent: Duration,
    /// It was aborted before it was complete.
    pub is_aborted: bool,
}

/// Loads `snapshot` on `server`. `tell` is called with the progress; when `stop` resolves, the load is aborted, and the pages loaded so far
/// stay.
///
/// # Errors
/// When the server refuses, is not suitable for this snapshot, or stops making progress; or its dump file cannot be replaced.
pub async fn load(
    server: &Server,
    snapshot: &Snapshot,
    allowed: Allowed,
    tell: impl Fn(Progress),
    stop: impl Future<Output = ()>,
) -> Result<Loaded, PoolError> {
    let (mut session, file, pages, mut loaded) = prepare(server, snapshot, allowed).await?;
    let exchanged = Exchanged::put(&file, &pages)?;
    let begin = Instant::now();
    let ended = session.load(loaded.pages, allowed, tell, stop).await;
    // Restores the file also after a failed load, whose error is then the one returned.
    let back = exchanged.back();
    loaded.is_aborted = ended?;
    back?;
    loaded.spent = begin.elapsed();
    loaded.after_pages = session.count(PAGES).await?;
    session.quit();
    Ok(loaded)
}

/// What [`load`] would load now; nothing is changed, and no time was spent.
///
/// # Errors
/// When the server refuses, or is not suitable for this snapshot.
pub async fn preview(server: &Server, snapshot: &Snapshot, allowed: Allowed) -> Result<Loaded, PoolError> {
    let (session, _, _, loaded) = prepare(server, snapshot, allowed).await?;
    session.quit();
    Ok(loaded)
}

/// Everything before the first change: the session, the server's dump file, the pages for it, and what is known of the load.
async fn prepare<'a>(
    server: &'a Server,
    snapshot: &Snapshot,
    allowed: Allowed,
) -> Result<(ServerLink<'a>, PathBuf, Vec<Page>, Loaded), PoolError> {
    let mut session = server.session().await?;
    let facts = session.facts().await?;
    let at = session.at();
    if facts.identity == snapshot.server {
        return Err(PoolError::Itself { at });
    }
    if facts.is_writable && !allowed.writable {
        return Err(PoolError::Writable { at });
    }
    if facts.page_bytes != snapshot.page_bytes {
        return Err(PoolError::PageSize { at, to: facts.page_bytes, from: snapshot.page_bytes });
    }
    let status = session.status(STATUS).await?;
    if is_running(&status) {
        return Err(PoolError::Busy { at, status });
    }
    let spaces = session.spaces(&facts).await?;
    let pool_pages = session.count("Innodb_buffer_pool_pages_total").await?;
    let translated = translate(snapshot, &spaces, pool_pages);
    if translated.pages.is_empty() && !snapshot.pages.is_empty() {
        return Err(PoolError::Nothing { at, pages: snapshot.pages.len() });
    }
    let before_pages = session.count(PAGES).await?;
    let loaded = Loaded {
        dumped: snapshot.pages.len() as u64,
        pages: translated.pages.len() as u64,
        left_out: translated.left_out,
        before_pages,
        after_pages: before_pages,
        pool_pages,
        spent: Duration::ZERO,
        is_aborted: false,
    };
    Ok((session, facts.file, translated.pages, loaded))
}

impl ServerLink<'_> {
    /// Orders the load and waits for its end; returns whether it was aborted.
    async fn load(
        &mut self,
        pages: u64,
        allowed: Allowed,
        tell: impl Fn(Progress),
        stop: impl Future<Output = ()>,
    ) -> Result<bool, PoolError> {
        let before = self.past_second().await?;
        self.query("SET GLOBAL innodb_buffer_pool_load_now = ON").await?;
        let mut stop = std::pin::pin!(stop);
        let (mut is_stopped, mut takes_writes) = (false, false);
        let (mut last, mut since) = (before.clone(), Instant::now());
        loop {
            let status = self.status(STATUS).await?;
            if status != before && !is_running(&status) {
                tell(Progress { loaded: if is_completed(&status) { pages } else { 0 }, pages });
                return match () {
                    () if takes_writes => Err(PoolError::Writable { at: self.at() }),
                    () if is_completed(&status) => Ok(false),
                    () if status.contains("aborted") => Ok(true),
                    () => Err(PoolError::Failed { at: self.at(), what: "load", status }),
                };
            }
            if let Some(loaded) = loaded(&status) {
                tell(Progress { loaded, pages });
            }
            if status != last {
                (last, since) = (status.clone(), Instant::now());
            }
            let patience = if is_stopped { ABORT_MAX } else { STALL_MAX };
            if since.elapsed() > patience {
                return Err(PoolError::Stalled { at: self.at(), what: "load", after: patience, status });
            }
            // The server may have become the active node in the meantime.
            if !is_stopped && !allowed.writable && self.is_writable().await? {
                self.query("SET GLOBAL innodb_buffer_pool_load_abort = ON").await?;
                (is_stopped, takes_writes, since) = (true, true, Instant::now());
            }
            tokio::select! {
                () = &mut stop, if !is_stopped => {
                    self.query("SET GLOBAL innodb_buffer_pool_load_abort = ON").await?;
                    (is_stopped, since) = (true, Instant::now());
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn is_writable(&mut self) -> Result<bool, PoolError> {
        let said = self.query(concat!("SELECT ", topology::is_read_only!())).await?;
        Ok(said.text(0, 0) == Some("0"))
    }

    /// Returns the status before the order, after waiting until the end of a new load would have another time: the status has whole seconds
    /// only.
    async fn past_second(&mut self) -> Result<String, PoolError> {
        loop {
            let status = self.status(STATUS).await?;
            let rows = self.query("SELECT DATE_FORMAT(SYSDATE(), '%s')").await?;
            let same =
                rows.text(0, 0).is_some_and(|second| status.trim_end().ends_with(&format!(":{second}")));
            if !same {
                return Ok(status);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Whether a load is running.
fn is_running(status: &str) -> bool {
    status.starts_with("Loading buffer pool") || loaded(status).is_some()
}

fn is_completed(status: &str) -> bool {
    status.contains("load completed")
}

/// `Loaded 2049/10000 pages`.
fn loaded(status: &str) -> Option<u64> {
    status.strip_prefix("Loaded ")?.split_once('/')?.0.parse().ok()
}

/// The replaced dump file of the server.
struct Exchanged {
    file: PathBuf,
    /// Syncs a file or a directory to disk: [`File::sync_all`], except in tests.
    sync: fn(&File) -> io::Result<()>,
}

impl Exchanged {
    /// Puts `pages` in the place of the server's dump file.
    fn put(file: &Path, pages: &[Page]) -> Result<Exchanged, PoolError> {
        Exchanged { file: file.to_owned(), sync: File::sync_all }.exchange(pages)
    }

    fn exchange(self, pages: &[Page]) -> Result<Exchanged, PoolError> {
        let exchanged = self;
        // Repairs what a killed run has left.
        exchanged.restore()?;
        let ours = exchanged.ours();
        let put = exchanged.write(pages).and_then(|()| exchanged.swap());
        put.map_err(|source| {
            // The first error is the one to return.
            let _ = exchanged.restore();
            unusable(&ours, "written", source)
        })?;
        Ok(exchanged)
    }

    /// Restores the server's own file, and removes all others.
    fn back(self) -> Result<(), PoolError> {
        self.restore()
    }

    fn write(&self, pages: &[Page]) -> io::Result<()> {
        // create_new does not follow a symbolic link that another user may have created.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(self.ours())?;
        let owner = fs::metadata(self.directory())?;
        // The server must be able to read it. Only root may change the owner, and only for root is that necessary.
        if file.metadata()?.uid() != owner.uid() {
            fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
        }
        file.write_all(write_dump(pages).as_bytes())?;
        // Synced before it gets the server's file name: after a crash the server loads whatever has that name.
        (self.sync)(&file)
    }

    fn directory(&self) -> &Path {
        self.file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Syncs the directory entries to disk.
    fn sync_names(&self) -> io::Result<()> {
        (self.sync)(&File::open(self.directory())?)
    }

    fn swap(&self) -> io::Result<()> {
        match fs::hard_link(&self.file, self.own()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let link = self.named("-new");
        fs::hard_link(self.ours(), &link)?;
        // The server's own file must have its second name on disk before it loses its first.
        self.sync_names()?;
        fs::rename(link, &self.file)?;
        self.sync_names()
    }

    fn restore(&self) -> Result<(), PoolError> {
        let ours = identity(&self.ours())?;
        if ours.is_some() && ours == identity(&self.file)? {
            // The server's own file is restored in one step; there may have been none.
            match fs::rename(self.own(), &self.file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => remove(&self.file)?,
                other => other.map_err(|source| unusable(&self.file, "given back", source))?,
            }
            // Synced before the names are removed by which the next run would recognise an interrupted exchange.
            self.sync_names().map_err(|source| unusable(&self.file, "given back", source))?;
        }
        [self.own(), self.named("-new"), self.ours()].iter().try_for_each(|path| remove(path))
    }

    fn ours(&self) -> PathBuf {
        self.named("")
    }

    fn own(&self) -> PathBuf {
        self.named("-own")
    }

    fn named(&self, end: &str) -> PathBuf {
        let mut name: OsString = self.file.clone().into_os_string();
        name.push(format!(".understudy{end}"));
        PathBuf::from(name)
    }
}

fn remove(path: &Path) -> Result<(), PoolError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(unusable(path, "removed", source)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    const PAGES: &[Page] = &[Page { space: 7, number: 8 }];

    #[test]
    fn the_servers_own_file_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ib_buffer_pool");
        for own in [None, Some("1,2\n")] {
            if let Some(own) = own {
                fs::write(&file, own).unwrap();
            }
            let exchanged = Exchanged::put(&file, PAGES).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), "7,8\n");
            exchanged.back().unwrap();
            assert_eq!(fs::read_to_string(&file).ok().as_deref(), own);
            assert_eq!(names(dir.path()).len(), usize::from(own.is_some()));
        }
    }

    #[test]
    fn what_a_killed_run_left_is_put_right_by_the_next() {
        // Each state in which a run can be killed: after writing, after the server's own file got its second name, after ours got its
        // second name, and after the exchange.
        for steps in 1..=4 {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("ib_buffer_pool");
            fs::write(&file, "1,2\n").unwrap();
            let killed = Exchanged { file: file.clone(), sync: File::sync_all };
            killed.write(PAGES).unwrap();
            if steps > 1 {
                fs::hard_link(&file, killed.own()).unwrap();
            }
            if steps > 2 {
                fs::hard_link(killed.ours(), killed.named("-new")).unwrap();
            }
            if steps > 3 {
                fs::rename(killed.named("-new"), &file).unwrap();
            }
            let exchanged = Exchanged::put(&file, PAGES).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), "7,8\n", "{steps}");
            exchanged.back().unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), "1,2\n", "{steps}");
            assert_eq!(names(dir.path()), ["ib_buffer_pool"], "{steps}");
        }
    }

    #[test]
    fn what_is_not_on_disk_is_not_put_in_the_servers_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ib_buffer_pool");
        fs::write(&file, "1,2\n").unwrap();
        let full = |_: &File| Err(io::ErrorKind::StorageFull.into());
        let exchanged = Exchanged { file: file.clone(), sync: full };
        assert!(exchanged.exchange(PAGES).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "1,2\n");
        assert_eq!(names(dir.path()), ["ib_buffer_pool"]);
        // A directory that cannot be synced: the server's own file has not lost its name.
        let names_fail = |file: &File| match file.metadata()?.is_dir() {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => file.sync_all(),
        };
        let exchanged = Exchanged { file: file.clone(), sync: names_fail };
        assert!(exchanged.exchange(PAGES).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "1,2\n");
        assert_eq!(names(dir.path()), ["ib_buffer_pool"]);
    }

    #[test]
    fn what_the_server_wrote_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ib_buffer_pool");
        fs::write(&file, "1,2\n").unwrap();
        let exchanged = Exchanged::put(&file, PAGES).unwrap();
        fs::write(dir.path().join("ib_buffer_pool.incomplete"), "3,4\n").unwrap();
        fs::remove_file(&file).unwrap();
        fs::rename(dir.path().join("ib_buffer_pool.incomplete"), &file).unwrap();
        exchanged.back().unwrap();
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), names(dir.path()).len()), ("3,4\n", 1));
    }

    #[test]
    fn the_servers_words_are_understood() {
        for (status, running, completed) in [
            ("Buffer pool(s) load not started", false, false),
            ("Loading buffer pool(s) from /d/ib_buffer_pool", true, false),
            ("Loaded 2049/10000 pages", true, false),
            ("Buffer pool(s) load completed at 261122 21:50:45", false, true),
            ("Buffer pool(s) load aborted on request", false, false),
            ("Cannot open '/d/ib_buffer_pool' for reading: No such file or directory", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_running(status), is_completed(status)), (running, completed), "{status}");
        }
        assert_eq!(loaded("Loaded 2049/10000 pages"), Some(2049));
    }
}
