//! The listeners: HTTP over TCP and over a unix socket, and the agent check. One thread of its own carries them all.
//!
//! A connection costs a task and a kilobyte. It ends when its time is up: a head must be whole within [`HEAD_TIME_MAX`], a kept
//! connection may be silent for [`IDLE_TIME_MAX`], an answer must be taken within [`WRITE_TIME_MAX`]. A client that says nothing at all
//! gets the plain answer, as from the original script, which never read anything; where there is one node it need not wait for it
//! ([`PLAIN_TIME_MAX`], [`LINE_TIME_MAX`]).
//!
//! Each kind of door has places of its own, so that no crowd at one shuts the others. Where they are all taken, the connection that has
//! been silent for longest makes room; a new client then has [`BEYOND_TIME_MAX`] to ask and is closed after its answer, `BEYOND_MAX` of
//! those at once, and the others wait in the listener's queue.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};
use topology::health::{Question, Rules};

use crate::answer::{Answer, Kind};
use crate::request::{Connection, HEAD_BYTES_MAX, Request, Seen, Wants, see};
use crate::style::{self, Manner, Style};
use crate::{Source, agent};

/// How long a whole request head may take.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a client that says nothing waits for the plain answer, where it might name one of several nodes.
pub const SILENT_TIME_MAX: Duration = Duration::from_secs(1);
/// The same where there is one: there are checkers that send nothing, and wait for no more than their own interval of a second. Not
/// sooner: a balancer that is busy for a moment between connecting and asking `/writer` would take this answer for that one's.
pub const PLAIN_TIME_MAX: Duration = Duration::from_millis(500);
/// And how long the rest of a head may take then, once its first line says what is asked: there are checkers that send no more.
pub const LINE_TIME_MAX: Duration = Duration::from_millis(200);
/// How long a client beyond the limit has for its question.
pub const BEYOND_TIME_MAX: Duration = Duration::from_millis(250);
/// How long a kept connection may be silent.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(60);
/// How long an answer may take to be taken.
pub const WRITE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a client that sent more than was read may take to read its answer.
const LINGER_TIME_MAX: Duration = Duration::from_millis(500);
/// As many connections at once are enough.
pub const CONNECTIONS_MAX: u64 = 16_384;
/// And so many agent checks, and programs of this machine.
pub const ASIDE_MAX: u64 = 256;
/// And at each of these doors so many more, in a hurry.
pub const BEYOND_MAX: u64 = 64;
/// What a connection reads at once, in bytes.
const READ_BYTES: usize = 1024;
/// When accepting fails for want of file descriptors, waiting a moment is better than spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// And telling it now and then is better than telling it each time.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(10);

/// What is served, and how.
pub struct Settings {
    /// HTTP, and whatever is not HTTP.
    pub http: Vec<TcpListener>,
    /// The same for programs of this machine.
    pub unix: Vec<UnixListener>,
    /// HAProxy's agent check.
    pub agent: Vec<TcpListener>,
    /// Whose bytes.
    pub style: Style,
    /// For questions that do not say.
    pub rules: Rules,
    /// The source has several nodes: an agent check must name one, a question that is not heard to the end gets a no, and a path that
    /// is none of ours a 404.
    pub several_nodes: bool,
    /// HTTP connections at once, [`CONNECTIONS_MAX`] or less: fewer than there are file descriptors, or nobody new gets in.
    /// [`ASIDE_MAX`] agent checks, and so many programs of this machine, come beside.
    pub connections_max: u64,
}

/// What was served so far. Connections are counted when they are accepted, answers by what they said.
#[derive(Debug, Default)]
pub struct Counts {
    /// Open now.
    pub open: AtomicU64,
    /// Accepted.
    pub accepted: AtomicU64,
    /// Answers that said yes.
    pub good: AtomicU64,
    /// Answers that said no.
    pub bad: AtomicU64,
    /// Requests that could not be understood.
    pub refused: AtomicU64,
    /// Connections beyond the limit.
    pub beyond: AtomicU64,
}

