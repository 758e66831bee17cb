//! What one transaction came to, and where an HTTP answer ends. Sans-IO: bytes in, a decision out.

use std::collections::BTreeMap;

/// More header lines are no answer of a health endpoint.
const HEADERS_MAX: usize = 32;

/// Why no answer came over the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// Nobody listens.
    Refused,
    /// The connection was reset.
    Reset,
    /// It was closed before the first byte of an answer.
    Closed,
    /// This side has no local port, or no file descriptor, left: the load generator's fault, not the server's.
    Exhausted,
    /// Anything else.
    Other,
}

/// What one transaction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerClass {
    /// 200.
    Good,
    /// 503: as valid an answer as 200.
    Unavailable,
    /// Another status code.
    Other(u16),
    /// No whole answer in time.
    Timeout,
    /// The connection failed.
    Transport(Trouble),
    /// Bytes came that are not the answer: not HTTP, cut off, or another body.
    Wrong,
}

impl AnswerClass {
    /// What multi-mechanize had in its error column: mechanize raises on every status but 200, and the commas are taken out.
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

    /// A whole answer, and one that means something.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Good | Self::Unavailable)
    }
}

/// Outcomes, counted apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// 200.
    pub good: u64,
    /// 503.
    pub unavailable: u64,
    /// Other status codes.
    pub other: u64,
    /// No whole answer in time.
    pub timeouts: u64,
    /// Connections that failed.
    pub transport: u64,
    /// Answers with wrong bytes.
    pub wrong: u64,
    /// How connections failed.
    pub troubles: BTreeMap<Trouble, u64>,
}

impl Counts {
    /// One more.
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

    /// Every transaction.
    pub fn all(&self) -> u64 {
        self.answers() + self.other + self.timeouts + self.transport + self.wrong
    }

    /// Those with a valid answer: 200 or 503.
    pub fn answers(&self) -> u64 {
        self.good + self.unavailable
    }
}

/// The bodies that are right; anything goes where none is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// Of a 200.
    pub good: Option<String>,
    /// Of a 503: any of these; empty for anything.
    pub unavailable: Vec<String>,
}

/// What the bytes so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// More must come.
    Part,
    /// A whole answer.
    Whole {
        /// What it came to.
        outcome: AnswerClass,
        /// The server will take another request on this connection.
        keeps: bool,
    },
}

/// Looks at an answer's bytes. `is_end`: the server has closed, no more will come.
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
        // HTTP/1.0, as BaseHTTPServer spoke it: the end of the connection is the end of the answer.
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
