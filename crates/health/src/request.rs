//! Parses the first bytes of a connection into a question. No I/O.
//!
//! Input that is not HTTP gets the plain answer, too: the original script under xinetd never read its input, and there are clients that
//! rely on that.

use std::time::Duration;

use topology::health::{Question, Rules};

/// The limit of a request head, in bytes.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// The limit of header lines.
const HEADERS_MAX: usize = 64;

/// How the PROXY protocol's second version begins.
const PROXY_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of its first version, in bytes.
const PROXY_LINE_MAX: usize = 107;

/// The result of parsing the bytes received so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The beginning of a request head.
    Part,
    /// Not HTTP: it gets the plain answer, and the connection ends.
    Raw,
    /// A request.
    Request(Request),
    /// HTTP that cannot be served: the status code with its reason phrase, and a sentence for the body.
    Bad(&'static str, String),
}

/// A whole request head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The kind of answer that is requested.
    pub wants: Wants,
    /// The node that is asked about; `None` for the source's own.
    pub node: Option<String>,
    /// The method is HEAD.
    pub head_only: bool,
    /// The client's `Connection` header.
    pub connection: Connection,
    /// The version is HTTP/1.1, which keeps connections open unless a header says otherwise.
    pub is_http11: bool,
    /// The length of the head, in bytes.
    pub len: usize,
    /// A body may follow. It is not read, so the connection cannot be kept open.
    pub has_body: bool,
    /// The path is not one of the documented ones. The original answers any path; where there are several nodes, it may be a misspelt name.
    pub is_any_path: bool,
}

/// The kind of answer that is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Whether the node may take traffic, in the bytes of the configured style.
    Member(Rules),
    /// A role (writer or replica), as plain text.
    Role(Question),
    /// The answer alone, as JSON.
    Json(Question),
    /// All that is known, as JSON.
    Status,
    /// The metrics, in Prometheus' text format.
    Metrics,
}

/// The client's `Connection` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// No such header, or neither of these values.
    Unsaid,
    /// `keep-alive`.
    Keep,
    /// `close`.
    Close,
}

/// Parses the bytes received so far. `rules` are the default for questions without rules of their own.
pub fn see(bytes: &[u8], rules: Rules) -> Seen {
    if bytes.starts_with(PROXY_2) {
        let why = "the PROXY protocol is read in its first version only: send-proxy, not send-proxy-v2";
        return Seen::Bad("400 Bad Request", why.into());
    }
    let prelude = prelude(bytes);
    match see_request(&bytes[prelude..], rules) {
        Seen::Request(request) => Seen::Request(Request { len: request.len + prelude, ..request }),
        Seen::Part if bytes.len() >= HEAD_BYTES_MAX => Seen::Bad(
            "431 Request Header Fields Too Large",
            format!("the request's head is longer than {HEAD_BYTES_MAX} bytes"),
        ),
        seen => seen,
    }
}

/// What may precede a request: empty lines (RFC 9112, section 2.2), and the line of HAProxy's `check-send-proxy`.
fn prelude(bytes: &[u8]) -> usize {
    let request = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    let Some(empty) = request else { return 0 };
    let line = &bytes[empty..];
    let end = line.iter().position(|&byte| byte == b'\n').map_or(line.len(), |end| end + 1);
    if line.starts_with(b"PROXY ") && end <= PROXY_LINE_MAX { empty + end } else { empty }
}

fn see_request(bytes: &[u8], rules: Rules) -> Seen {
    if !looks_like_http(bytes) {
        return Seen::Raw;
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    match head.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => match understand(&head, len, rules) {
            Ok(request) => Seen::Request(request),
            Err((status, why)) => Seen::Bad(status, why),
        },
        Ok(httparse::Status::Partial) => Seen::Part,
        Err(httparse::Error::TooManyHeaders) => Seen::Bad(
            "431 Request Header Fields Too Large",
            format!("the request has more than {HEADERS_MAX} header lines"),
        ),
        Err(error) => Seen::Bad("400 Bad Request", format!("the request cannot be read: {error}")),
    }
}