/// The running listeners. They end when this is dropped.
pub struct Server {
    http: Vec<SocketAddr>,
    agent: Vec<SocketAddr>,
    counts: Arc<Counts>,
    shared: Arc<Shared>,
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Answers requests that another server took in.
#[derive(Clone)]
pub struct Answerer(Arc<Shared>);

struct Shared {
    source: Arc<dyn Source>,
    style: Style,
    rules: Rules,
    several_nodes: bool,
    counts: Arc<Counts>,
}

/// One kind of door, and those who came through it.
struct Entrance {
    shared: Arc<Shared>,
    open: AtomicU64,
    open_max: u64,
    /// Whoever is silent on a kept connection waits for this, too: the place is wanted. Who waits longest hears it first.
    wanted: Notify,
}

/// Begins to serve, on a thread of its own.
///
/// # Errors
/// When the system refuses a thread, or a listener.
pub fn start(settings: Settings, source: Arc<dyn Source>, counts: Arc<Counts>) -> io::Result<Server> {
    let addresses =
        |all: &[TcpListener]| all.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
    let (http, agent) = (addresses(&settings.http)?, addresses(&settings.agent)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, mut stopped) = watch::channel(());
    let shared = Arc::new(Shared {
        source,
        style: settings.style,
        rules: settings.rules,
        several_nodes: settings.several_nodes,
        counts: counts.clone(),
    });
    let entrance = |open_max| {
        let shared = shared.clone();
        Arc::new(Entrance { shared, open: AtomicU64::new(0), open_max, wanted: Notify::new() })
    };
    let (front, aside, back) = (entrance(settings.connections_max), entrance(ASIDE_MAX), entrance(ASIDE_MAX));
    {
        let _inside = runtime.enter();
        for listener in settings.http {
            runtime.spawn(take_in(front.clone(), clients(listener)?, welcome));
        }
        for listener in settings.unix {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::UnixListener::from_std(listener)?;
            let next = move |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream);
            runtime.spawn(take_in(back.clone(), next, welcome));
        }
        for listener in settings.agent {
            runtime.spawn(take_in(aside.clone(), clients(listener)?, welcome_agent));
        }
    }
    let thread = std::thread::Builder::new().name("health".into()).spawn(move || {
        runtime.block_on(async {
            // Ends when the sender is dropped.
            while stopped.changed().await.is_ok() {}
        });
    })?;
    Ok(Server { http, agent, counts, shared, stop: Some(stop), thread: Some(thread) })
}

/// The next client of a listener, for [`take_in`].
fn clients(
    listener: TcpListener,
) -> io::Result<impl FnMut(&mut Context<'_>) -> Poll<io::Result<tokio::net::TcpStream>>> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(move |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream))
}

/// Accepts for ever, while there is room, and gives each client to `welcome`.
async fn take_in<S>(
    entrance: Arc<Entrance>,
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
    welcome: impl Fn(S, &Arc<Entrance>),
) {
    let mut trouble = Trouble::default();
    loop {
        entrance.room().await;
        match poll_fn(&mut next).await {
            Ok(stream) => welcome(stream, &entrance),
            Err(error) => trouble.pause(&error).await,
        }
    }
}

impl Server {
    /// Where HTTP is answered.
    pub fn http(&self) -> &[SocketAddr] {
        &self.http
    }

    /// Where the agent check is answered.
    pub fn agent(&self) -> &[SocketAddr] {
        &self.agent
    }

    /// What was served so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The same answers, for another server.
    pub fn answerer(&self) -> Answerer {
        Answerer(self.shared.clone())
    }
}

