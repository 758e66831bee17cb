//! The log and its rotated files on disk: their numbers, the lock, the space for a new file, and removal in steps.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{RotateError, Rotated, Settings};

/// The free space that is required for a new file: room for several entries.
const PROBE_BYTES: usize = 64 << 10;
/// The interval between two checks for the new file.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The log and its rotated files: `slow.log`, `slow.log.1`, `slow.log.2`, ...
pub(super) struct Files {
    pub(super) log: PathBuf,
}

impl Files {
    pub(super) fn of(log: PathBuf) -> Files {
        Files { log }
    }

    pub(super) fn numbered(&self, number: u64) -> PathBuf {
        let mut name: OsString = self.log.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    }

    fn directory(&self) -> &Path {
        self.log.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// The file that the server writes, if it is to be rotated: the log, or the first rotated file when an earlier run ended before it had
    /// sent FLUSH to the server.
    pub(super) fn written(&self) -> Option<PathBuf> {
        match fs::metadata(&self.log) {
            Ok(about) => (about.len() > 0).then(|| self.log.clone()),
            Err(_) => Some(self.numbered(1)).filter(|path| path.exists()),
        }
    }

    /// Held until the file is dropped; the kernel releases it when the process ends for any reason.
    pub(super) fn lock(&self) -> Result<File, RotateError> {
        let directory = self.directory();
        let failed = |source| RotateError::File { path: directory.to_owned(), action: "opened", source };
        let file = File::open(directory).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(RotateError::Busy(directory.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Whether a new file can be created here.
    pub(super) fn probe(&self) -> Result<(), RotateError> {
        let mut name: OsString = self.log.clone().into_os_string();
        name.push(".understudy-probe");
        let path = PathBuf::from(name);
        let _ = fs::remove_file(&path);
        let written = File::options()
            .write(true)
            .create_new(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&vec![0; PROBE_BYTES]).and_then(|()| file.sync_all()));
        let removed = fs::remove_file(&path);
        match written {
            Ok(()) => removed.map_err(|source| RotateError::File { path, action: "removed", source }),
            Err(source)
                if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                Err(RotateError::Full { path: self.directory().to_owned(), source })
            }
            Err(source) => Err(RotateError::File { path, action: "written", source }),
        }
    }

    /// Removes the rotated files beyond the number to keep.
    pub(super) async fn remove_surplus(
        &self,
        settings: &Settings,
        rotated: &mut Rotated,
    ) -> Result<(), RotateError> {
        for (number, path) in self.rotated()? {
            if number > u64::from(settings.keep_files) {
                rotated.removed_bytes += remove_in_steps(&path, settings.step_bytes, settings.pause).await?;
                rotated.removed.push(path);
            }
        }
        Ok(())
    }

    /// The files, by their present names, that go in the next rotation.
    pub(super) fn surplus(&self, keep_files: u32, is_renamed: bool) -> Result<Vec<PathBuf>, RotateError> {
        let gap = self.first_gap();
        let mut rotated = self.rotated()?;
        if is_renamed {
            rotated.push((0, self.log.clone()));
        }
        let beyond = |number: u64| number + u64::from(is_renamed && number < gap) > u64::from(keep_files);
        Ok(rotated.into_iter().filter(|(number, _)| beyond(*number)).map(|(_, path)| path).collect())
    }

    fn first_gap(&self) -> u64 {
        let mut gap = 1;
        while self.numbered(gap).symlink_metadata().is_ok() {
            gap += 1;
        }
        gap
    }

    /// Frees the number 1: each file up to the first gap gets the next number.
    pub(super) fn shift(&self) -> Result<(), RotateError> {
        (1..self.first_gap())
            .rev()
            .try_for_each(|number| self.rename(&self.numbered(number), &self.numbered(number + 1)))
    }

    /// Never replaces an existing file.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), RotateError> {
        let failed = |source| RotateError::File { path: from.to_owned(), action: "renamed", source };
        if to.symlink_metadata().is_ok() {
            return Err(failed(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{} is there", to.display()),
            )));
        }
        fs::rename(from, to).map_err(failed)
    }

