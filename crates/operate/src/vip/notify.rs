//! `understudy vip notify`: records what keepalived says of itself, exactly as `now master`, `now backup`, `now fault`, `now stop`.
//!
//! keepalived starts a notify command for each change and does not wait for it, so two of them may run at once: a tie makes a
//! master a backup again within milliseconds. Invariant: the state file holds the word of the command that was started last,
//! whichever ends last. Beside it, `NAME.by` keeps when that one was started; it is also the lock.
//!
//! Runs as root with keepalived's umask (0177), perhaps in a directory like /tmp: what it makes gets its permissions by name, and
//! no link is followed.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use rustix::fs::OFlags;

use super::files::STATE_FILE;
use cli::exit::{CommandResult, Failure};
use report::table::moment;

/// Records a change of state; keepalived runs this
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 recorded, or a later change was recorded already; 1 the state or the log cannot be written; 2 wrong usage."
)]
pub struct Notify {
    /// master, backup, fault or stop; or as keepalived's generic `notify` gives it: INSTANCE|GROUP NAME STATE PRIORITY
    #[arg(value_name = "STATE", required = true, num_args = 1..=4)]
    words: Vec<String>,
    /// Where the state is kept
    #[arg(long, value_name = "FILE", default_value = STATE_FILE)]
    state_file: PathBuf,
    /// Add a line with the time to this file, too
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// What keepalived can say.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    /// `INSTANCE PXC`, when it was said.
    of: Option<String>,
    /// `master`.
    state: String,
}

impl Notify {
    /// Records it.
    pub fn run(&self) -> CommandResult {
        let word = Word::read(&self.words)?;
        let failed =
            |path: &Path, e: &io::Error| Failure::Failed(format!("cannot write {}: {e}", path.display()));
        // The log first: it keeps every change, also the one that a later one has overtaken. That it cannot be written is no reason
        // to leave a state standing that is not so any more.
        let noted = self.log.as_ref().map_or(Ok(()), |log| note(log, &word).map_err(|e| failed(log, &e)));
        record(&self.state_file, &word.state, Started::of_this_process()?)
            .map_err(|e| failed(&self.state_file, &e))?;
        noted.map(|()| ExitCode::SUCCESS)
    }
}

impl Word {
    fn read(words: &[String]) -> Result<Self, Failure> {
        let (of, state) = match words {
            [state] => (None, state),
            [kind, name, state] | [kind, name, state, _] => (Some(format!("{kind} {name}")), state),
            _ => return Err(Failure::usage("a state is one word, or INSTANCE NAME STATE PRIORITY")),
        };
        let state = state.to_ascii_lowercase();
        if !["master", "backup", "fault", "stop", "deleted"].contains(&state.as_str()) {
            return Err(Failure::Usage(format!("{state:?} is none of master, backup, fault, stop")));
        }
        Ok(Self { of, state })
    }
}

/// When a process was started, and which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Started {
    /// The machine's start that it came after: the kernel's own number for it. The state file may outlive that.
    boot: u128,
    /// Clock ticks (10 ms) since then.
    ticks: u64,
    /// Grows within a tick.
    pid: u32,
}

impl Started {
    fn of_this_process() -> Result<Self, Failure> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(|e| Failure::Failed(format!("cannot read {path}: {e}")))
        };
        let stat = read("/proc/self/stat")?;
        // The name stands in brackets and may hold anything, so fields are counted after the last bracket.
        let ticks = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
        let ticks =
            ticks.ok_or_else(|| Failure::Failed("/proc/self/stat does not say when this began".into()))?;
        let boot = read("/proc/sys/kernel/random/boot_id")?.trim().replace('-', "");
        let boot = u128::from_str_radix(&boot, 16)
            .map_err(|_| Failure::Failed("/proc/sys/kernel/random/boot_id is no number".into()))?;
        Ok(Self { boot, ticks, pid: std::process::id() })
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let boot = u128::from_str_radix(words.next()?, 16).ok()?;
        Some(Self { boot, ticks: words.next()?.parse().ok()?, pid: words.next()?.parse().ok()? })
    }

    /// Since the same start of the machine, and later.
    fn is_after(self, other: Self) -> bool {
        self.boot == other.boot && (self.ticks, self.pid) > (other.ticks, other.pid)
    }
}

