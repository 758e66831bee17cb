//! Queries one server about its buffer pool and tablespaces, and orders a dump of the pool.
//!
//! The dump file is the server's own, so this runs on the server's machine, as a user that may read its data directory. The order is the
//! server's own as well (`innodb_buffer_pool_dump_now`), with its own `innodb_buffer_pool_dump_pct`: no setting is changed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use link::{Endpoint, Link, LinkError, Login, Rows};

use super::snapshot::{Malformed, Snapshot, read_dump};
use super::spaces::{Space, Spaces};
use crate::follow::fnv1a;

/// The time limit of connecting, and of each small statement.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The time limit of a dump; one of 8 million pages takes some seconds.
const DUMP_MAX: Duration = Duration::from_secs(300);
/// If the status has the same error as before the order, it counts as the result of the order after this time.
const SAME_ERROR_AFTER: Duration = Duration::from_secs(5);
/// The interval of polling the server's status.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many tablespaces are queried at once; an answer has at most 10,000 rows.
const SPACES_AT_ONCE: usize = 5000;

/// Why a buffer pool was not dumped or loaded. `at` is the server's address.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// It cannot be queried.
    #[error("{at}: {source}")]
    Link {
        /// Which server.
        at: String,
        /// Why.
        source: LinkError,
    },
    /// The account lacks a privilege.
    #[error(
        "{at}: the account {user} may not do this: {message}. It needs PROCESS, and SUPER (MariaDB) or SYSTEM_VARIABLES_ADMIN (MySQL): \
         GRANT PROCESS, SUPER ON *.* TO {user}"
    )]
    Rights {
        /// Which server.
        at: String,
        /// Which account.
        user: String,
        /// The server's sentence.
        message: String,
    },
    /// It does not report a value that every InnoDB server reports.
    #[error("{at} does not tell {what}: is it MariaDB or MySQL, with InnoDB?")]
    Silent {
        /// Which server.
        at: String,
        /// The missing value.
        what: &'static str,
    },
    /// A file beside the server's data cannot be used.
    #[error(
        "{path} cannot be {action}: {source}; this runs on the machine of the server whose file that is, as root or as the server's user"
    )]
    File {
        /// Which file.
        path: PathBuf,
        /// "read", "written", ...
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not a dump.
    #[error("{path} is no dump of a buffer pool: {why}")]
    Dump {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: Malformed,
    },
    /// The server has reported a failure.
    #[error("{at} did not {what} its buffer pool; it says: {status}")]
    Failed {
        /// Which server.
        at: String,
        /// "dump" or "load".
        what: &'static str,
        /// Its status.
        status: String,
    },
    /// The server has made no progress.
    #[error("{at} has not got on with its buffer pool's {what} for {} s; it says: {status}", after.as_secs())]
    Stalled {
        /// Which server.
        at: String,
        /// "dump" or "load".
        what: &'static str,
        /// How long was waited.
        after: Duration,
        /// Its status.
        status: String,
    },
    /// The pages are from this server itself.
    #[error("{at} is the server that the pages are from: loading them there changes nothing")]
    Itself {
        /// Which server.
        at: String,
    },
    /// The server takes writes.
    #[error(
        "{at} takes writes (read_only = OFF), so it may be the active node: its memory is not touched. If it is a standby all the same, say --writable"
    )]
    Writable {
        /// Which server.
        at: String,
    },
    /// A load runs already.
    #[error(
        "{at} is loading its buffer pool already ({status}); wait for it, or end it: SET GLOBAL innodb_buffer_pool_load_abort = ON"
    )]
    Busy {
        /// Which server.
        at: String,
        /// Its status.
        status: String,
    },
    /// The page sizes differ, so the page numbers do not match.
    #[error(
        "{at} has pages of {to} bytes, and the pages are from a server with pages of {from} bytes (innodb_page_size)"
    )]
    PageSize {
        /// Which server.
        at: String,
        /// Its page size, in bytes.
        to: u32,
        /// The other's, in bytes.
        from: u32,
    },
    /// No page could be translated.
    #[error("of {pages} pages none is of a table that {at} has: are these two copies of the same database?")]
    Nothing {
        /// Which server.
        at: String,
        /// The number of pages in the dump.
        pages: usize,
    },
}

/// A server, and an account that may order a dump or a load.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its address.
    pub place: Endpoint,
    /// The account.
    pub login: Login,
}

/// A server's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) identity: String,
    pub(super) page_bytes: u32,
    pub(super) dump_percent: u8,
    /// The dump file.
    pub(super) file: PathBuf,
    pub(super) is_writable: bool,
    /// Which information_schema tables it has.
    dictionary: Dictionary,
}