/// Whether the first line is, or may still become, `METHOD target HTTP/1.x`.
fn looks_like_http(bytes: &[u8]) -> bool {
    const METHOD_MAX: usize = 16;
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let method = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    if method.is_empty() || method.len() > METHOD_MAX || !method.iter().all(u8::is_ascii_uppercase) {
        return bytes.is_empty();
    }
    let is_whole = line.len() < bytes.len();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let version = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    !is_whole || (version.len() < line.len() && version.starts_with(b"HTTP/1."))
}

type Refused = (&'static str, String);

fn understand(head: &httparse::Request, len: usize, rules: Rules) -> Result<Request, Refused> {
    let target = head.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // In a request to a proxy, the target has the scheme and host in front (absolute form).
    let path = match path.split_once("://").filter(|_| !path.starts_with('/')) {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => path,
    };
    let (node, path) = split_node(path);
    let wants = wants(path, query, rules)?;
    let (word, below) = split_word(path);
    let is_own = word.is_empty() || (node.is_none() && (word == "*" || word.eq_ignore_ascii_case("health")));
    let is_any_path = matches!(wants, Wants::Member(_)) && !(is_own && below.trim_matches('/').is_empty());
    // A header may occur more than once.
    let any = |name: &str, fits: &dyn Fn(&str) -> bool| {
        head.headers.iter().any(|header| {
            header.name.eq_ignore_ascii_case(name)
                && fits(&String::from_utf8_lossy(header.value).to_ascii_lowercase())
        })
    };
    let connection = if any("connection", &|value| value.contains("close")) {
        Connection::Close
    } else if any("connection", &|value| value.contains("keep-alive")) {
        Connection::Keep
    } else {
        Connection::Unsaid
    };
    let has_body =
        any("transfer-encoding", &|_| true) || any("content-length", &|length| length.trim() != "0");
    Ok(Request {
        wants,
        node: node.map(str::to_owned),
        head_only: head.method == Some("HEAD"),
        connection,
        is_http11: head.version == Some(1),
        len,
        has_body,
        is_any_path,
    })
}

/// The first segment of a path, and the rest. Repeated slashes make no difference.
fn split_word(path: &str) -> (&str, &str) {
    let path = path.trim_start_matches('/');
    path.split_at(path.find('/').unwrap_or(path.len()))
}

/// `/health/db1/writer` is `/writer` about db1; `/health` alone names no node.
fn split_node(path: &str) -> (Option<&str>, &str) {
    let (word, rest) = split_word(path);
    match split_word(rest) {
        (node, rest) if word.eq_ignore_ascii_case("health") && !node.is_empty() => (Some(node), rest),
        _ => (None, path),
    }
}

fn wants(path: &str, query: &str, rules: Rules) -> Result<Wants, Refused> {
    let pairs = || {
        query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    };
    let said = |name: &str| pairs().find(|(key, _)| *key == name).map(|(_, value)| value);
    let flag = |name: &str, otherwise: bool| match said(name) {
        None => Ok(otherwise),
        Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(value) => Err(bad(format!("{name} must be 0 or 1, it is: {value}"))),
    };
    let rules = Rules {
        donor: flag("donor", rules.donor)?,
        read_only: flag("readonly", rules.read_only)?,
        drained: flag("drained", rules.drained)?,
    };
    let lag_max = match said("max_lag") {
        None => None,
        Some(value) => Some(
            duration(value)
                .ok_or_else(|| bad(format!("max_lag must be a time such as 2s or 500ms, it is: {value}")))?,
        ),
    };
    let (word, below) = split_word(path);
    let wants = match word.to_ascii_lowercase().as_str() {
        "writer" => Wants::Role(Question::Writer),
        "replica" => match pairs().find(|(key, _)| *key != "max_lag") {
            Some((key, _)) => {
                return Err(bad(format!("/replica knows max_lag and nothing else, it is: {key}")));
            }
            None => Wants::Role(Question::Replica { lag_max }),
        },
        "status" => Wants::Status,
        "metrics" => Wants::Metrics,
        "answer" => Wants::Json(match said("role") {
            None | Some("member") => Question::Member(rules),
            Some("writer") => Question::Writer,
            Some("replica") => Question::Replica { lag_max },
            Some(role) => {
                return Err(bad(format!("role must be member, writer or replica, it is: {role}")));
            }
        }),
        _ => return Ok(Wants::Member(rules)),
    };
    // As an unknown path it would get the answer to another question, possibly a 200.
    if !below.trim_matches('/').is_empty() {
        return Err(bad(format!("/{word} has nothing below it, the path is: {path}")));
    }
    Ok(wants)
}

fn bad(why: String) -> Refused {
    ("400 Bad Request", why)
}

/// `500ms`, `2s`, `1.5m`, `2h`, `1d`, or plain seconds.
pub fn duration(text: &str) -> Option<Duration> {
    if let Some(text) = text.strip_suffix("ms") {
        return text.parse().ok().map(Duration::from_millis);
    }
    let (number, unit_s) = match text.chars().next_back()? {
        's' => (&text[..text.len() - 1], 1.0),
        'm' => (&text[..text.len() - 1], 60.0),
        'h' => (&text[..text.len() - 1], 3_600.0),
        'd' => (&text[..text.len() - 1], 86_400.0),
        _ => (text, 1.0),
    };
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * unit_s).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Rules = Rules::STRICT;

    fn request(bytes: &str) -> Request {
        match see(bytes.as_bytes(), STRICT) {
            Seen::Request(request) => request,
            other => panic!("{bytes:?}: {other:?}"),
        }
    }

    fn wanted(target: &str) -> Wants {
        request(&format!("GET {target} HTTP/1.1\r\n\r\n")).wants
    }

    #[test]
    fn any_path_is_the_plain_question() {
        for target in ["/", "/anything", "/x/y?z", "/health", "/health/", "http://host:9200/", "*"] {
            assert_eq!(wanted(target), Wants::Member(STRICT), "{target}");
        }
    }

    #[test]
    fn a_path_that_is_none_of_ours_is_known_for_it() {
        let is_any = |target: &str| request(&format!("GET {target} HTTP/1.1\r\n\r\n")).is_any_path;
        for target in
            ["/", "//", "*", "/health", "/Health/", "/?donor=1", "/health/db1", "/health/db1/", "/writer"]
        {
            assert!(!is_any(target), "{target}");
        }
        for target in ["/db1", "/nothing/db1", "/healht/db1", "/health/db1/wirter", "/health/db1/*"] {
            assert!(is_any(target), "{target}");
        }
    }

    #[test]
    fn what_can_be_asked() {
        let kind = Rules { donor: true, ..STRICT };
        assert_eq!(wanted("/?donor=1"), Wants::Member(kind));
        assert_eq!(wanted("/?donor=1&readonly=0&x"), Wants::Member(kind));
        assert_eq!(wanted("/?drained=1"), Wants::Member(Rules { drained: true, ..STRICT }));
        assert_eq!(wanted("/writer"), Wants::Role(Question::Writer));
        // The scheme and host are recognised only in front of the path, not in the query.
        assert_eq!(wanted("/writer?x=http://a/"), Wants::Role(Question::Writer));
        assert_eq!(wanted("http://a:9200/writer?x=http://a/"), Wants::Role(Question::Writer));
        let lag_max = Some(Duration::from_secs(2));
        assert_eq!(wanted("/replica?max_lag=2s"), Wants::Role(Question::Replica { lag_max }));
        assert_eq!(wanted("/replica?max_lag=2000ms"), Wants::Role(Question::Replica { lag_max }));
        assert_eq!(wanted("/replica"), Wants::Role(Question::Replica { lag_max: None }));
        assert_eq!(wanted("/answer?role=writer"), Wants::Json(Question::Writer));
        let of_node = request("GET /health/db1/status HTTP/1.0\r\n\r\n");
        assert_eq!((of_node.node.as_deref(), of_node.wants), (Some("db1"), Wants::Status));
        assert_eq!(request("HEAD /health/db1 HTTP/1.0\r\n\r\n").node.as_deref(), Some("db1"));
    }

    #[test]
    fn a_role_that_is_written_oddly_is_still_no_plain_question() {
        for target in ["/writer/", "//writer", "/Writer", "/writer?x=y", "http://host/writer//"] {
            assert_eq!(wanted(target), Wants::Role(Question::Writer), "{target}");
        }
        for target in ["/health/db1/writer", "//health/db1/writer", "/Health//db1/writer/"] {
            let request = request(&format!("GET {target} HTTP/1.1\r\n\r\n"));
            assert_eq!(request.node.as_deref(), Some("db1"), "{target}");
            assert_eq!(request.wants, Wants::Role(Question::Writer), "{target}");
        }
    }

    #[test]
    fn what_stands_in_front_of_a_request_does_not_hide_it() {
        for prelude in ["\r\n", "\n\r\n", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "PROXY UNKNOWN\r\n"] {
            let whole = format!("{prelude}GET /writer HTTP/1.1\r\n\r\n");
            let request = request(&whole);
            assert_eq!((request.wants, request.len), (Wants::Role(Question::Writer), whole.len()));
        }
        for part in ["PROXY UNKNOWN\r\n", "PROXY TCP4 192.0.2.1 19"] {
            assert_eq!(see(part.as_bytes(), STRICT), Seen::Part, "{part}");
        }
        let second = [PROXY_2, b"\x20\0\0\0GET /writer HTTP/1.1\r\n\r\n"].concat();
        assert!(matches!(see(&second, STRICT), Seen::Bad(_, why) if why.contains("PROXY protocol")));
    }

    #[test]
    fn wrong_values_are_named() {
        for (target, what) in [
            ("/?donor=yes", "donor must be 0 or 1, it is: yes"),
            ("/replica?max_lag=soon", "max_lag must be a time"),
            ("/replica?max_lag=-1s", "max_lag must be a time"),
            ("/answer?role=king", "role must be member, writer or replica"),
            ("/replica?maxlag=2s", "/replica knows max_lag and nothing else, it is: maxlag"),
            ("/replica/2s", "/replica has nothing below it"),
            ("/health/db1/writer/now", "/writer has nothing below it"),
        ] {
            let seen = see(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes(), STRICT);
            assert!(matches!(&seen, Seen::Bad("400 Bad Request", why) if why.contains(what)), "{seen:?}");
        }
    }

    #[test]
    fn whatever_is_not_http_is_raw() {
        for bytes in
            ["\r\n", "hello\n", "GET /\r\n", "\x16\x03\x01", "get / HTTP/1.1\r\n", "GET / HTTP/2.0\n", " "]
        {
            assert_eq!(see(bytes.as_bytes(), STRICT), Seen::Raw, "{bytes:?}");
        }
        for bytes in ["", "G", "GET", "GET / HT", "GET / HTTP/1.1\r\nHost: x\r\n"] {
            assert_eq!(see(bytes.as_bytes(), STRICT), Seen::Part, "{bytes:?}");
        }
    }

    #[test]
    fn heads_have_limits() {
        let long = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(HEAD_BYTES_MAX));
        assert!(matches!(see(long.as_bytes(), STRICT), Seen::Bad("431 Request Header Fields Too Large", _)));
        let late = "\r\n".repeat(HEAD_BYTES_MAX / 2) + "GET / HTTP/1.1";
        assert!(matches!(see(late.as_bytes(), STRICT), Seen::Bad("431 Request Header Fields Too Large", _)));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(HEADERS_MAX + 1));
        assert!(matches!(see(many.as_bytes(), STRICT), Seen::Bad("431 Request Header Fields Too Large", _)));
        assert!(matches!(see(b"GET / HTTP/1.1\r\n\x00: y\r\n\r\n", STRICT), Seen::Bad("400 Bad Request", _)));
    }

    #[test]
    fn the_connections_end_is_the_clients_to_say() {
        let said = |lines: &str| request(&format!("GET / HTTP/1.1\r\n{lines}\r\n")).connection;
        assert_eq!(said(""), Connection::Unsaid);
        assert_eq!(said("connection: Keep-Alive\r\n"), Connection::Keep);
        assert_eq!(said("Connection: close, x\r\n"), Connection::Close);
        assert_eq!(said("Connection: keep-alive\r\nConnection: close\r\n"), Connection::Close);
        assert!(request("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc").has_body);
        assert!(!request("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").has_body);
    }
}