/// Writes the state, whole or not at all, unless a command that was started later has been here already.
fn record(path: &Path, state: &str, started: Started) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        make_directory(directory)?;
    }
    let mut by = locked(&beside(path, ".by"), started.pid)?;
    let mut last = String::new();
    // Whatever is no text is nobody's word.
    let _ = Read::by_ref(&mut by).take(128).read_to_string(&mut last);
    if Started::read(&last).is_some_and(|last| last.is_after(started)) && path.exists() {
        return Ok(());
    }
    let fresh = beside(path, &format!(".{}", started.pid));
    // Left by a process of that number which was killed.
    let _ = fs::remove_file(&fresh);
    let written = File::create_new(&fresh)
        .and_then(|mut file| {
            file.set_permissions(Permissions::from_mode(0o644))?;
            file.write_all(format!("now {state}\n").as_bytes())
        })
        // Takes the place of whatever has that name; a link there is not followed.
        .and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written?;
    by.rewind()?;
    by.set_len(0)?;
    write!(by, "{:032x} {} {}", started.boot, started.ticks, started.pid)
}

/// `vip status` is for every user, so each directory that is made here may be entered by everybody.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(outer) = path.parent() {
        make_directory(outer)?;
    }
    match fs::create_dir(path) {
        // By another command that runs at the same time.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755))),
    }
}

/// A file in the same directory, with the name and this at its end.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Opens and locks the file beside the state. Nobody else may read it, because who can read it can hold the lock for ever. What
/// somebody else put there first, in a directory like /tmp, is refused: a link, or a file of its own.
fn locked(path: &Path, pid: u32) -> io::Result<File> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        let about = file.metadata()?;
        let is_own = about.uid() == rustix::process::geteuid().as_raw();
        if !is_own && !is_roots_to_replace(path) {
            return Err(io::Error::other(format!("{} belongs to another user: remove it", path.display())));
        }
        file.lock()?;
        // Whoever had the lock before may have replaced it.
        match fs::symlink_metadata(path) {
            Ok(now) if (now.dev(), now.ino()) == (about.dev(), about.ino()) => {}
            Ok(_) => continue,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        }
        return if is_own { Ok(file) } else { replaced(path, pid) };
    }
}

/// systemd gives everything in a service's directory to the service's user, this file as well. In a directory where only its owner
/// and root can have put it, root takes a fresh one.
fn is_roots_to_replace(path: &Path) -> bool {
    let directory = path.parent().and_then(|directory| fs::symlink_metadata(directory).ok());
    rustix::process::geteuid().is_root()
        && directory.is_some_and(|about| about.is_dir() && about.mode() & 0o022 == 0)
}

/// Puts a fresh file, locked, in the place of another user's, whose lock is held.
fn replaced(path: &Path, pid: u32) -> io::Result<File> {
    let fresh = beside(path, &format!(".{pid}"));
    // Left by a process of that number which was killed.
    let _ = fs::remove_file(&fresh);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.lock()?;
    fs::rename(&fresh, path).inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })?;
    Ok(file)
}