/// The information_schema tables with the tablespaces, by kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dictionary {
    MariaDb,
    MySql5,
    MySql8,
}

impl Dictionary {
    fn of(version: &str) -> Dictionary {
        match version {
            _ if version.to_ascii_lowercase().contains("mariadb") => Dictionary::MariaDb,
            _ if version.starts_with("5.") => Dictionary::MySql5,
            _ => Dictionary::MySql8,
        }
    }

    /// The tables to query in order, where a later one has better data: the table, and the expression for the number of pages in a
    /// tablespace's file.
    fn tables(self) -> &'static [(&'static str, &'static str)] {
        const WITH_ZIP: &str = "FILE_SIZE DIV NULLIF(IF(ZIP_PAGE_SIZE > 0, ZIP_PAGE_SIZE, PAGE_SIZE), 0)";
        match self {
            Dictionary::MariaDb => &[
                ("INNODB_SYS_TABLES", "NULL"),
                ("INNODB_SYS_TABLESPACES", "FILE_SIZE DIV NULLIF(PAGE_SIZE, 0)"),
            ],
            Dictionary::MySql5 => &[("INNODB_SYS_TABLESPACES", WITH_ZIP)],
            Dictionary::MySql8 => &[("INNODB_TABLESPACES", WITH_ZIP)],
        }
    }
}

/// A connection to a server, which converts errors to [`PoolError`].
pub(super) struct ServerLink<'a> {
    server: &'a Server,
    link: Link,
}

impl Server {
    /// The address as text.
    pub fn address(&self) -> String {
        self.place.to_string()
    }

    /// Orders a dump, waits for it and parses it, with the names of the tablespaces.
    pub async fn snapshot(&self) -> Result<Snapshot, PoolError> {
        let mut session = self.session().await?;
        let facts = session.facts().await?;
        session.dump(&facts).await?;
        let text = fs::read_to_string(&facts.file).map_err(|source| unusable(&facts.file, "read", source))?;
        let pages = read_dump(&text).map_err(|why| PoolError::Dump { path: facts.file.clone(), why })?;
        let spaces = session.spaces(&facts).await?;
        session.link.quit();
        let Facts { identity: server, page_bytes, dump_percent, .. } = facts;
        Ok(Snapshot { server, page_bytes, dump_percent, spaces, pages })
    }

    pub(super) async fn session(&self) -> Result<ServerLink<'_>, PoolError> {
        let link = Link::connect_to(&self.place, &self.login, ANSWER_MAX).await;
        let link = link.map_err(|source| PoolError::Link { at: self.address(), source })?;
        Ok(ServerLink { server: self, link })
    }
}

