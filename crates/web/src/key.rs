//! The API's keys: secrets, each kept in a file, compared in constant time.
//!
//! Enters: a path. Leaves: an [`ApiKey`] that can be compared, and is never printed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rand::TryRngCore;
use subtle::{ConstantTimeEq, ConstantTimeLess};

use crate::private_file;

/// Longest key taken, in bytes. Also the length to which both sides are padded before they are compared.
pub const KEY_BYTES_MAX: usize = 256;

/// A secret that authenticates clients of the API.
#[derive(Clone)]
pub struct ApiKey {
    padded: [u8; KEY_BYTES_MAX],
    len: usize,
}

/// What the holder of a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees the cluster; gives no orders, and sees no statements of clients (`/slow`).
    Reader,
    /// Everything.
    Operator,
}

/// The keys of the API.
#[derive(Clone, Debug)]
pub struct Keys {
    /// An operator's.
    pub operator: ApiKey,
    /// A reader's, where there is one.
    pub reader: Option<ApiKey>,
}

impl Keys {
    /// Whose key that is.
    pub fn role(&self, said: &str) -> Option<Role> {
        let is_reader = self.reader.as_ref().is_some_and(|key| key.is(said));
        if self.operator.is(said) { Some(Role::Operator) } else { is_reader.then_some(Role::Reader) }
    }
}

impl From<ApiKey> for Keys {
    fn from(operator: ApiKey) -> Self {
        Self { operator, reader: None }
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error(
        "cannot read the API key file {path}: {source}; make one with: head -c 20 /dev/urandom | od -An -tx1 | tr -d ' \\n' > {path}"
    )]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file cannot be made.
    #[error("cannot make the API key file {path}: {source}")]
    Create {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Its content cannot be a key.
    #[error("the API key file {path} {what}; it must hold one line of 1 to {KEY_BYTES_MAX} bytes")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

impl ApiKey {
    /// Reads the key from `path`; white space around it does not count.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let text =
            infile::read_text(path).map_err(|source| KeyError::Read { path: path.to_owned(), source })?;
        Self::new(text.trim()).map_err(|what| KeyError::Content { path: path.to_owned(), what })
    }

    /// Reads the key from `path`, and makes one of 160 random bits first (mode 0600) when there is no such file.
    pub fn read_or_create(path: &Path) -> Result<Self, KeyError> {
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => create(path).map_err(|source| KeyError::Create { path: path.to_owned(), source })?,
            Err(source) => return Err(KeyError::Read { path: path.to_owned(), source }),
        }
        Self::read(path)
    }

    /// A key of these bytes; `Err` says what is wrong with them.
    pub fn new(key: &str) -> Result<Self, &'static str> {
        if key.is_empty() {
            return Err("is empty");
        }
        if key.len() > KEY_BYTES_MAX {
            return Err("is too long");
        }
        if key.contains(|c: char| c.is_control()) {
            return Err("holds more than one line, or control characters");
        }
        Ok(Self { padded: pad(key.as_bytes()), len: key.len() })
    }

    /// Whether both are the same key.
    pub fn is_same(&self, other: &Self) -> bool {
        self.padded == other.padded && self.len == other.len
    }

    /// Whether `said` is the key. Takes the same time for every input.
    pub fn is(&self, said: &str) -> bool {
        let fits = !(KEY_BYTES_MAX as u64).ct_lt(&(said.len() as u64));
        let same_len = (said.len() as u64).ct_eq(&(self.len as u64));
        let same_bytes = self.padded.ct_eq(&pad(said.as_bytes()));
        bool::from(fits & same_len & same_bytes)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(not shown)")
    }
}

fn pad(bytes: &[u8]) -> [u8; KEY_BYTES_MAX] {
    let mut padded = [0; KEY_BYTES_MAX];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    padded
}

fn create(path: &Path) -> io::Result<()> {
    let mut random = [0; 20];
    rand::rngs::OsRng.try_fill_bytes(&mut random).map_err(io::Error::other)?;
    let text = hex::encode(random) + "\n";
    match private_file::create(path, text.as_bytes()) {
        // Another process has created it in between: its key is used.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_key_is_the_key() {
        let key = ApiKey::new("0c8aa9384ddf2a57").unwrap();
        assert!(key.is("0c8aa9384ddf2a57"));
        for wrong in ["", "0c8aa9384ddf2a5", "0c8aa9384ddf2a57\0", "0c8aa9384ddf2a58", &"0".repeat(5000)] {
            assert!(!key.is(wrong), "{wrong:?}");
        }
        assert_eq!(format!("{key:?}"), "ApiKey(not shown)");
    }

    #[test]
    fn a_key_of_full_length_is_not_its_own_prefix() {
        let long = "k".repeat(KEY_BYTES_MAX);
        let key = ApiKey::new(&long).unwrap();
        assert!(key.is(&long));
        assert!(!key.is(&format!("{long}k")));
    }

    #[test]
    fn what_cannot_be_a_key_is_refused() {
        for (text, what) in [("", "empty"), ("a\nb", "one line"), (&*"k".repeat(257), "too long")] {
            assert!(ApiKey::new(text).unwrap_err().contains(what), "{text:?}");
        }
    }

    #[test]
    fn the_first_start_makes_a_private_key_and_the_second_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.key");
        let first = ApiKey::read_or_create(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim().len(), 40);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(first.is(text.trim()));
        assert!(ApiKey::read_or_create(&path).unwrap().is(text.trim()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing left beside it");
    }
}
