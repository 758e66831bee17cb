//! Classifies the outcome of one transaction and finds where an HTTP response ends. Sans-IO: bytes in, a decision out.

use std::collections::BTreeMap;

/// A response with more header lines is not from a health endpoint.
const HEADERS_MAX: usize = 32;

/// Why a connection gave no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// Nothing listens on the port (ECONNREFUSED).
    Refused,
    /// The connection was reset.
    Reset,
    /// The server closed it before the first byte of a response.
    Closed,
    /// This side has no local port, or no file descriptor, left: the load generator's fault, not the server's.
    Exhausted,
    /// Anything else.
    Other,
}

/// The outcome of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerClass {
    /// Status 200.
    Good,
    /// Status 503: as valid a response as 200.
    Unavailable,
    /// Another status code.
    Other(u16),
    /// No complete response within the timeout.
    Timeout,
    /// The connection failed.
    Transport(Trouble),
    /// The bytes received are not the expected response: not HTTP, truncated, or another body.
    Wrong,
}

impl AnswerClass {
    /// The error column as multi-mechanize wrote it: mechanize raises on every status but 200, and commas are removed.
    pub fn error(self) -> String {
        match self {
            Self::Good => String::new(),
            Self::Unavailable => "HTTP Error 503: Service Unavailable".into(),
            Self::Other(status) => format!("HTTP Error {status}"),
            Self::Timeout => "<urlopen error timed out>".into(),
            Self::Transport(Trouble::Refused) => "<urlopen error [Errno 111] Connection refused>".into(),
            Self::Transport(Trouble::Reset) => "<urlopen error [Errno 104] Connection reset by peer>".into(),
            Self::Transport(Trouble::Closed) => "closed without an answer".into(),
            Self::Transport(Trouble::Exhausted) => {
                "<urlopen error [Errno 99] Cannot assign requested address>".into()
            }
            Self::Transport(Trouble::Other) => "<urlopen error>".into(),
            Self::Wrong => "wrong bytes".into(),
        }
    }

    /// Whether this is a complete and valid response (200 or 503).
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Good | Self::Unavailable)
    }
}

/// Number of transactions by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Status 200.
    pub good: u64,
    /// Status 503.
    pub unavailable: u64,
    /// Other status codes.
    pub other: u64,
    /// No complete response within the timeout.
    pub timeouts: u64,
    /// Connections that failed.
    pub transport: u64,
    /// Responses with wrong bytes.
    pub wrong: u64,
    /// The failed connections by cause.
    pub troubles: BTreeMap<Trouble, u64>,
}

impl Counts {
    /// Counts one more outcome.
    pub fn add(&mut self, outcome: AnswerClass) {
        match outcome {
            AnswerClass::Good => self.good += 1,
            AnswerClass::Unavailable => self.unavailable += 1,
            AnswerClass::Other(_) => self.other += 1,
            AnswerClass::Timeout => self.timeouts += 1,
            AnswerClass::Transport(trouble) => {
                self.transport += 1;
                *self.troubles.entry(trouble).or_default() += 1;
            }
            AnswerClass::Wrong => self.wrong += 1,
        }
    }

    /// All transactions.
    pub fn all(&self) -> u64 {
        self.answers() + self.other + self.timeouts + self.transport + self.wrong
    }

    /// Transactions with a valid response: 200 or 503.
    pub fn answers(&self) -> u64 {
        self.good + self.unavailable
    }
}

/// The expected bodies; where none is given, any body is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// Body of a 200.
    pub good: Option<String>,
    /// Bodies of a 503: any of these; empty accepts anything.
    pub unavailable: Vec<String>,
}

/// How far a response has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Incomplete: more bytes must come.
    Part,
    /// A complete response.
    Whole {
        /// How it was classified.
        outcome: AnswerClass,
        /// Whether the server accepts another request on this connection.
        keeps: bool,
    },
}