fn note(path: &Path, word: &Word) -> io::Result<()> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let of = word.of.as_ref().map_or_else(String::new, |of| format!("{of} "));
    let line = format!("{} {of}now {}\n", moment(since.as_millis() as u64), word.state);
    // No link is followed, and no pipe waited for. One write: lines of commands that run at once do not mix.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn both_forms_are_read() {
        let state = |text| Word::read(&words(text)).map(|word| (word.of, word.state)).ok();
        assert_eq!(state("master"), Some((None, "master".into())));
        assert_eq!(state("INSTANCE PXC FAULT 100"), Some((Some("INSTANCE PXC".into()), "fault".into())));
        for bad in ["primary", "INSTANCE PXC", "INSTANCE PXC what 100"] {
            assert_eq!(state(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_command_that_began_last_has_the_last_word() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/vip.state");
        let at = |ticks, pid| Started { boot: 1, ticks, pid };
        let now = || std::fs::read_to_string(&path).unwrap();
        record(&path, "backup", at(100, 7)).unwrap();
        assert_eq!(now(), "now backup\n");
        record(&path, "master", at(101, 3)).unwrap();
        record(&path, "fault", at(100, 9)).unwrap();
        assert_eq!(now(), "now master\n");
        record(&path, "fault", at(101, 4)).unwrap();
        assert_eq!(now(), "now fault\n");
        // What somebody wrote there is no reason to fail.
        std::fs::write(dir.path().join("new/vip.state.by"), "rubbish").unwrap();
        record(&path, "master", at(1, 1)).unwrap();
        assert_eq!(now(), "now master\n");
        // A file that outlives a restart of the machine, where the clock begins anew.
        record(&path, "backup", Started { boot: 2, ticks: 0, pid: 1 }).unwrap();
        assert_eq!(now(), "now backup\n");
        record(&path, "fault", Started { boot: 2, ticks: 0, pid: 0 }).unwrap();
        assert_eq!(now(), "now backup\n");
    }

    #[test]
    fn this_process_knows_when_it_began() {
        let began = Started::of_this_process().unwrap();
        assert!(began.boot != 0 && began.ticks != 0);
        let Started { boot, ticks, pid } = began;
        assert_eq!(Started::read(&format!("{boot:032x} {ticks} {pid}")), Some(began));
    }

    /// systemd's `RuntimeDirectory=` with a `User=` does this to all in the directory.
    #[test]
    fn what_was_given_to_another_user_is_replaced_where_nobody_else_may_write() {
        if !rustix::process::geteuid().is_root() {
            println!("what_was_given_to_another_user_is_replaced is skipped: it needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (directory, path) = (dir.path().join("run"), dir.path().join("run/vip.state"));
        let by = directory.join("vip.state.by");
        let give = |mode: u32| {
            for path in [&directory, &by] {
                std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
            }
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
        };
        let at = |ticks| Started { boot: 1, ticks, pid: 1 };
        let now = || fs::read_to_string(&path).unwrap();
        record(&path, "backup", at(1)).unwrap();
        give(0o755);
        // Several at once: each either replaces it or waits for the one that does, and the last word is the last one's.
        std::thread::scope(|scope| {
            for (ticks, state) in [(5, "master"), (4, "backup"), (3, "fault"), (2, "stop")] {
                let path = &path;
                let started = Started { boot: 1, ticks, pid: 10 + ticks as u32 };
                scope.spawn(move || record(path, state, started).unwrap());
            }
        });
        assert_eq!(now(), "now master\n");
        let about = fs::metadata(&by).unwrap();
        assert_eq!((about.uid(), about.mode() & 0o777), (0, 0o600));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "nothing else is left");
        // Where others may write, nobody knows whose it is.
        for mode in [0o775, 0o757, 0o1777] {
            give(mode);
            let error = record(&path, "fault", at(9)).unwrap_err().to_string();
            assert!(error.contains("belongs to another user"), "{mode:o}: {error}");
        }
        assert_eq!(now(), "now master\n");
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("state"), dir.path().join("victim"));
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        record(&path, "master", Started { boot: 1, ticks: 1, pid: 1 }).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        let path = dir.path().join("other");
        std::os::unix::fs::symlink(&victim, dir.path().join("other.by")).unwrap();
        assert!(record(&path, "master", Started { boot: 1, ticks: 1, pid: 1 }).is_err());
        let log = dir.path().join("log");
        std::os::unix::fs::symlink(&victim, &log).unwrap();
        assert!(note(&log, &Word { of: None, state: "master".into() }).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
}
