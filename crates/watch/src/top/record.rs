//! Recordings: one status per line, in the same format as `understudy status --watch --json`.

use std::fs::File;
use std::io::{BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use infile::Lines;
use serde_json::Value;

use cli::exit::Failure;

/// The limit of a state's size; one of a large cluster has some tens of kilobytes.
const STATE_BYTES_MAX: usize = 16 << 20;

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

/// The states of a recording. They stay in the file, and are read when they are shown.
#[derive(Debug)]
pub struct Recording {
    file: File,
    /// Where each state begins, and how many bytes it has.
    places: Vec<(u64, usize)>,
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
        let unread = |e: std::io::Error| wrong(format!("cannot be read: {e}"));
        let file = File::open(path).map_err(unread)?;
        if !file.metadata().map_err(unread)?.is_file() {
            return Err(wrong("is no regular file: write the recording to one first".to_owned()));
        }
        Self::of(file).map_err(wrong)
    }

    fn of(file: File) -> Result<Self, String> {
        let mut places = Vec::new();
        let (mut broken, mut at) = (None, 0);
        for line in Lines::new(BufReader::new(&file), STATE_BYTES_MAX) {
            let line = line.map_err(|e| match e.kind() {
                std::io::ErrorKind::FileTooLarge => format!("is no recording: {e}"),
                _ => format!("cannot be read: {e}"),
            })?;
            if let Some(number) = broken {
                return Err(foreign(number));
            }
            match serde_json::from_slice::<Value>(&line.bytes) {
                Ok(status) if status["nodes"].is_array() => places.push((at, line.bytes.len())),
                Ok(_) => return Err(foreign(line.number)),
                // Allowed for the last line only: the recorder was killed.
                Err(_) => broken = Some(line.number),
            }
            at += line.bytes.len() as u64 + 1;
        }
        match (places.is_empty(), broken) {
            (true, Some(number)) => Err(foreign(number)),
            (true, None) => Err("is empty".to_owned()),
            (false, broken) => Ok(Self { file, places, is_cut_off: broken.is_some() }),
        }
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// A state by its number, from 0; `None` also when the file has changed meanwhile.
    pub fn state(&self, at: usize) -> Option<Value> {
        let (from, bytes) = *self.places.get(at)?;
        let mut state = vec![0; bytes];
        self.file.read_exact_at(&mut state, from).ok()?;
        serde_json::from_slice(&state).ok()
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
    use std::io::Seek;

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
        let of = |text: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text).unwrap();
            file.rewind().unwrap();
            Recording::of(file)
        };
        assert_eq!(of(b"").unwrap_err(), "is empty");
        assert!(of(b"130523  9:59:46 [Note]\n").unwrap_err().contains("line 1"));
        assert!(of(b"{\"nodes\": []}\n{\"a\": 1}\n").unwrap_err().contains("line 2"));
        assert!(of(b"{\"nodes\": []}\nx\n{\"nodes\": []}\n").unwrap_err().contains("line 2"));
        let cut_off = of(b"{\"nodes\": []}\n{\"nodes\": [").unwrap();
        assert!(cut_off.is_cut_off && cut_off.len() == 1);
        let cut_off = of(b"{\"nodes\": []}\n{\"nodes\": [{\"name\": \"\xc3").unwrap();
        assert!(cut_off.is_cut_off && cut_off.len() == 1, "a character was cut in two");
        let read = |path: &str| Recording::read(Path::new(path)).map(drop);
        assert!(matches!(read("/dev/zero"), Err(Failure::Usage(why)) if why.contains("no regular file")));
        let large = tempfile::NamedTempFile::new().unwrap();
        large.as_file().set_len(1 << 30).unwrap();
        let said = read(large.path().to_str().unwrap());
        assert!(matches!(said, Err(Failure::Usage(why)) if why.contains("line 1 has more than")));
    }
}
