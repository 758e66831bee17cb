//! Reading a GTID text from left to right. Every error says what was expected and at which byte.

/// No text of a server is longer: memory stays within a small multiple of this.
pub const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at_byte}")]
pub struct ParseError {
    /// Where, counted from 0.
    pub at_byte: usize,
    /// What is wrong there.
    pub what: String,
}

/// A text and how far it was read.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// # Errors
    /// When the text is longer than [`TEXT_BYTES_MAX`].
    pub fn new(text: &'a str) -> Result<Self, ParseError> {
        if text.len() > TEXT_BYTES_MAX {
            let what = format!("longer than {TEXT_BYTES_MAX} bytes");
            return Err(ParseError { at_byte: TEXT_BYTES_MAX, what });
        }
        Ok(Self { bytes: text.as_bytes(), at: 0 })
    }

    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub fn at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// How far it was read, in bytes.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Takes this byte if it is next.
    pub fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// # Errors
    /// When something else is next.
    pub fn need(&mut self, wanted: u8) -> Result<(), ParseError> {
        if self.take(wanted) {
            return Ok(());
        }
        Err(self.expected(&format!("'{}'", char::from(wanted))))
    }

    /// The longest run of bytes that `fits`, at most `len_max`.
    pub fn run(&mut self, len_max: usize, fits: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().take(len_max).take_while(|byte| fits(**byte)).count();
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    /// A decimal number up to `max`.
    pub fn number(&mut self, name: &str, max: u64) -> Result<u64, ParseError> {
        let begin = self.at;
        let digits = self.run(usize::MAX, |byte| byte.is_ascii_digit());
        if digits.is_empty() {
            return Err(self.expected(name));
        }
        let number = digits.iter().try_fold(0_u64, |sum, digit| {
            sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|sum| *sum <= max)
        });
        number.ok_or_else(|| ParseError { at_byte: begin, what: format!("{name} is above {max}") })
    }

    /// `expected NAME, found X`, here.
    pub fn expected(&self, name: &str) -> ParseError {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(byte) if byte.is_ascii_graphic() => format!("'{}'", char::from(byte)),
            Some(byte) => format!("byte 0x{byte:02x}"),
        };
        ParseError { at_byte: self.at, what: format!("expected {name}, found {found}") }
    }
}
