//! The unix socket between a command that asks once and a program that already knows: `understudy check`, or `serve`.
//!
//! ```text
//!   check, serve --bind--> /run/understudy/NAMESPACE-TARGET.sock <--ask-- check --once, clustercheck
//! ```
//!
//! Several databases and several network namespaces may share one file system. So the file's name is made of the database's place and
//! of the namespace that its asker is in: only the answers about the very same database are found. Nothing secret goes through it:
//! a question in, a yes or no out. Whoever may write the directory (root, or the service's user) could put a socket there; nobody else.
//!
//! The way of the question is short, because keepalived takes it each second: no runtime, no threads.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use health::answer::{Answer, AnswerKind};
use link::Endpoint;
use sha1::{Digest, Sha1};
use socket2::{Domain, SockAddr, Socket, Type};
use topology::health::{Question, Rules};

/// Where the sockets are, unless `UNDERSTUDY_RUN_DIR` says otherwise (to both ends).
const DIRECTORY: &str = "/run/understudy";
/// Where a server's unix socket is when nobody says where: Debian's place, and Red Hat's.
pub const DEFAULT_SOCKETS: [&str; 2] = ["/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock"];
/// How long a program that has a socket may take to show that it lives.
const LIVE_TIME_MAX: Duration = Duration::from_millis(500);
/// An answer is a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A database, by the name that both ends have for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one that a client finds when it is not told where: this machine's, at this port. Its unix socket is one of
    /// [`DEFAULT_SOCKETS`]. `serve` has this name for the node that runs beside it, if only one with that port does.
    Here(u16),
    /// `ADDRESS:PORT`.
    Tcp(String),
    /// Behind another unix socket.
    Unix(PathBuf),
    /// Not a database: Understudy's own door, of the cluster with this name.
    Door(String),
}

impl Target {
    /// The name for a place. `port` is only for the machine's own.
    pub fn of(place: &Endpoint, port: u16) -> Self {
        match place {
            Endpoint::Tcp(address) => Self::Tcp(address.to_ascii_lowercase()),
            Endpoint::Unix(path) => Self::of_socket(path, port, DEFAULT_SOCKETS.map(Path::new)),
        }
    }

    /// The machine's own is behind one of the `usual` sockets. When there are several, there are several servers, and none has that name.
    fn of_socket(path: &Path, port: u16, usual: [&Path; 2]) -> Self {
        let path = unlinked(path);
        let is_usual = usual.iter().any(|known| unlinked(known) == path);
        let file = |path: &Path| path.canonicalize().ok();
        let is_another =
            |other: &&Path| unlinked(other) != path && other.exists() && file(other) != file(&path);
        if is_usual && !usual.iter().any(is_another) { Self::Here(port) } else { Self::Unix(path) }
    }

    /// The file of its socket.
    pub fn file(&self) -> PathBuf {
        // The kernel's number for the namespace; where /proc is missing there is one for all.
        let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |about| about.ino());
        // A hash, since a socket's path has 107 bytes and a database's may have as many.
        let hash = Sha1::digest(self.text());
        let hash = hash.iter().take(8).fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        directory().join(format!("{namespace}-{hash:016x}.sock"))
    }

    fn text(&self) -> String {
        match self {
            Self::Here(port) => format!("here:{port}"),
            Self::Tcp(address) => format!("tcp:{address}"),
            Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Door(cluster) => format!("door:{cluster}"),
        }
    }
}

/// `/var/run/x` is `/run/x`. The socket itself comes and goes with its server, its directory stays.
fn unlinked(path: &Path) -> PathBuf {
    match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

fn directory() -> PathBuf {
    std::env::var_os("UNDERSTUDY_RUN_DIR")
        .filter(|dir| !dir.is_empty())
        .map_or_else(|| DIRECTORY.into(), PathBuf::from)
}

/// The file of a socket that listens, until this is dropped: then it is removed, if it is still ours.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    inode: u64,
}