impl ServerLink<'_> {
    pub(super) fn at(&self) -> String {
        self.server.address()
    }

    pub(super) async fn query(&mut self, sql: &str) -> Result<Rows, PoolError> {
        let at = self.at();
        self.link.query(sql, ANSWER_MAX).await.map_err(|source| match source {
            // ER_SPECIFIC_ACCESS_DENIED_ERROR: a privilege is missing.
            LinkError::Rejected { errno: 1227, message, .. } => {
                PoolError::Rights { at, user: self.server.login.user.clone(), message }
            }
            source => PoolError::Link { at, source },
        })
    }

    /// A status variable.
    pub(super) async fn status(&mut self, name: &'static str) -> Result<String, PoolError> {
        let rows = self.query(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).await?;
        let at = self.at();
        rows.value_of(name).map(str::to_owned).ok_or(PoolError::Silent { at, what: name })
    }

    /// A status variable that is a number.
    pub(super) async fn count(&mut self, name: &'static str) -> Result<u64, PoolError> {
        let at = self.at();
        self.status(name).await?.parse().map_err(|_| PoolError::Silent { at, what: name })
    }

    pub(super) async fn facts(&mut self) -> Result<Facts, PoolError> {
        let sql = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_page_size', 'innodb_buffer_pool_filename', \
                   'innodb_buffer_pool_dump_pct', 'innodb_data_home_dir', 'datadir', 'read_only', 'hostname', 'port', 'socket', 'version', \
                   'server_uid', 'server_uuid')";
        let rows = self.query(sql).await?;
        let at = self.at();
        let of = |what: &'static str| rows.value_of(what).ok_or(PoolError::Silent { at: at.clone(), what });
        let number = |what: &'static str| {
            of(what)?.parse::<u32>().map_err(|_| PoolError::Silent { at: at.clone(), what })
        };
        let datadir = Path::new(of("datadir")?);
        // InnoDB's own rule: an empty innodb_data_home_dir is the data directory.
        let home = rows.value_of("innodb_data_home_dir").filter(|home| !home.is_empty());
        let home = home.map_or_else(|| datadir.to_owned(), |home| datadir.join(home));
        let uid = rows.value_of("server_uid").or_else(|| rows.value_of("server_uuid")).unwrap_or_default();
        let whole = [uid, of("hostname")?, of("port")?, of("socket")?, of("datadir")?].join("\0");
        Ok(Facts {
            // A hash, since clients need not know the server's paths.
            identity: format!("{:016x}", fnv1a(whole.as_bytes())),
            page_bytes: number("innodb_page_size")?.max(1),
            dump_percent: number("innodb_buffer_pool_dump_pct")?.min(100) as u8,
            file: home.join(of("innodb_buffer_pool_filename")?),
            // MariaDB 12 has more values than ON; each one except OFF refuses writes.
            is_writable: matches!(of("read_only")?, "OFF" | "0"),
            dictionary: Dictionary::of(of("version")?),
        })
    }

    /// All tablespaces with their names, and their sizes where the server knows them.
    ///
    /// MariaDB opens a tablespace when it is first used (since MDEV-32027; also when a load lists it), and INNODB_SYS_TABLESPACES has only
    /// open ones: on a standby after a restart hardly any. INNODB_SYS_TABLES, from its dictionary, has all.
    pub(super) async fn spaces(&mut self, facts: &Facts) -> Result<Spaces, PoolError> {
        let mut spaces = Spaces::default();
        for (table, pages) in facts.dictionary.tables() {
            // 0 is the system tablespace. It may contain several tables, and is recognised by its number.
            let mut after = 0;
            loop {
                let sql = format!(
                    "SELECT SPACE, NAME, {pages} FROM information_schema.{table} WHERE SPACE > {after} ORDER BY SPACE LIMIT {SPACES_AT_ONCE}"
                );
                let rows = self.query(&sql).await?;
                for row in 0..rows.len() {
                    let number = rows.text(row, 0).and_then(|number| number.parse::<u32>().ok());
                    let (Some(number), Some(name)) = (number, rows.text(row, 1)) else { continue };
                    after = number;
                    // 0 means an unknown size: no file is empty.
                    let pages = rows.text(row, 2).and_then(|pages| pages.parse().ok());
                    let pages = pages.filter(|pages| *pages > 0);
                    spaces.insert(number, Space { name: name.to_owned(), pages });
                }
                if rows.len() < SPACES_AT_ONCE {
                    break;
                }
            }
        }
        Ok(spaces)
    }

    /// Orders a dump and waits until its file exists. Only the file shows that it is this dump: the server writes each dump to a new file,
    /// while the time in its status has whole seconds only.
    async fn dump(&mut self, facts: &Facts) -> Result<(), PoolError> {
        const STATUS: &str = "Innodb_buffer_pool_dump_status";
        let begin = Instant::now();
        let mut status = self.status(STATUS).await?;
        // MySQL's before the first one: "Dumping of buffer pool not started".
        let is_dumping = |status: &str| status.starts_with("Dumping") && !status.ends_with("not started");
        while is_dumping(&status) && begin.elapsed() < DUMP_MAX {
            tokio::time::sleep(LOOK_EVERY).await;
            status = self.status(STATUS).await?;
        }
        let (before, file_before) = (status, identity(&facts.file)?);
        self.query("SET GLOBAL innodb_buffer_pool_dump_now = ON").await?;
        let ordered = Instant::now();
        loop {
            let status = self.status(STATUS).await?;
            let is_error = ["Cannot", "Error"].iter().any(|word| status.starts_with(word));
            if status.contains("completed") && identity(&facts.file)? != file_before {
                return Ok(());
            }
            if is_error && (status != before || ordered.elapsed() > SAME_ERROR_AFTER) {
                return Err(PoolError::Failed { at: self.at(), what: "dump", status });
            }
            if ordered.elapsed() > DUMP_MAX {
                return Err(PoolError::Stalled { at: self.at(), what: "dump", after: DUMP_MAX, status });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(super) fn quit(self) {
        self.link.quit();
    }
}

pub(super) fn unusable(path: &Path, action: &'static str, source: io::Error) -> PoolError {
    PoolError::File { path: path.to_owned(), action, source }
}

/// The device and inode of a file, if it exists.
pub(super) fn identity(path: &Path) -> Result<Option<(u64, u64)>, PoolError> {
    match fs::metadata(path) {
        Ok(about) => Ok(Some((about.dev(), about.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unusable(path, "read", source)),
    }
}
