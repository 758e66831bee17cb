//! A position in a log that can be found again after rotations and in another process.

use std::fmt;
use std::fs::File;
use std::io;
use std::str::FromStr;

/// The number of bytes before a position that are compared in order to recognise it.
pub(super) const KNOWN_BY_BYTES: u64 = 256;

/// Its offset in the file, and a checksum of the bytes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The offset in the file, bytes.
    pub offset: u64,
    /// The checksum of up to 256 bytes before it (FNV-1a, 64 bits).
    pub checksum: u64,
}

impl LogPosition {
    /// The beginning of a file, which every file has.
    pub(super) fn beginning() -> LogPosition {
        LogPosition { offset: 0, checksum: fnv1a(&[]) }
    }

    pub(super) fn before(file: &File, offset: u64) -> io::Result<LogPosition> {
        let mut bytes = [0; KNOWN_BY_BYTES as usize];
        let known = KNOWN_BY_BYTES.min(offset);
        let bytes = &mut bytes[..known as usize];
        std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset - known)?;
        Ok(LogPosition { offset, checksum: fnv1a(bytes) })
    }

    /// Whether `file` has these bytes at this position.
    pub(super) fn is_in(self, file: &File) -> bool {
        LogPosition::before(file, self.offset).is_ok_and(|found| found == self)
    }
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.offset, self.checksum)
    }
}

impl FromStr for LogPosition {
    type Err = ();

    fn from_str(text: &str) -> Result<LogPosition, ()> {
        let (offset, checksum) = text.split_once('-').ok_or(())?;
        let offset = offset.parse().map_err(|_| ())?;
        Ok(LogPosition { offset, checksum: u64::from_str_radix(checksum, 16).map_err(|_| ())? })
    }
}

/// FNV-1a with 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>. It serves to recognise bytes, not to protect them.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