impl Bound {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|about| about.ino() == self.inode) {
            // What cannot be removed is found stale by the next one.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// How commands do without a socket.
const THEMSELVES: &str = "commands on this machine will ask the database themselves";

/// Listens at `path`, for everybody of this machine. A file that a dead program left there is replaced; a live one's is not.
///
/// # Errors
/// One sentence: a live program has it, or the system's reason; and whom commands of this machine ask then.
pub fn bind(path: &Path) -> Result<(UnixListener, Bound), String> {
    make_directory(path);
    let told = |why: &str| format!("the socket {} {why}; {THEMSELVES}", path.display());
    let wrong = |e: io::Error| told(&format!("cannot be made: {e}"));
    if let Ok(about) = fs::symlink_metadata(path) {
        if !about.file_type().is_socket() {
            return Err(told("cannot be made: there is a file of another kind"));
        }
        match connect(path, LIVE_TIME_MAX) {
            Ok(_) => {
                return Err(format!(
                    "the socket {} belongs to another program, which answers there; commands on this machine go on asking that one \
                     as long as it runs",
                    path.display()
                ));
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(told("belongs to another program, which does not answer there: it hangs"));
            }
            Err(e) => return Err(wrong(e)),
        }
    }
    // Under another name first: whoever finds it under its own can ask.
    let new = path.with_extension(std::process::id().to_string());
    let _ = fs::remove_file(&new);
    let listener = UnixListener::bind(&new).map_err(wrong)?;
    let named =
        fs::set_permissions(&new, Permissions::from_mode(0o666)).and_then(|()| fs::rename(&new, path));
    let inode = named.and_then(|()| fs::symlink_metadata(path)).map(|about| about.ino());
    match inode {
        Ok(inode) => Ok((listener, Bound { path: path.to_owned(), inode })),
        Err(e) => {
            let _ = fs::remove_file(&new);
            Err(wrong(e))
        }
    }
}

/// Makes the directory of all the sockets. Should that fail, binding says so better.
fn make_directory(path: &Path) {
    let directory = directory();
    if path.parent() == Some(&directory)
        && !directory.exists()
        && DirBuilder::new().mode(0o755).create(&directory).is_ok()
    {
        // Whatever the umask took away.
        let _ = fs::set_permissions(&directory, Permissions::from_mode(0o755));
    }
}

/// Also bounds the connecting, and the first write: where the queue of a program that hangs is full, one would wait for ever.
fn connect(path: &Path, within: Duration) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(within))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket)
}