/// Parses the bytes received so far. `is_end`: the server has closed the connection, no more bytes will come.
pub fn see(bytes: &[u8], is_end: bool, expect: &Expect) -> Seen {
    const WRONG: Seen = Seen::Whole { outcome: AnswerClass::Wrong, keeps: false };
    let unfinished = if is_end { WRONG } else { Seen::Part };
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let from = match head.parse(bytes) {
        Ok(httparse::Status::Complete(from)) => from,
        Ok(httparse::Status::Partial) => return unfinished,
        Err(_) => return WRONG,
    };
    let header = |name: &str| {
        let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
    };
    let body = &bytes[from..];
    let body = match header("content-length").map(str::parse::<usize>) {
        Some(Err(_)) => return WRONG,
        Some(Ok(length)) if body.len() < length => return unfinished,
        Some(Ok(length)) if body.len() > length => return WRONG,
        Some(Ok(_)) => body,
        // Without Content-Length (HTTP/1.0, as BaseHTTPServer spoke it) the end of the connection ends the response.
        None if is_end => body,
        None => return Seen::Part,
    };
    let fits = |wanted: &str| wanted.as_bytes() == body;
    let outcome = match head.code {
        Some(200) if expect.good.as_deref().is_none_or(fits) => AnswerClass::Good,
        Some(503) if expect.unavailable.is_empty() || expect.unavailable.iter().any(|one| fits(one)) => {
            AnswerClass::Unavailable
        }
        Some(200 | 503) | None => AnswerClass::Wrong,
        Some(status) => AnswerClass::Other(status),
    };
    let said = header("connection");
    let says = |word: &str| said.is_some_and(|said| said.eq_ignore_ascii_case(word));
    let keeps = !is_end && if head.version == Some(1) { !says("close") } else { says("keep-alive") };
    Seen::Whole { outcome, keeps }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, is_end: bool) -> Seen {
        let expect = Expect { good: Some("yes".into()), unavailable: vec!["no".into(), "why".into()] };
        see(text.as_bytes(), is_end, &expect)
    }

    const fn whole(outcome: AnswerClass, keeps: bool) -> Seen {
        Seen::Whole { outcome, keeps }
    }

    #[test]
    fn answers_end_where_they_say() {
        let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno";
        assert_eq!(seen(answer, false), whole(AnswerClass::Unavailable, true));
        for cut in 0..answer.len() {
            assert_eq!(seen(&answer[..cut], false), Seen::Part, "{cut}");
            assert_eq!(seen(&answer[..cut], true), whole(AnswerClass::Wrong, false), "cut off at {cut}");
        }
        let close = "HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 3\r\n\r\nyes";
        assert_eq!(seen(close, false), whole(AnswerClass::Good, false));
        let old = "HTTP/1.0 200 OK\r\n\r\nyes";
        assert_eq!((seen(old, false), seen(old, true)), (Seen::Part, whole(AnswerClass::Good, false)));
    }

    #[test]
    fn what_is_not_the_answer_is_wrong() {
        for text in [
            "SSH-2.0-x\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
            "HTTP/1.1 503 x\r\nContent-Length: 3\r\n\r\nyes",
            "HTTP/1.1 503 x\r\nContent-Length: 2\r\n\r\nnon",
            "HTTP/1.1 503 x\r\nContent-Length: two\r\n\r\nno",
        ] {
            assert!(
                matches!(seen(text, false), Seen::Whole { outcome: AnswerClass::Wrong, .. }),
                "{text}: {:?}",
                seen(text, false)
            );
        }
        let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(seen(missing, false), whole(AnswerClass::Other(404), true));
    }

    #[test]
    fn outcomes_are_counted_apart() {
        let mut counts = Counts::default();
        for outcome in [
            AnswerClass::Good,
            AnswerClass::Unavailable,
            AnswerClass::Unavailable,
            AnswerClass::Other(404),
            AnswerClass::Timeout,
            AnswerClass::Transport(Trouble::Reset),
            AnswerClass::Wrong,
        ] {
            counts.add(outcome);
            assert!(!outcome.error().contains(','), "the column is separated by commas");
        }
        assert_eq!((counts.all(), counts.answers()), (7, 3));
        assert_eq!(counts.troubles[&Trouble::Reset], 1);
    }
}
