//! Recordings: one status per line, in the same format as `understudy status --watch --json`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exit::Failure;

/// The limit of a recording's size: it is held in memory while it is shown.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A recording that is being written.
pub struct Recorder {
    file: File,
    path: PathBuf,
}

impl Recorder {
    /// Creates a new file.
    ///
    /// # Errors
    /// The file exists already, or cannot be created.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        // Mode 0600: a status has user names and clients' addresses.
        let file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(|e| {
            let why = match e.kind() {
                std::io::ErrorKind::AlreadyExists => "is there already, and is not written over".to_owned(),
                _ => format!("cannot be made: {e}"),
            };
            Failure::usage(format!("--record {} {why}", path.display()))
        })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Appends a status.
    ///
    /// # Errors
    /// One sentence; nothing can be appended after that.
    pub fn write(&mut self, status: &Value) -> Result<(), String> {
        self.file
            .write_all(format!("{status}\n").as_bytes())
            .map_err(|e| format!("the recording {} ends here: {e}", self.path.display()))
    }
}

/// The states of a recording.
#[derive(Debug)]
pub struct Recording {
    states: Vec<String>,
    /// Its last line is incomplete, and left out.
    pub is_cut_off: bool,
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// It cannot be read, or is not a recording; with the line number.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::usage(format!("--replay {} {why}", path.display()));
        let file = File::open(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let bytes = file.metadata().map_err(|e| wrong(format!("cannot be read: {e}")))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(wrong(format!(
                "has {bytes} bytes, and at most {FILE_BYTES_MAX} are shown at once: cut it with `split -l`"
            )));
        }
        Self::of(BufReader::new(file)).map_err(wrong)
    }

    fn of(lines: impl BufRead) -> Result<Self, String> {
        let mut states = Vec::new();
        let mut broken = None;
        // By bytes: a recorder may have been killed in the middle of a character.
        for (number, line) in (1..).zip(lines.split(b'\n')) {
            let line = line.map_err(|e| format!("cannot be read: {e}"))?;
            if let Some(number) = broken {
                return Err(foreign(number));
            }
            let status = str::from_utf8(&line).ok().and_then(|text| serde_json::from_str::<Value>(text).ok());
            match (status, String::from_utf8(line)) {
                (Some(status), Ok(line)) if status["nodes"].is_array() => states.push(line),
                (Some(_), _) => return Err(foreign(number)),
                // Allowed for the last line only: the recorder was killed.
                (None, _) => broken = Some(number),
            }
        }
        match (states.is_empty(), broken) {
            (true, Some(number)) => Err(foreign(number)),
            (true, None) => Err("is empty".to_owned()),
            (false, broken) => Ok(Self { states, is_cut_off: broken.is_some() }),
        }
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// A state by its number, from 0.
    pub fn state(&self, at: usize) -> Option<Value> {
        serde_json::from_str(self.states.get(at)?).ok()
    }
}

fn foreign(number: u64) -> String {
    format!(
        "is no recording: line {number} is no status of `understudy top --record` or `status --watch --json`"
    )
}

/// The time of a state, in milliseconds since 1970.
pub fn moment_ms(status: &Value) -> Option<u64> {
    status["started_unix_ms"].as_u64()?.checked_add(status["now_ms"].as_u64()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_recorded_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let mut recorder = Recorder::new(&path).unwrap();
        let states = [
            json!({ "nodes": [], "now_ms": 5, "started_unix_ms": 7 }),
            json!({ "nodes": [{ "name": "a\nb" }] }),
        ];
        for state in &states {
            recorder.write(state).unwrap();
        }
        let recording = Recording::read(&path).unwrap();
        assert_eq!((recording.len(), recording.is_cut_off), (2, false));
        assert_eq!([0, 1].map(|at| recording.state(at).unwrap()), states);
        assert_eq!(moment_ms(&recording.state(0).unwrap()), Some(12));
        assert_eq!(moment_ms(&recording.state(1).unwrap()), None);
        assert!(matches!(Recorder::new(&path), Err(Failure::Usage(why)) if why.contains("not written over")));
    }

    #[test]
    fn what_is_none_is_refused_by_its_line() {
        let of = |text: &str| Recording::of(text.as_bytes());
        assert_eq!(of("").unwrap_err(), "is empty");
        assert!(of("130523  9:59:46 [Note]\n").unwrap_err().contains("line 1"));
        assert!(of("{\"nodes\": []}\n{\"a\": 1}\n").unwrap_err().contains("line 2"));
        assert!(of("{\"nodes\": []}\nx\n{\"nodes\": []}\n").unwrap_err().contains("line 2"));
        let cut_off = of("{\"nodes\": []}\n{\"nodes\": [").unwrap();
        assert!(cut_off.is_cut_off && cut_off.len() == 1);
        let cut_off = Recording::of(&b"{\"nodes\": []}\n{\"nodes\": [{\"name\": \"\xc3"[..]).unwrap();
        assert!(cut_off.is_cut_off && cut_off.len() == 1, "a character was cut in two");
    }
}