/// Asks whoever listens at `path`. `None`: nobody does, or gave no answer within `within`.
pub fn ask(path: &Path, question: Question, within: Duration) -> Option<Answer> {
    let until = Instant::now() + within;
    let left = || Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
    let mut socket = connect(path, left()?).ok()?;
    let request =
        format!("GET /answer?{} HTTP/1.1\r\nHost: understudy\r\nConnection: close\r\n\r\n", query(question));
    socket.write_all(request.as_bytes()).ok()?;
    let (mut said, mut piece) = (Vec::new(), [0; 1024]);
    while said.len() <= ANSWER_BYTES_MAX {
        socket.set_read_timeout(left().map(Some)?).ok()?;
        match socket.read(&mut piece) {
            Ok(0) => return understand(&said),
            Ok(count) => said.extend_from_slice(&piece[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    None
}

fn query(question: Question) -> String {
    match question {
        Question::Member(Rules { donor, read_only, drained }) => {
            let [donor, read_only, drained] = [donor, read_only, drained].map(u8::from);
            format!("donor={donor}&readonly={read_only}&drained={drained}")
        }
        Question::Writer => "role=writer".into(),
        Question::Replica { lag_max: None } => "role=replica".into(),
        Question::Replica { lag_max: Some(most) } => format!("role=replica&max_lag={}ms", most.as_millis()),
    }
}

/// As [`health::style::json`] writes it.
#[derive(serde::Deserialize)]
struct JsonAnswer {
    kind: AnswerKind,
    reason: String,
    age_ms: u64,
}

fn understand(answer: &[u8]) -> Option<Answer> {
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let said: JsonAnswer = serde_json::from_slice(&answer[body..]).ok()?;
    Some(Answer::new(said.kind, said.reason, Duration::from_millis(said.age_ms)))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const QUESTION: Question = Question::Member(Rules { donor: true, ..Rules::STRICT });

    #[test]
    fn a_database_has_one_name() {
        let tcp = |address: &str| Target::of(&Endpoint::Tcp(address.into()), 3306);
        let unix = |path: &str, port| Target::of(&Endpoint::Unix(path.into()), port);
        assert_eq!(tcp("DB1:3306"), tcp("db1:3306"));
        assert_eq!(unix("/run/mysqld/mysqld.sock", 3306), Target::Here(3306));
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, dir.path().join("link")).unwrap();
        let (real, link) = (real.join("s"), dir.path().join("link/s"));
        assert_eq!(unix(real.to_str().unwrap(), 1), unix(link.to_str().unwrap(), 2));

        // Two servers with usual sockets: none of them is "the" one, and each has its own name.
        let usual = [dir.path().join("debian"), dir.path().join("red-hat")];
        let here = |nth: usize| Target::of_socket(&usual[nth], 1, [&usual[0], &usual[1]]);
        assert_eq!((here(0), here(1)), (Target::Here(1), Target::Here(1)));
        std::os::unix::fs::symlink(&usual[0], &usual[1]).unwrap();
        fs::write(&usual[0], "").unwrap();
        assert_eq!((here(0), here(1)), (Target::Here(1), Target::Here(1)), "a link to the other is no other");
        fs::remove_file(&usual[1]).unwrap();
        fs::write(&usual[1], "").unwrap();
        assert_ne!(here(0), here(1));
        assert!(matches!((here(0), here(1)), (Target::Unix(_), Target::Unix(_))));

        let all = [
            Target::Here(3306),
            Target::Here(3307),
            tcp("10.0.0.1:3306"),
            tcp("10.0.0.2:3306"),
            unix("/tmp/a.sock", 3306),
            Target::Door("shop".into()),
        ];
        let mut files: Vec<PathBuf> = all.iter().map(Target::file).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), all.len());
        assert!(files.iter().all(|file| file.as_os_str().len() < 100), "{files:?}");
    }

    #[test]
    fn a_dead_programs_file_is_replaced_and_a_live_ones_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let (listener, bound) = bind(&path).unwrap();
        let said = bind(&path).unwrap_err();
        assert!(said.contains("belongs to another program"), "{said}");
        // A dead program removes nothing.
        std::mem::forget(bound);
        drop(listener);
        assert!(path.exists());
        let (_listener, bound) = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        drop(bound);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");

        fs::write(&path, "mine").unwrap();
        assert!(bind(&path).unwrap_err().contains("a file of another kind"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_program_that_hangs_keeps_its_socket_and_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let hung = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        hung.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        hung.listen(0).unwrap();
        // The queue's only place.
        let _waits = connect(&path, LIVE_TIME_MAX).unwrap();
        let (began, said) = (Instant::now(), bind(&path).unwrap_err());
        assert!(said.contains("which does not answer there: it hangs"), "{said}");
        assert!(began.elapsed() < 4 * LIVE_TIME_MAX, "{:?}", began.elapsed());
        assert!(ask(&path, QUESTION, Duration::from_millis(50)).is_none());
    }

    #[test]
    fn what_was_taken_over_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let (listener, first) = bind(&path).unwrap();
        drop(listener);
        let (_listener, _second) = bind(&path).unwrap();
        drop(first);
        assert!(path.exists());
    }

    #[test]
    fn an_answer_is_understood_and_silence_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        assert!(ask(&path, QUESTION, Duration::from_secs(1)).is_none(), "nobody listens");
        let (listener, _bound) = bind(&path).unwrap();
        let began = Instant::now();
        assert!(ask(&path, QUESTION, Duration::from_millis(50)).is_none(), "nobody answers");
        assert!(began.elapsed() < Duration::from_secs(1));
        let server = thread::spawn(move || {
            // The silent question first.
            let _ = listener.accept().unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 200];
            let count = stream.read(&mut request).unwrap();
            let body = health::style::json(&Answer::new(
                AnswerKind::ReadOnly,
                "is read only",
                Duration::from_millis(7),
            ));
            write!(stream, "HTTP/1.1 503 Service Unavailable\r\nX: y\r\n\r\n{body}").unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        let answer = ask(&path, QUESTION, Duration::from_secs(5)).unwrap();
        let age = Duration::from_millis(7);
        assert_eq!((answer.kind, &*answer.reason, answer.age), (AnswerKind::ReadOnly, "is read only", age));
        assert!(server.join().unwrap().starts_with("GET /answer?donor=1&readonly=0&drained=0 HTTP/1.1\r\n"));
        for nonsense in [&b"HTTP/1.1 200 OK\r\n\r\n{}"[..], b"", b"\r\n\r\n{\"kind\":\"fine\"}"] {
            assert!(understand(nonsense).is_none());
        }
    }
}