impl Answerer {
    /// The whole response to a GET of `target` (path and query), as for a client that is closed afterwards.
    pub fn get(&self, target: &str) -> Vec<u8> {
        let mut out = Vec::new();
        match see(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes(), self.0.rules) {
            Seen::Request(request) => self.0.answer(&request, false, &mut out),
            Seen::Bad(status, why) => self.0.refuse(status, &why, false, &mut out),
            Seen::Part | Seen::Raw => {
                self.0.refuse("400 Bad Request", "the path cannot be read", false, &mut out);
            }
        }
        out
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say, and cannot have panicked on anything that we would mend here.
            let _ = thread.join();
        }
    }
}

/// A listener that cannot accept.
#[derive(Default)]
struct Trouble {
    told: Option<Instant>,
}

impl Trouble {
    async fn pause(&mut self, error: &io::Error) {
        if self.told.is_none_or(|at| at.elapsed() > COMPLAINT_PAUSE) {
            tracing::warn!("a client could not be accepted, it waits: {error}");
            self.told = Some(Instant::now());
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

/// One connection more, until it is dropped.
struct Place {
    entrance: Arc<Entrance>,
    /// All others are taken.
    is_beyond: bool,
}

impl Place {
    fn take(entrance: &Arc<Entrance>) -> Self {
        let counts = &entrance.shared.counts;
        counts.accepted.fetch_add(1, Relaxed);
        counts.open.fetch_add(1, Relaxed);
        let is_beyond = entrance.open.fetch_add(1, Relaxed) >= entrance.open_max;
        if is_beyond {
            counts.beyond.fetch_add(1, Relaxed);
            entrance.wanted.notify_one();
        }
        Self { entrance: entrance.clone(), is_beyond }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.entrance.open.fetch_sub(1, Relaxed);
        self.entrance.shared.counts.open.fetch_sub(1, Relaxed);
    }
}

fn welcome(stream: impl link::Stream + 'static, entrance: &Arc<Entrance>) {
    let place = Place::take(entrance);
    tokio::spawn(async move {
        let mut stream = stream;
        // A client that left needs no answer; one that is too slow has had its time.
        let _ = place.entrance.shared.converse(&mut stream, &place).await;
        drop(place);
    });
}

fn welcome_agent(stream: tokio::net::TcpStream, entrance: &Arc<Entrance>) {
    let place = Place::take(entrance);
    tokio::spawn(async move {
        agent_check(stream, &place.entrance.shared).await;
        drop(place);
    });
}

impl Entrance {
    /// Waits while so many are being told that they are too many, that the program itself would be short of descriptors: a new client
    /// then waits in the listener's queue.
    async fn room(&self) {
        while self.open.load(Relaxed) >= self.open_max + BEYOND_MAX {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

impl Shared {
    /// Requests and answers until one side has had enough.
    async fn converse(&self, stream: &mut impl link::Stream, place: &Place) -> io::Result<()> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut out: Vec<u8> = Vec::new();
        let mut patience = match (place.is_beyond, self.several_nodes) {
            (true, _) => BEYOND_TIME_MAX,
            (false, true) => SILENT_TIME_MAX,
            (false, false) => PLAIN_TIME_MAX,
        };
        let mut is_first = true;
        loop {
            let deadline = Instant::now() + patience;
            let head = tokio::select! {
                biased;
                head = self.head(stream, &mut bytes, deadline) => head?,
                () = place.entrance.wanted.notified(), if !is_first => {
                    if bytes.is_empty() {
                        return Ok(());
                    }
                    // Half a question has come, and is heard to its end.
                    self.head(stream, &mut bytes, deadline).await?
                }
            };
            let request = match head {
                Head::Request(request) => request,
                Head::Silent if !is_first => return Ok(()),
                // What is asked stands in the first line. Without that, it may be about any node.
                Head::Part => match cut(&bytes, self.rules) {
                    Some(request) => request,
                    None => {
                        self.unheard(stream).await;
                        return Ok(());
                    }
                },
                Head::Silent | Head::Raw => {
                    // One of none of ours may name a node all the same, and one who had little time may still be about to.
                    let may_name_one = bytes.contains(&b'/') || (bytes.is_empty() && place.is_beyond);
                    if may_name_one {
                        self.unheard(stream).await;
                    } else {
                        self.raw(stream).await;
                    }
                    return Ok(());
                }
                Head::Bad(status, why) => {
                    out.clear();
                    self.refuse(status, &why, bytes.starts_with(b"HEAD "), &mut out);
                    write(stream, &out).await?;
                    linger(stream).await;
                    return Ok(());
                }
            };
            let keep = !place.is_beyond && self.keeps(&request);
            out.clear();
            self.answer(&request, keep, &mut out);
            bytes.drain(..request.len);
            write(stream, &out).await?;
            if !keep {
                if request.has_body || !bytes.is_empty() {
                    linger(stream).await;
                }
                return Ok(());
            }
            is_first = false;
            patience = IDLE_TIME_MAX;
            // One answer, then the others': whoever sends requests without end must not keep them waiting.
            if !bytes.is_empty() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Reads until a head is whole, or it is clear that none will be.
    async fn head(
        &self,
        stream: &mut impl link::Stream,
        bytes: &mut Vec<u8>,
        mut deadline: Instant,
    ) -> io::Result<Head> {
        let mut has_line = false;
        if !bytes.is_empty() {
            deadline = deadline.min(Instant::now() + HEAD_TIME_MAX);
        }
        loop {
            if !bytes.is_empty() {
                match see(bytes, self.rules) {
                    Seen::Part => {}
                    Seen::Raw => return Ok(Head::Raw),
                    Seen::Request(request) => return Ok(Head::Request(request)),
                    Seen::Bad(status, why) => return Ok(Head::Bad(status, why)),
                }
            }
            if !self.several_nodes && !has_line && bytes.contains(&b'\n') {
                has_line = true;
                deadline = deadline.min(Instant::now() + LINE_TIME_MAX);
            }
            let was_empty = bytes.is_empty();
            bytes.reserve(READ_BYTES.min(HEAD_BYTES_MAX + 1));
            match timeout_at(deadline, stream.read_buf(bytes)).await {
                // Half a request, and no more of it: it gets what the original would have said.
                Err(_) if !bytes.is_empty() => return Ok(Head::Part),
                Err(_) => return Ok(Head::Silent),
                Ok(Ok(0)) if bytes.is_empty() => return Ok(Head::Silent),
                Ok(Ok(0)) => return Ok(Head::Part),
                Ok(Ok(_)) if was_empty => deadline = Instant::now() + HEAD_TIME_MAX,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
            }
        }
    }

    /// clustercheck closes every connection, and says so; only whoever asks for more gets more.
    fn keeps(&self, request: &Request) -> bool {
        if request.has_body {
            return false;
        }
        let is_script = self.style != Style::Pyclustercheck && matches!(request.wants, Wants::Member(_));
        match request.connection {
            Connection::Close => false,
            // Without a header that says so, a client of HTTP/1.0 waits for the end; pyclustercheck has no such header.
            Connection::Keep => request.is_http11 || self.style != Style::Pyclustercheck,
            Connection::Unsaid => request.is_http11 && !is_script,
        }
    }

    fn answer(&self, request: &Request, keep: bool, out: &mut Vec<u8>) {
        let manner = Manner { keep, head_only: request.head_only };
        let node = request.node.as_deref();
        let not_found = |body: &str, out: &mut Vec<u8>| {
            self.counts.refused.fetch_add(1, Relaxed);
            style::plain("404 Not Found", body, manner, out);
        };
        let unknown =
            |out: &mut Vec<u8>| not_found(&format!("no node {} here\r\n", node.unwrap_or_default()), out);
        if self.several_nodes && request.is_any_path {
            return not_found(
                "no such path: ask /health/NODE, /health/NODE/writer, or / for Understudy itself\r\n",
                out,
            );
        }
        let asked = |question| {
            let answer = self.source.answer(node, question)?;
            self.count(&answer);
            Some(answer)
        };
        match request.wants {
            Wants::Member(rules) => match asked(Question::Member(rules)) {
                Some(answer) => self.style.write(&answer, manner, out),
                None => unknown(out),
            },
            Wants::Role(question) => match asked(question) {
                Some(answer) => {
                    let body = format!("{}\r\n", answer.reason);
                    style::typed(answer.is_good(), "text/plain", &body, manner, out);
                }
                None => unknown(out),
            },
            Wants::Json(question) => match asked(question) {
                Some(answer) => {
                    let body = style::json(&answer);
                    style::typed(answer.is_good(), "application/json", &body, manner, out);
                }
                None => unknown(out),
            },
            Wants::Status => match (self.source.status(node), asked(Question::Member(self.rules))) {
                (Some(status), Some(answer)) => {
                    let body = format!("{status:#}\n");
                    style::typed(answer.is_good(), "application/json", &body, manner, out);
                }
                _ => unknown(out),
            },
            Wants::Metrics => {
                style::typed(true, "text/plain; version=0.0.4", &self.source.metrics(), manner, out);
            }
        }
    }

    /// What is written to a request that cannot be served, before its connection is closed.
    fn refuse(&self, status: &str, why: &str, head_only: bool, out: &mut Vec<u8>) {
        self.counts.refused.fetch_add(1, Relaxed);
        style::plain(status, &format!("{why}\r\n"), Manner { keep: false, head_only }, out);
    }

    fn count(&self, answer: &Answer) {
        let counter = if answer.is_good() { &self.counts.good } else { &self.counts.bad };
        counter.fetch_add(1, Relaxed);
    }

    /// The plain answer to whoever did not ask in HTTP.
    async fn raw(&self, stream: &mut impl link::Stream) {
        let Some(answer) = self.source.answer(None, Question::Member(self.rules)) else { return };
        self.count(&answer);
        if write(stream, &self.style.text(&answer)).await.is_ok() {
            linger(stream).await;
        }
    }

    /// The answer to whoever was not heard to the end: the plain one. Where there are several nodes, nobody knows which was meant, and
    /// another's "yes" would be a lie.
    async fn unheard(&self, stream: &mut impl link::Stream) {
        if !self.several_nodes {
            return self.raw(stream).await;
        }
        let answer = Answer::new(Kind::Unknown, "was not asked for to the end", Duration::ZERO);
        self.count(&answer);
        if write(stream, &self.style.text(&answer)).await.is_ok() {
            linger(stream).await;
        }
    }
}

enum Head {
    Request(Request),
    Raw,
    /// The beginning of a request, and no more of it.
    Part,
    Bad(&'static str, String),
    /// Nothing came.
    Silent,
}

/// What the whole lines ask, when the rest never came. It may still come, as a body may, and then it is not read.
fn cut(bytes: &[u8], rules: Rules) -> Option<Request> {
    let end = bytes.iter().rposition(|&byte| byte == b'\n')?;
    match see(&[&bytes[..=end], b"\r\n"].concat(), rules) {
        Seen::Request(request) => Some(Request { len: bytes.len(), has_body: true, ..request }),
        Seen::Part | Seen::Raw | Seen::Bad(..) => None,
    }
}

async fn write(stream: &mut impl link::Stream, bytes: &[u8]) -> io::Result<()> {
    timeout(WRITE_TIME_MAX, stream.write_all(bytes)).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Closing a socket with unread bytes sends a reset, which may overtake the answer: what is still coming is read away first.
async fn linger(stream: &mut impl link::Stream) {
    let drained = async {
        stream.shutdown().await?;
        let mut piece = [0; 512];
        while stream.read(&mut piece).await? > 0 {}
        io::Result::Ok(())
    };
    // Whoever goes on sending has had its time.
    let _ = timeout(LINGER_TIME_MAX, drained).await;
}

/// One line in, one line out.
async fn agent_check(mut stream: tokio::net::TcpStream, shared: &Shared) {
    let mut line = Vec::new();
    let read = async {
        while !line.contains(&b'\n') && line.len() < agent::LINE_BYTES_MAX {
            if stream.read_buf(&mut line).await? == 0 {
                break;
            }
        }
        io::Result::Ok(())
    };
    // A source for one node need not be told which, and HAProxy sends nothing when it is not told to.
    let patience = if shared.several_nodes { SILENT_TIME_MAX } else { AGENT_SILENT_TIME_MAX };
    // Half a name may be another node's whole one: without its end it counts only where there is one node anyway.
    let is_whole = matches!(timeout(patience, read).await, Ok(Ok(()))) && line.len() < agent::LINE_BYTES_MAX;
    let name = String::from_utf8_lossy(&line);
    let name = name.lines().next().unwrap_or_default().trim();
    let said = if shared.several_nodes && (name.is_empty() || !is_whole) {
        agent::NAMELESS.to_owned()
    } else {
        agent::line(&*shared.source, name, shared.rules)
    };
    if write(&mut stream, said.as_bytes()).await.is_ok() {
        linger(&mut stream).await;
    }
}

/// How long an agent check of a single node may take to name it.
const AGENT_SILENT_TIME_MAX: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

    use serde_json::Value;

    use super::*;

    /// Itself good, and its nodes not.
    struct Cluster;

    impl Source for Cluster {
        fn answer(&self, node: Option<&str>, _: Question) -> Option<Answer> {
            let kind = if node.is_none() { Kind::Good } else { Kind::NotSynced };
            Some(Answer::new(kind, "", Duration::ZERO))
        }

        fn status(&self, _: Option<&str>) -> Option<Value> {
            None
        }

        fn metrics(&self) -> String {
            String::new()
        }
    }

    fn started(connections_max: u64) -> Server {
        serving(connections_max, vec![], true)
    }

    fn serving(connections_max: u64, unix: Vec<UnixListener>, several_nodes: bool) -> Server {
        let open = || vec![listen_here()];
        let settings = Settings {
            http: open(),
            unix,
            agent: open(),
            style: Style::Clustercheck,
            rules: Rules::default(),
            several_nodes,
            connections_max,
        };
        start(settings, Arc::new(Cluster), Arc::default()).unwrap()
    }

    fn listen_here() -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    fn is_good(server: &Server, words: &str) -> bool {
        let mut stream = TcpStream::connect(server.http()[0]).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said.starts_with("HTTP/1.1 200 ")
    }

    #[test]
    fn a_question_about_a_node_is_never_answered_with_the_whole() {
        let server = started(CONNECTIONS_MAX);
        for words in ["GET / HTTP/1.0\r\n\r\n", "\r\n", "hello\n", ""] {
            assert!(is_good(&server, words), "{words:?}");
        }
        for words in [
            "GET /health/db1 HTTP/1.0\r\n\r\n",
            "GET //health//db1 HTTP/1.0\r\n\r\n",
            "\r\nGET /health/db1 HTTP/1.1\r\n\r\n",
            "PROXY UNKNOWN\r\nGET /health/db1 HTTP/1.0\r\n\r\n",
            "GET /health/db1\r\n",
            "GET /health/db1 HTTP/2.0\r\n\r\n",
            "get /health/db1 HTTP/1.1\r\n\r\n",
            "GET /health/db1 HT",
            "GET /db1 HTTP/1.0\r\n\r\n",
            "GET /healht/db1 HTTP/1.0\r\n\r\n",
        ] {
            assert!(!is_good(&server, words), "{words:?}");
        }
    }

    #[test]
    fn half_a_name_is_no_name() {
        let server = started(CONNECTIONS_MAX);
        let said = |words: &str| {
            let mut stream = TcpStream::connect(server.agent()[0]).unwrap();
            stream.write_all(words.as_bytes()).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            said
        };
        assert_eq!(said("db1\n"), "ready down # \n");
        // The rest may be on its way: db10.
        assert_eq!(said("db1"), agent::NAMELESS);
    }

    #[test]
    fn no_kind_of_client_takes_all_descriptors() {
        let server = started(1);
        let most = ASIDE_MAX + BEYOND_MAX;
        // They say nothing: an agent check waits a while for a name.
        let clients: Vec<_> =
            (0..most + 50).map(|_| TcpStream::connect(server.agent()[0]).unwrap()).collect();
        let mut seen = 0;
        for mut client in clients {
            seen = seen.max(server.counts().open.load(Relaxed));
            let mut said = String::new();
            client.read_to_string(&mut said).unwrap();
            assert_eq!(said, agent::NAMELESS);
        }
        assert!((1..=most).contains(&seen), "{seen}");
    }

    /// One answer of a connection that stays open.
    fn ask(stream: &mut (impl Read + Write), target: &str) -> String {
        write!(stream, "GET {target} HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"synced.\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn a_crowd_at_one_door_shuts_no_other_and_makes_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let server = serving(2, vec![UnixListener::bind(&path).unwrap()], true);
        let mut kept: Vec<_> = (0..2).map(|_| TcpStream::connect(server.http()[0]).unwrap()).collect();
        for stream in &mut kept {
            assert!(ask(stream, "/").starts_with("HTTP/1.1 200 "));
        }
        let mut inside = std::os::unix::net::UnixStream::connect(&path).unwrap();
        assert!(ask(&mut inside, "/health/db1").starts_with("HTTP/1.1 503 "));
        assert_eq!(server.counts().beyond.load(Relaxed), 0, "the unix socket has its own places");
        // Who comes next is heard, and the one that was silent for longest has to go.
        let mut next = TcpStream::connect(server.http()[0]).unwrap();
        let said = ask(&mut next, "/");
        assert!(said.starts_with("HTTP/1.1 200 ") && said.contains("Connection: close"), "{said}");
        assert_eq!(server.counts().beyond.load(Relaxed), 1);
        assert_eq!(kept[0].read(&mut [0; 64]).unwrap(), 0, "closed");
        assert!(ask(&mut kept[1], "/").starts_with("HTTP/1.1 200 "), "this one stays");
        // A crowd that says nothing does not take anybody's answer.
        let silent: Vec<_> = (0..4).map(|_| TcpStream::connect(server.http()[0]).unwrap()).collect();
        let mut hurried = TcpStream::connect(server.http()[0]).unwrap();
        assert!(ask(&mut hurried, "/health/db1").starts_with("HTTP/1.1 503 "));
        let mut hurried = TcpStream::connect(server.http()[0]).unwrap();
        assert!(ask(&mut hurried, "/").starts_with("HTTP/1.1 200 "));
        drop(silent);
    }

    #[test]
    fn where_there_is_one_node_nobody_waits_for_the_end_of_a_question() {
        let server = serving(CONNECTIONS_MAX, vec![], false);
        let said = |words: &str| {
            let began = std::time::Instant::now();
            let mut stream = TcpStream::connect(server.http()[0]).unwrap();
            stream.write_all(words.as_bytes()).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            (said.starts_with("HTTP/1.1 200 "), began.elapsed())
        };
        // The source is good itself, and its nodes are not: the first line alone tells which was meant.
        for (words, good) in [
            ("", true),
            ("GET / HTTP/1.0\r\n", true),
            ("GET /health/db1 HTTP/1.1\r\nHost: her", false),
            ("GET /health/db1 HTTP/1.1\r\nHost: here\r\n", false),
        ] {
            let (is_good, after) = said(words);
            assert_eq!(is_good, good, "{words:?}");
            assert!(after < HEAD_TIME_MAX / 2, "{words:?}: {after:?}");
        }
    }

    #[test]
    fn a_head_that_cannot_be_served_has_no_body_either() {
        let server = started(CONNECTIONS_MAX);
        let mut stream = TcpStream::connect(server.http()[0]).unwrap();
        stream.write_all(b"HEAD /?donor=maybe HTTP/1.1\r\n\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 400 ") && said.ends_with("\r\n\r\n"), "{said}");
    }
}
