//! Who wrote a transaction first: a server's UUID, and a tag since MySQL 8.3.

use std::fmt;

use super::super::scan::{ParseError, Scan};

/// `server_uuid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// How many digits stand between the dashes.
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

    pub(super) fn scan(scan: &mut Scan<'_>) -> Result<Self, ParseError> {
        let mut bytes = [0; 16];
        let mut digits = 0;
        for (nth, len) in Self::GROUPS.into_iter().enumerate() {
            if nth > 0 {
                scan.need(b'-').map_err(in_uuid)?;
            }
            let found = scan.run(len, |byte| byte.is_ascii_hexdigit());
            if found.len() < len {
                return Err(in_uuid(scan.expected("a hexadecimal digit")));
            }
            for digit in found.iter().filter_map(|byte| char::from(*byte).to_digit(16)) {
                if let Some(byte) = bytes.get_mut(digits / 2) {
                    *byte = *byte << 4 | digit as u8;
                }
                digits += 1;
            }
        }
        Ok(Self(bytes))
    }
}

impl std::str::FromStr for Uuid {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut scan = Scan::new(text)?;
        let uuid = Self::scan(&mut scan)?;
        if scan.at_end() { Ok(uuid) } else { Err(scan.expected("the end of the UUID")) }
    }
}

fn in_uuid(error: ParseError) -> ParseError {
    ParseError { what: format!("{} (in a UUID)", error.what), ..error }
}

impl fmt::Display for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.0.iter();
        for (nth, len) in Self::GROUPS.into_iter().enumerate() {
            formatter.write_str(if nth > 0 { "-" } else { "" })?;
            for byte in bytes.by_ref().take(len / 2) {
                write!(formatter, "{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// No tag is longer.
pub const TAG_BYTES_MAX: usize = 32;

/// A tag: a letter or `_`, then letters, digits and `_`; kept in lower case, as the server does. Or none at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Filled up with zeros, so that the order of bytes is the order of tags.
    bytes: [u8; TAG_BYTES_MAX],
}

impl Tag {
    pub(super) fn may_begin(byte: u8) -> bool {
        byte.is_ascii_alphabetic() || byte == b'_'
    }

    pub(super) fn scan(scan: &mut Scan<'_>) -> Result<Self, ParseError> {
        let at_byte = scan.at();
        let found = scan.run(TAG_BYTES_MAX + 1, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if found.len() > TAG_BYTES_MAX {
            return Err(ParseError { at_byte, what: format!("a tag of more than {TAG_BYTES_MAX} bytes") });
        }
        let mut bytes = [0; TAG_BYTES_MAX];
        for (to, from) in bytes.iter_mut().zip(found) {
            *to = from.to_ascii_lowercase();
        }
        Ok(Self { bytes })
    }

    /// No tag.
    pub fn is_empty(&self) -> bool {
        self.bytes.first() == Some(&0)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes
            .iter()
            .take_while(|byte| **byte != 0)
            .try_for_each(|byte| write!(formatter, "{}", char::from(*byte)))
    }
}

/// A server, or what of it has one tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The server.
    pub uuid: Uuid,
    /// The tag; empty for none.
    pub tag: Tag,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.uuid)?;
        if self.tag.is_empty() { Ok(()) } else { write!(formatter, ":{}", self.tag) }
    }
}