    /// The rotated files with their numbers, oldest first.
    fn rotated(&self) -> Result<Vec<(u64, PathBuf)>, RotateError> {
        let directory = self.directory();
        let failed = |source| RotateError::File { path: directory.to_owned(), action: "read", source };
        let Some(name) = self.log.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
        let mut rotated = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let other = entry.file_name();
            let number = other.to_str().and_then(|other| other.strip_prefix(name)?.strip_prefix('.'));
            // Not a name that this program gives: `slow.log.01`.
            let number = number.and_then(|text| text.parse().ok().filter(|n: &u64| n.to_string() == text));
            if let Some(number) = number
                && entry.file_type().is_ok_and(|kind| kind.is_file())
            {
                rotated.push((number, entry.path()));
            }
        }
        rotated.sort_by(|a, b| b.cmp(a));
        Ok(rotated)
    }

    pub(super) async fn wait_for_new(
        &self,
        old_inode: Option<u64>,
        wait_max: Duration,
        at: &str,
    ) -> Result<(), RotateError> {
        let begin = Instant::now();
        // The server writes three lines into a file that it creates.
        while !fs::metadata(&self.log).is_ok_and(|about| Some(about.ino()) != old_inode && about.len() > 0) {
            if begin.elapsed() > wait_max {
                return Err(RotateError::NoFile {
                    at: at.to_owned(),
                    log: self.log.clone(),
                    after: wait_max,
                });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// Truncates a file from its end in steps until it is empty, and removes it; returns its size in bytes.
async fn remove_in_steps(path: &Path, step_bytes: u64, pause: Duration) -> Result<u64, RotateError> {
    let failed = |source| RotateError::File { path: path.to_owned(), action: "removed", source };
    let file = File::options().write(true).open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut left = bytes;
    while left > 0 {
        left = left.saturating_sub(step_bytes.max(1));
        file.set_len(left).map_err(failed)?;
        tokio::time::sleep(pause).await;
    }
    fs::remove_file(path).map_err(failed)?;
    Ok(bytes)
}

/// The path of the file after all symbolic links are resolved, also when the file does not exist at present.
pub(super) fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (directory.canonicalize(), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let log = dir.path().join("slow.log");
        (dir, Files { log })
    }

    fn content(files: &Files, number: u64) -> Option<String> {
        fs::read_to_string(files.numbered(number)).ok()
    }

    #[test]
    fn files_move_up_to_the_first_gap() {
        let (_dir, files) = files(&["slow.log", "slow.log.1", "slow.log.2", "slow.log.4"]);
        files.shift().unwrap();
        assert_eq!(content(&files, 1), None);
        assert_eq!(content(&files, 2).as_deref(), Some("slow.log.1"));
        assert_eq!(content(&files, 3).as_deref(), Some("slow.log.2"));
        assert_eq!(content(&files, 4).as_deref(), Some("slow.log.4"));
    }

    #[test]
    fn a_file_is_never_renamed_onto_another() {
        let (_dir, files) = files(&["slow.log", "slow.log.1"]);
        let said = files.rename(&files.log, &files.numbered(1)).unwrap_err().to_string();
        assert!(said.contains("slow.log.1 is there"), "{said}");
        assert_eq!(content(&files, 1).as_deref(), Some("slow.log.1"));
    }

    #[test]
    fn only_numbered_files_of_this_log_are_its_rotated_ones() {
        let (_dir, files) = files(&[
            "slow.log",
            "slow.log.1",
            "slow.log.12",
            "slow.log.02",
            "slow.log.1.gz",
            "slow.log.x",
            "slower.log.3",
        ]);
        let numbers: Vec<u64> = files.rotated().unwrap().into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [12, 1]);
    }

    #[test]
    fn what_goes_next_is_told_by_its_present_name() {
        let (_dir, files) = files(&["slow.log", "slow.log.1", "slow.log.2", "slow.log.4"]);
        let names = |keep, is_renamed| {
            let surplus = files.surplus(keep, is_renamed).unwrap();
            surplus
                .iter()
                .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(4, true), Vec::<String>::new());
        assert_eq!(names(2, true), ["slow.log.4", "slow.log.2"]);
        assert_eq!(names(2, false), ["slow.log.4"]);
        assert_eq!(names(0, true), ["slow.log.4", "slow.log.2", "slow.log.1", "slow.log"]);
    }

    #[tokio::test]
    async fn a_file_is_cut_in_steps_before_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slow.log.8");
        fs::write(&path, vec![b'x'; 1000]).unwrap();
        let begin = Instant::now();
        let pause = Duration::from_millis(5);
        assert_eq!(remove_in_steps(&path, 300, pause).await.unwrap(), 1000);
        assert!(!path.exists() && begin.elapsed() >= pause * 4);
    }

    #[test]
    fn one_rotates_at_a_time() {
        let (_dir, files) = files(&["slow.log"]);
        let locked = files.lock().unwrap();
        assert!(matches!(files.lock(), Err(RotateError::Busy(_))));
        drop(locked);
        assert!(files.lock().is_ok());
    }
}
