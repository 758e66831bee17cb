//! What is done to the server: the two commands that the user gave, and its saved position.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, Command};
use topology::galera::position::{Grastate, grastate};

/// As Galera itself writes it for a node that has nothing. The file is not removed: without it a node may be started as a cluster of its own.
const NOTHING: &str = "# GALERA saved state\nversion: 2.1\nuuid:    00000000-0000-0000-0000-000000000000\nseqno:   -1\nsafe_to_bootstrap: 0\n";
/// Of what a failed command said.
const SAID_BYTES_MAX: usize = 2_000;

/// A command of the user's that runs.
pub(super) struct Running {
    line: String,
    child: Child,
    said: tempfile::NamedTempFile,
}

/// Begins a shell line, in a process group of its own: Ctrl-C ends this program, and not a server that it starts.
pub(super) fn begin(line: &str) -> Result<Running, String> {
    let cannot = |e: std::io::Error| format!("cannot run `{line}`: {e}");
    let said = tempfile::NamedTempFile::new().map_err(cannot)?;
    let (out, err) = (said.reopen().map_err(cannot)?, said.reopen().map_err(cannot)?);
    let child = Command::new("/bin/sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(cannot)?;
    Ok(Running { line: line.to_owned(), child, said })
}

impl Running {
    /// Waits for its end.
    ///
    /// # Errors
    /// When it fails, with the end of what it said.
    pub(super) async fn ended(&mut self) -> Result<(), String> {
        let status = self.child.wait().await.map_err(|e| format!("cannot wait for `{}`: {e}", self.line))?;
        if status.success() { Ok(()) } else { Err(self.why(status)) }
    }

    fn why(&self, status: ExitStatus) -> String {
        let said = std::fs::read(self.said.path()).unwrap_or_default();
        let from = said.len().saturating_sub(SAID_BYTES_MAX);
        let said = String::from_utf8_lossy(said.get(from..).unwrap_or_default()).trim().to_owned();
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        format!("`{}` ended with {status}{said}", self.line)
    }
}

/// What a node that has ended left of its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtStop {
    /// It ended well, with this writeset.
    Clean(u64),
    /// It crashed, or runs: InnoDB knows, and `--wsrep-recover` reads it before the next start. Also where the file cannot be read any more.
    ToBeRecovered,
    /// It has no data of any cluster.
    Nothing,
}

/// A node's `grastate.dat`.
pub(super) struct Saved {
    path: PathBuf,
}

impl Saved {
    /// The one of this data directory.
    ///
    /// # Errors
    /// When it has none, or it cannot be read.
    pub(super) fn of(datadir: &Path) -> Result<Self, String> {
        let path = datadir.join("grastate.dat");
        match infile::read_text(&path) {
            Ok(text) if text.contains("GALERA saved state") => Ok(Self { path }),
            Ok(_) => Err(format!("{} is no saved state of Galera", path.display())),
            Err(e) => Err(format!(
                "{}: {e}; is --datadir the node's data directory, and may you read it?",
                path.display()
            )),
        }
    }

    /// What it says now.
    pub(super) fn position(&self) -> AtStop {
        let read = std::fs::read_to_string(&self.path).ok().and_then(|text| grastate(&text).ok());
        match read {
            Some(Grastate { position: Ok(position), .. }) => AtStop::Clean(position.seqno),
            Some(Grastate { has_data: true, .. }) | None => AtStop::ToBeRecovered,
            Some(Grastate { has_data: false, .. }) => AtStop::Nothing,
        }
    }

    /// Makes the node forget its position, upon which it asks for a full copy; what was there is kept beside it. `seen`: the last writeset that was seen on
    /// the node.
    ///
    /// # Errors
    /// When the file is not that of a node that has just ended well with at least that writeset: it may be another node's, which runs. Or it cannot be written.
    pub(super) fn forget(&self, seen: u64) -> Result<(), String> {
        if !matches!(self.position(), AtStop::Clean(seqno) if seqno >= seen) {
            return Err(format!(
                "{} does not say what a server leaves that has ended well with writeset {seen}: is --datadir the node's, on this host? It was not changed",
                self.path.display()
            ));
        }
        let aside = self.path.with_extension("dat.before-full-copy");
        std::fs::copy(&self.path, &aside).map_err(|e| format!("cannot write {}: {e}", aside.display()))?;
        // Written in place: owner and mode stay as they are.
        std::fs::write(&self.path, NOTHING).map_err(|e| format!("cannot write {}: {e}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_forgotten_and_kept_beside() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Saved::of(dir.path()).err().unwrap().contains("--datadir"));
        let text = "# GALERA saved state\nversion: 2.1\nuuid:    4d02cf61-e6ca-11f1-a31c-9aa338aa497e\nseqno:   56\nsafe_to_bootstrap: 0\n";
        std::fs::write(dir.path().join("grastate.dat"), text).unwrap();
        let saved = Saved::of(dir.path()).unwrap();
        assert_eq!(saved.position(), AtStop::Clean(56));
        assert!(saved.forget(57).is_err(), "another node's");
        assert_eq!(saved.position(), AtStop::Clean(56));
        saved.forget(55).unwrap();
        assert_eq!(saved.position(), AtStop::Nothing);
        assert_eq!(std::fs::read_to_string(dir.path().join("grastate.dat.before-full-copy")).unwrap(), text);
    }

    #[test]
    fn a_node_that_crashed_still_has_what_it_had() {
        let dir = tempfile::tempdir().unwrap();
        let text = "# GALERA saved state\nversion: 2.1\nuuid:    4d02cf61-e6ca-11f1-a31c-9aa338aa497e\nseqno:   -1\nsafe_to_bootstrap: 0\n";
        std::fs::write(dir.path().join("grastate.dat"), text).unwrap();
        let saved = Saved::of(dir.path()).unwrap();
        assert_eq!(saved.position(), AtStop::ToBeRecovered);
        assert!(saved.forget(1).is_err(), "it may run");
    }

    #[tokio::test]
    async fn a_failed_command_is_told_with_what_it_said() {
        begin("exit 0").unwrap().ended().await.unwrap();
        let why = begin("echo no such unit >&2; exit 5").unwrap().ended().await.unwrap_err();
        assert!(why.contains("no such unit") && why.contains("exit status: 5"), "{why}");
    }
}
