//! Proves that a server writes its slow log into a certain file on this host: a statement that the server logs has to appear in that file.
//!
//! The path alone proves nothing, because servers in containers and on other hosts use the same path. No other method works for every
//! version and every kind of connection: only root and the server's own user can list its open files, and a server does not report its
//! process id.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use link::{Link, LinkError};

use super::{ANSWER_MAX, RotateError};

/// These settings make the server log this session's statement, whatever the global settings are. A server that does not know one of them,
/// or does not permit this account to set it, usually does not need it; otherwise the statement does not appear, and that is reported. The
/// last setting must come last, because it enables logging.
const LOGGED: [&str; 5] = [
    "SET SESSION slow_query_log = ON",
    "SET SESSION log_slow_filter = ''",
    "SET SESSION log_slow_rate_limit = 1",
    "SET SESSION min_examined_row_limit = 0",
    "SET SESSION long_query_time = 0",
];
/// FLUSH and later statements are logged as for any other session.
const AS_OTHERS: &str = "SET SESSION long_query_time = DEFAULT";
/// The interval between two reads of the file.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The number of bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Why the proof is not possible.
pub(super) enum Why {
    Link(LinkError),
    File(io::Error),
}

impl Why {
    pub(super) fn into_error(self, at: &str, log: &Path) -> RotateError {
        match self {
            Why::Link(source) => RotateError::Link { at: at.to_owned(), source },
            Why::File(source) => RotateError::File { path: PathBuf::from(log), action: "read", source },
        }
    }
}

/// Whether a statement that is sent over `link` appears in `log` within `wait_max`.
pub(super) async fn appears(link: &mut Link, log: &Path, wait_max: Duration) -> Result<bool, Why> {
    let file = File::open(log).map_err(Why::File)?;
    let from = file.metadata().map_err(Why::File)?.len();
    for sql in LOGGED {
        said(link, sql).await?;
    }
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mark = format!("understudy slowlog rotate {}-{}", std::process::id(), since_1970.as_nanos());
    // MySQL logs statements whose duration is above zero. A replay refuses SLEEP, so no standby runs this statement.
    said(link, &format!("SELECT SLEEP(0.001), '{mark}'")).await?;
    said(link, AS_OTHERS).await?;
    let mut search = Search { file, at: from, mark: mark.into_bytes(), part: vec![0; READ_BYTES] };
    let begin = Instant::now();
    loop {
        // A server answers before it logs.
        match search.next().map_err(Why::File)? {
            Found::Mark => return Ok(true),
            _ if begin.elapsed() > wait_max => return Ok(false),
            Found::Nothing => {}
            Found::End => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

/// An error reply counts as an answer.
async fn said(link: &mut Link, sql: &str) -> Result<(), Why> {
    match link.query(sql, ANSWER_MAX).await {
        Ok(_) | Err(LinkError::Rejected { .. }) => Ok(()),
        Err(error) => Err(Why::Link(error)),
    }
}

struct Search {
    file: File,
    at: u64,
    mark: Vec<u8>,
    part: Vec<u8>,
}

enum Found {
    Mark,
    /// In this part; more may follow.
    Nothing,
    End,
}

impl Search {
    fn next(&mut self) -> io::Result<Found> {
        let read = self.file.read_at(&mut self.part, self.at)?;
        if self.part[..read].windows(self.mark.len()).any(|bytes| bytes == self.mark) {
            return Ok(Found::Mark);
        }
        // The statement may extend beyond the bytes read so far.
        self.at += read.saturating_sub(self.mark.len() - 1) as u64;
        Ok(if read < self.part.len() { Found::End } else { Found::Nothing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_wherever_it_lies() {
        let mark = b"the mark".to_vec();
        for before in [0, 1, 995, 1000, 1007, 2100] {
            let path = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(path.path(), [vec![b't'; before], mark.clone(), vec![b'x'; 300]].concat())
                .unwrap();
            let file = File::open(path.path()).unwrap();
            let mut search = Search { file, at: 0, mark: mark.clone(), part: vec![0; 1000] };
            let found = (0..5).any(|_| matches!(search.next(), Ok(Found::Mark)));
            assert!(found, "{before}");
        }
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), vec![b'x'; 2500]).unwrap();
        let mut search = Search { file: path.reopen().unwrap(), at: 0, mark, part: vec![0; 1000] };
        assert!((0..10).all(|_| !matches!(search.next(), Ok(Found::Mark))));
    }
}
