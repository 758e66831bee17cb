//! Whether a keepalived runs that has charge of this machine's addresses (of this network namespace's).
//!
//! Its pid file alone does not say: `use_pid_dir`, `instance`, `net_namespace` and `--pid` put it elsewhere, and one that is left
//! over may name anybody. So every process is looked at. With `process_name` keepalived calls itself otherwise; its program file,
//! and what it was started as, stay. What this user may not see is said, not guessed.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Its program, and what it calls its processes with `process_names`.
const NAMES: [&str; 4] = ["keepalived", "keepalived_vrrp", "keepalived_ipvs", "keepalived_bfd"];

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keepalived {
    /// It runs.
    Runs {
        /// Its main process.
        pid: u32,
        /// The pid file names it.
        in_pid_file: bool,
    },
    /// None runs here.
    No,
    /// This user may not see it; why.
    Unknown(String),
}

impl Keepalived {
    /// Looks at the pid file, then at all processes.
    pub fn look(pid_file: &Path) -> Self {
        let told = fs::read_to_string(pid_file).ok().and_then(|text| text.trim().parse().ok());
        if let Some(process) = told.and_then(Process::of)
            && process.is_here != Some(false)
        {
            return Self::Runs { pid: process.pid, in_pid_file: true };
        }
        // Of a process that always runs; /proc may be mounted so that those of others do not show.
        if fs::read_to_string("/proc/1/stat").is_err() {
            return Self::Unknown("/proc does not show the processes of other users".into());
        }
        let Ok(listed) = fs::read_dir("/proc") else {
            return Self::Unknown("/proc cannot be read".into());
        };
        let pids = listed.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let found: Vec<Process> =
            pids.filter_map(Process::of).filter(|process| process.is_here != Some(false)).collect();
        // The main process: the one that was not started by another of them.
        let is_main = |process: &&Process| !found.iter().any(|other| other.pid == process.parent);
        let of = |is_here| found.iter().filter(|process| process.is_here == is_here).find(is_main);
        match (of(Some(true)), of(None)) {
            (Some(process), _) => Self::Runs { pid: process.pid, in_pid_file: false },
            (None, Some(process)) => Self::Unknown(format!(
                "a keepalived runs as process {}, and this user may not see in which network namespace",
                process.pid
            )),
            (None, None) => Self::No,
        }
    }

    /// Its process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Runs { pid, .. } => Some(*pid),
            Self::No | Self::Unknown(_) => None,
        }
    }
}

/// A keepalived that lives.
struct Process {
    pid: u32,
    parent: u32,
    /// In this network namespace; `None`: this user may not see it.
    is_here: Option<bool>,
}

impl Process {
    /// `None`: it does not live, or is no keepalived.
    fn of(pid: u32) -> Option<Self> {
        let (name, parent) = living(pid)?;
        if !NAMES.contains(&name.as_str()) && !is_keepalived(pid) {
            return None;
        }
        let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net"));
        let is_here = match network(&pid.to_string()) {
            Ok(theirs) => Some(network("self").is_ok_and(|own| own == theirs)),
            // Also said of one that has just ended.
            Err(e) if e.kind() == ErrorKind::PermissionDenied && living(pid).is_some() => None,
            // One that ends gives up its namespaces before it is a zombie.
            Err(_) => return None,
        };
        Some(Self { pid, parent, is_here })
    }
}

/// The name of a process and its parent, if it lives.
fn living(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    Some((name.to_owned(), fields.next()?.parse().ok()?))
}

/// By its program file, which root sees, or by the name that it was started with, which everybody does.
fn is_keepalived(pid: u32) -> bool {
    let named = |path: &Path| {
        // The kernel says so of a program that was replaced by a newer one.
        path.file_name().is_some_and(|name| name == "keepalived" || name == "keepalived (deleted)")
    };
    if fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| named(&program)) {
        return true;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    std::str::from_utf8(first).is_ok_and(|first| named(Path::new(first)))
}

/// Whether this process is in the network namespace that `ip netns` calls so.
pub fn is_in_namespace(name: &str) -> bool {
    let is = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    let own = is(Path::new("/proc/self/ns/net"));
    own.is_some() && own == is(&Path::new("/run/netns").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_keepalived_that_lives_counts() {
        assert!(Process::of(std::process::id()).is_none(), "this is no keepalived");
        assert!(Process::of(u32::MAX).is_none());
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("keepalived");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("60").spawn().unwrap();
        let seen = Process::of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = seen.unwrap();
        assert_eq!((seen.pid, seen.parent, seen.is_here), (child.id(), std::process::id(), Some(true)));
        assert!(Process::of(child.id()).is_none());
    }

    #[test]
    fn a_namespace_of_no_name_is_another() {
        assert!(!is_in_namespace("nowhere-at-all"));
    }
}
