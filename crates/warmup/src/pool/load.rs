//! One load: the pages go into the server's own dump file, the server is told to load it, and its own file comes back.
//!
//! On MariaDB the file's name cannot be changed while the server runs, so the file itself is exchanged for a moment:
//!
//! ```text
//!   ib_buffer_pool                     the server's own            ours, while it is loaded     the server's own again
//!   ib_buffer_pool.understudy          ours, written and complete  a second name of the same    (gone)
//!   ib_buffer_pool.understudy-own                                  the server's own             (gone)
//! ```
//!
//! Every step leaves a state that the next run puts right: a file that still is ours by its inode is replaced by the server's own, and one that
//! the server wrote meanwhile, as it does at its end, is newer and stays.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::server::{LOOK_EVERY, PoolError, Server, Session, identity, unusable};
use super::snapshot::{Page, Snapshot, write_dump};
use super::translate::{LeftOut, translate};

/// A load whose status has not changed for so long has stopped. (A busy server loads `innodb_io_capacity` pages a second, and tells every 32 MiB.)
const STALL_MAX: Duration = Duration::from_secs(300);
/// A load that was told to end does so within this.
const ABORT_MAX: Duration = Duration::from_secs(30);
/// How a load stands, in the server's words.
const STATUS: &str = "Innodb_buffer_pool_load_status";
/// Pages in memory.
const PAGES: &str = "Innodb_buffer_pool_pages_data";

/// What may be done although it is refused otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// A server that takes writes. Galera's nodes all do.
    pub writable: bool,
}

/// How far a load is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Pages that the server has asked its disks for.
    pub loaded: u64,
    /// Pages there are to load.
    pub pages: u64,
}

/// A load that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Pages that the dump named.
    pub dumped: u64,
    /// Pages that the server was given.
    pub pages: u64,
    /// The others, by reason.
    pub left_out: LeftOut,
    /// Pages in the server's memory before, of all tables.
    pub before_pages: u64,
    /// And after.
    pub after_pages: u64,
    /// Pages that its memory holds.
    pub pool_pages: u64,
    /// How long the server took.
    pub spent: Duration,
    /// It was told to end before it was done.
    pub is_aborted: bool,
}

/// Loads `snapshot` on `server`. `tell` is told how far it is; when `stop` ends, the server is told to give up loading, and what it has stays.
pub async fn load(
    server: &Server,
    snapshot: &Snapshot,
    allowed: Allowed,
    tell: impl Fn(Progress),
    stop: impl Future<Output = ()>,
) -> Result<Loaded, PoolError> {
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
    let exchanged = Exchanged::put(&facts.file, &translated.pages)?;
    let begin = Instant::now();
    let ended = session.load(translated.pages.len() as u64, allowed, tell, stop).await;
    // Also after an error, which is the one to be told then.
    let back = exchanged.back();
    let is_aborted = ended?;
    back?;
    let spent = begin.elapsed();
    let after_pages = session.count(PAGES).await?;
    session.quit();
    Ok(Loaded {
        dumped: snapshot.pages.len() as u64,
        pages: translated.pages.len() as u64,
        left_out: translated.left_out,
        before_pages,
        after_pages,
        pool_pages,
        spent,
        is_aborted,
    })
}

impl Session<'_> {
    /// Orders the load and waits for its end; whether it was broken off.
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
            // It may have become the active node meanwhile.
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
        let said = self.query("SELECT @@GLOBAL.read_only").await?;
        Ok(said.text(0, 0) == Some("0"))
    }

    /// The status before the order, once a new load's end would have another time: the server tells it in whole seconds.
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

/// It is under way.
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

/// The server's dump file, while it is ours.
struct Exchanged {
    file: PathBuf,
    /// Writes a file, or a directory's names, to disk: [`File::sync_all`], but for tests.
    sync: fn(&File) -> io::Result<()>,
}

impl Exchanged {
    /// Puts `pages` where the server loads from.
    fn put(file: &Path, pages: &[Page]) -> Result<Exchanged, PoolError> {
        Exchanged { file: file.to_owned(), sync: File::sync_all }.exchange(pages)
    }

    fn exchange(self, pages: &[Page]) -> Result<Exchanged, PoolError> {
        let exchanged = self;
        // What a run that was killed left.
        exchanged.restore()?;
        let ours = exchanged.ours();
        let put = exchanged.write(pages).and_then(|()| exchanged.swap());
        put.map_err(|source| {
            // The first error is the one to tell.
            let _ = exchanged.restore();
            unusable(&ours, "written", source)
        })?;
        Ok(exchanged)
    }

    /// Gives the server its own file back, and leaves nothing.
    fn back(self) -> Result<(), PoolError> {
        self.restore()
    }

    fn write(&self, pages: &[Page]) -> io::Result<()> {
        // create_new follows no link that somebody else may have put there.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(self.ours())?;
        let owner = fs::metadata(self.directory())?;
        // The server has to read it. Only root may give it away, and only root has to.
        if file.metadata()?.uid() != owner.uid() {
            fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
        }
        file.write_all(write_dump(pages).as_bytes())?;
        // Whole on disk before it has the server's name: after a crash the server loads what it finds under that.
        (self.sync)(&file)
    }

    fn directory(&self) -> &Path {
        self.file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// The names in the directory are on disk.
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
        // The server's own file has its second name before it loses its first.
        self.sync_names()?;
        fs::rename(link, &self.file)?;
        self.sync_names()
    }

    fn restore(&self) -> Result<(), PoolError> {
        let ours = identity(&self.ours())?;
        if ours.is_some() && ours == identity(&self.file)? {
            // The server's own comes back in one step; it may have had none.
            match fs::rename(self.own(), &self.file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => remove(&self.file)?,
                other => other.map_err(|source| unusable(&self.file, "given back", source))?,
            }
            // Before the names are gone by which the next run would know what to put right.
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
        // Each state that a run can leave: after writing, after the server's own got its second name, after ours got its, and after the exchange.
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
        // A directory whose names cannot be written: the server's own file has not lost its name.
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
