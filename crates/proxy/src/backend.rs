//! A session's link to its node: opened, set up for the session, and cut with its lane.

mod asks;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::abandoned::{self, Abandoned};
use link::{
    Codec, Link, LinkError, Login, ProxyHeader, Rows, Secret, ServerTls, Unanswered, local_resource_error,
    unless_rejected,
};
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::errno::{self, Whose};
use protocol::ok::{ERR, ErrPacket};
use protocol::packet::{HEADER_LEN, Head, put_packet};
use protocol::response::{Answer, End, Need, Step};
use session::bound::{self, Baseline, Bound, Say};
use session::finish::NodeError;
use session::session::Session;
use session::standing::Standing;
use session::wanted::{Prepared, Wanted};
use tokio::io::AsyncWriteExt;
use topology::fact::ConnectFailure;

use crate::identity::Identity;
use crate::lane::{Lane, Registration};
use crate::reads::port::READ_ONLY;
use crate::reads::{CatchUp, Waited};

/// The largest packet that the proxy announces to a node.
const MAX_PACKET: u32 = 1 << 30;
/// Capabilities that change the format of a node's answers. Client and node must agree on them, since answers are forwarded unchanged.
const FORM: Caps = Caps(
    Caps::MULTI_RESULTS.0
        | Caps::PS_MULTI_RESULTS.0
        | Caps::EXTENDED_METADATA.0
        | Caps::CACHE_METADATA.0
        | Caps::STMT_BULK_OPERATIONS.0,
);
/// Capabilities that the proxy asks of each node, whatever the client's are: to report the session's changes, and to end rows with a packet
/// that can carry them. What the client does not support is removed from the answers, see [`crate::relay`].
const OF_OUR_OWN: Caps = Caps(Caps::SESSION_TRACK.0 | Caps::DEPRECATE_EOF.0);
/// A node ends a link that was idle for its wait_timeout, which is at least a second.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// If the link ends within this time after a command was sent, its end was on its way already.
const CROSSED: Duration = Duration::from_millis(5);
/// The time limit for reading what a node sent before it ended the link, which is in this host's memory or never comes.
const LAST_WORD_TIME: Duration = Duration::from_millis(250);
/// The time limit for finding that nobody listens at the node's address.
const KNOCK_TIME: Duration = Duration::from_secs(1);

/// There is no such schema, or the account may not use it.
const NO_SCHEMA: [u16; 2] = [errno::BAD_DB_ERROR, errno::DBACCESS_DENIED_ERROR];

/// The number of an error that has no other (ER_UNKNOWN_ERROR).
const UNKNOWN_ERROR: u16 = 1105;

/// The link of one session.
pub struct Backend {
    /// The link itself. Its buffer has what the node sent and was not yet forwarded.
    pub link: Link,
    /// The state that the session has on this link only.
    pub standing: Standing,
    registration: Registration,
    /// A command, or the client's file, was written in part: whatever is written now becomes a part of it.
    half_sent: bool,
    /// When the last command was begun, and when the last answer had been read.
    sent: Instant,
    rested: Instant,
}

/// What has happened to the link of an idle session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stirred {
    /// The node has ended it.
    NodeEnded,
    /// The session should read the state that only this node has, before it leaves.
    Save,
}

/// The conditions under which a session comes to a node.
pub struct Terms {
    /// What it shows of its account.
    pub secret: Secret,
    /// What it waits for first.
    pub catch_up: CatchUp,
    /// It may only read.
    pub only_reads: bool,
    /// How the node is connected to; `None`: plain.
    pub tls: Option<ServerTls>,
    /// How packets to and from it are compressed, if it offers that.
    pub compression: Option<Codec>,
    /// How it is told of the client's address.
    pub proxy_header: Option<ProxyHeader>,
    /// The longest that the connection, login included, may take.
    pub within: Duration,
}

/// Why a statement could not be prepared on a node.
#[derive(Debug)]
pub enum NotPrepared {
    /// The node's error.
    Node(NodeError),
    /// The settings it was bound to cannot be set up there.
    NotBound,
}

/// Why a session has no link.
#[derive(Debug)]
pub enum AttachError {
    /// The node could not be reached, or accepts no connection now.
    Lost(ConnectFailure),
    /// The node has no free connection; its error.
    Full(NodeError),
    /// It had none a moment ago, and is not asked again yet: see [`crate::lane`].
    StillFull,
    /// The node refused this account or schema; its error.
    Refused(NodeError),
    /// The session cannot be set up on this node.
    NotRebuilt(String),
    /// The node wants the client's password itself, and only its digest is known; in words.
    Forgotten(String),
    /// There is no TLS with the node as the configuration asks for it; in words.
    Insecure(String),
    /// The lane was shut meanwhile.
    Shut,
    /// The node is well, but did not apply in time what the session may have seen on another.
    Behind,
    /// This host lacks a resource (a file descriptor or a port); that says nothing about the node.
    Local(String),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::Lost(how) => match how {
                ConnectFailure::Refused => f.write_str("its node refuses connections"),
                ConnectFailure::Reset | ConnectFailure::Closed => {
                    f.write_str("its node ended the connection")
                }
                ConnectFailure::TimedOut => f.write_str("its node did not answer in time"),
                ConnectFailure::Unreachable => f.write_str("its node cannot be reached"),
                ConnectFailure::Rejected { errno, message } => write!(f, "its node says {errno}: {message}"),
                ConnectFailure::Protocol { what } => write!(f, "its node broke the protocol: {what}"),
            },
            AttachError::Full(error) | AttachError::Refused(error) => {
                write!(f, "its node says {}: {}", error.code, error.message)
            }
            AttachError::StillFull => f.write_str("its node has no connection left"),
            AttachError::NotRebuilt(why) | AttachError::Forgotten(why) | AttachError::Insecure(why) => {
                f.write_str(why)
            }
            AttachError::Shut => f.write_str("its node takes no statements any more"),
            AttachError::Behind => f.write_str("its node has not yet applied what the others have"),
            AttachError::Local(local_error) => f.write_str(local_error),
        }
    }
}

impl Backend {
    /// Logs in to the lane's node as the client, and sets up the session's state. `terms`: what it waits for first (a session that moves
    /// must see what it wrote and read before), whether it may only read, and how the node is connected to. `has_run`: the session has run statements on another link.
    pub async fn attach(
        lane: &Arc<Lane>,
        who: &Identity,
        caps: Caps,
        session: &Session,
        has_run: bool,
        terms: Terms,
    ) -> Result<Self, AttachError> {
        let deadline = terms.within;
        let wanted = &session.wanted;
        let standing = session.standing(has_run);
        let attached = async {
            let login = Login {
                user: who.user.clone(),
                user_sent: who.user_sent.clone(),
                secret: terms.secret,
                tls: terms.tls,
                compression: terms.compression,
                database: schema_of_login(who, wanted),
                caps: caps | OF_OUR_OWN,
                charset: who.charset,
                attrs: who.attrs.clone(),
                proxied: proxied(terms.proxy_header, who.peer),
                max_packet: MAX_PACKET,
            };
            if !lane.full.may_try(Instant::now()) {
                return Err(AttachError::StillFull);
            }
            let mut connected = Link::connect(&lane.address, &login, deadline).await;
            let mut has_schema = true;
            // The schema was there when the session began to use it: as on a server, only a statement that needs it fails.
            if wanted.has_used_schema()
                && connected.as_ref().is_err_and(|error| login.database.is_some() && is_without_schema(error))
            {
                has_schema = false;
                let login = Login { database: None, ..login.clone() };
                connected = Link::connect(&lane.address, &login, deadline).await;
            }
            let mut link = match connected {
                Ok(link) => link,
                Err(error) => {
                    let error = of_connect(error);
                    if let AttachError::Full(_) = error {
                        lane.full.refused(Instant::now());
                    }
                    return Err(error);
                }
            };
            lane.full.taken(Instant::now());
            let is_new = link.caps.has(Caps::DEPRECATE_EOF);
            if (link.caps & FORM) != (caps & FORM) || (caps.has(Caps::DEPRECATE_EOF) && !is_new) {
                return Err(AttachError::NotRebuilt(format!(
                    "{} speaks another dialect than the node the session began on",
                    lane.name
                )));
            }
            let cutter = link.stream.cutter().map_err(|error| {
                AttachError::Local(local_resource_error(&error).map_or(error.to_string(), str::to_owned))
            })?;
            let registration = lane.register(cutter).ok_or(AttachError::Shut)?;
            // This comes before the session's settings, which are not meant for it (a time limit for statements, a read-only transaction).
            let mut flags = link.status;
            if terms.catch_up.on(&mut link).await.map_err(of_wait)? != Waited::Reached {
                return Err(AttachError::Behind);
            }
            let now = Instant::now();
            let mut backend = Self { link, standing, registration, half_sent: false, sent: now, rested: now };
            if wanted.has_begun_anew() {
                // The node has run its init_connect, and the session is without what that sets. Where that failed, the first statement says so.
                backend.link.query("DO 0", deadline).await.map_err(of_restore)?;
                flags = backend.reset().await.map_err(AttachError::Lost)?;
            }
            backend.standing.set_lacks_schema(!has_schema);
            backend.rebuild(wanted, flags, login.database.is_none(), deadline).await?;
            if terms.only_reads {
                // Set last, whatever the session has set.
                backend.link.query(READ_ONLY, deadline).await.map_err(of_restore)?;
            }
            Ok(backend)
        };
        tokio::select! {
            attached = attached => attached,
            () = lane.until_shut() => Err(AttachError::Shut),
        }
    }

    /// Sets up the session's state on the new link. Prepared statements are prepared only when they are needed.
    /// `flags`: those that the node began the session with; `is_without_schema`: the login was without one.
    async fn rebuild(
        &mut self,
        wanted: &Wanted,
        flags: u16,
        is_without_schema: bool,
        deadline: Duration,
    ) -> Result<(), AttachError> {
        if let Some(set) = wanted.begin_modes(flags) {
            self.link.query(&set, deadline).await.map_err(of_restore)?;
        }
        if !wanted.statements.is_empty() {
            let rows = self.link.query(bound::ASK, deadline).await.map_err(of_restore)?;
            self.standing.baseline = Some(Baseline::of(|name| rows.value_of(name).map(str::as_bytes)));
        }
        let fresh = Bound::default();
        let early: Vec<(u32, Prepared)> =
            wanted.without_schema().map(|(id, statement)| (id, statement.clone())).collect();
        for (id, statement) in &early {
            match self.prepare(statement, &fresh).await {
                Ok(Ok(on_node)) => self.standing.prepared(*id, on_node, false),
                // An object that it names is gone: the client gets the error when it runs the statement.
                Ok(Err(_)) => {}
                Err(how) => return Err(AttachError::Lost(how)),
            }
        }
        if is_without_schema && let Some(schema) = wanted.schema() {
            match self.enter_schema(schema).await.map_err(AttachError::Lost)? {
                Some(error) if !NO_SCHEMA.contains(&error.code) => return Err(AttachError::Refused(error)),
                _ => {}
            }
        }
        for statement in wanted.restore() {
            self.link.query(&statement, deadline).await.map_err(of_restore)?;
        }
        // The flags are by now those after the node's init_connect.
        let autocommit = wanted.begin_autocommit(flags, self.link.status);
        for statement in autocommit.into_iter().chain(wanted.restore_last()) {
            self.link.query(&statement, deadline).await.map_err(of_restore)?;
        }
        Ok(())
    }

    /// The lane it is on.
    pub fn lane(&self) -> &Arc<Lane> {
        self.registration.lane()
    }

    /// The node's connection id.
    pub fn thread_id(&self) -> u32 {
        self.link.greeting.connection_id
    }

    /// The node has sent something without being asked, or has ended the link. No command may be sent any more, since what was sent would
    /// be taken for its answer. Costs no system call when nothing was received.
    pub fn has_unasked(&self) -> bool {
        !self.link.buffer.is_empty() || self.link.stream.has_something()
    }

    /// For an idle link that has ended: whether the last thing that the node sent is not an error packet, with which servers announce the end.
    pub fn has_said_nonsense(&self) -> bool {
        let said = self.link.buffer.bytes();
        said.get(HEADER_LEN).is_some_and(|first| *first != ERR)
    }

    /// Writes a whole command.
    pub async fn send(&mut self, packets: &[u8]) -> std::io::Result<()> {
        if !self.link.buffer.is_empty() {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "the node has sent more than it was asked for",
            ));
        }
        self.begin_command();
        self.link.stream.write_all(packets).await?;
        self.sent_whole();
        Ok(())
    }

    /// Writes a part of a command that was begun.
    pub async fn write(&mut self, piece: &[u8]) -> std::io::Result<()> {
        self.link.stream.write_all(piece).await
    }

    /// Whether the node has ended the link, even if unread bytes are waiting.
    pub fn has_ended(&self) -> bool {
        self.link.stream.has_hung_up()
    }

    /// Whether nobody listens at the node's address any more. Unread bytes may hide the end of a link.
    pub async fn is_refused(&self) -> bool {
        let knock = tokio::net::TcpStream::connect(&*self.lane().address);
        let knock = tokio::time::timeout(KNOCK_TIME, knock).await;
        matches!(knock, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
    }

    /// A command is about to be written, in parts or at once; [`Backend::sent_whole`] ends it.
    pub fn begin_command(&mut self) {
        self.link.stream.begin_command();
        self.begin_sending();
    }

    /// More of a command is about to be written in parts, after an answer of the node to its beginning; [`Backend::sent_whole`] ends it.
    pub fn begin_sending(&mut self) {
        self.half_sent = true;
        self.sent = Instant::now();
    }

    /// The last part was written.
    pub fn sent_whole(&mut self) {
        self.half_sent = false;
    }

    /// When the last answer had been read to its end.
    pub fn rested_at(&self) -> Instant {
        self.rested
    }

    /// When the last command was begun.
    pub fn sent_at(&self) -> Instant {
        self.sent
    }

    /// Whether a command was written in part.
    pub fn is_half_sent(&self) -> bool {
        self.half_sent
    }

    /// Lets the node see that its client is gone; its answer can still be read.
    pub async fn half_close(&mut self) {
        // If this fails, the link has ended already.
        let _ = self.link.half_close().await;
        self.half_sent = true; // nothing may be written any more
    }

    /// Reads and discards until the node has ended the link.
    pub async fn discard_until_end(&mut self) {
        while matches!(self.link.fill().await, Ok(n) if n > 0) {
            self.link.buffer.consume(self.link.buffer.len());
        }
    }

    /// The answer has been read to its end.
    pub fn rests(&mut self) {
        self.rested = Instant::now();
    }

    /// For a link that has just ended: whether the node had ended the idle link before it could read the last command.
    pub fn ended_unread(&self) -> bool {
        self.sent.duration_since(self.rested) >= IDLE_MIN && self.sent.elapsed() < CROSSED
    }

    /// After a write has failed: the error that the node sent before it ended the link, if there is one. The kernel keeps what came before
    /// the end, whatever ended it.
    pub async fn last_word(&mut self) -> Option<NodeError> {
        let packet = tokio::time::timeout(LAST_WORD_TIME, self.packet()).await.ok()?.ok()?;
        let payload = self.link.buffer.bytes().get(HEADER_LEN..packet)?;
        (payload.first() == Some(&ERR)).then(|| node_error(payload))
    }

    /// Resolves when the idle node sends anything or ends the link, both of which mean that the link is over. With `saves`, it also
    /// resolves when the lane takes no new transactions.
    pub async fn stirs(&mut self, saves: bool) -> Stirred {
        let Self { link, registration, .. } = self;
        tokio::select! {
            biased;
            _ = link.ended() => Stirred::NodeEnded,
            () = registration.lane().until_not_open(), if saves => Stirred::Save,
        }
    }

    /// Prepares a statement on the node under the settings it was bound to, where the link has the settings `now`. Returns its id there, or why not.
    pub async fn prepare(
        &mut self,
        statement: &Prepared,
        now: &Bound,
    ) -> Result<Result<u32, NotPrepared>, ConnectFailure> {
        if self.standing.lacks_schema()
            && let Some(schema) = &now.schema
            && let Some(error) = self.enter_schema(schema).await?
            && statement.bound.schema != now.schema
        {
            // From the schema that it was prepared under there would be no way back to none.
            return Ok(Err(NotPrepared::Node(error)));
        }
        let Some(around) = statement.bound.around(now, self.standing.baseline.as_ref()) else {
            return Ok(Err(NotPrepared::NotBound));
        };
        for say in &around.before {
            // The schema may be gone: the client gets the node's error, after the settings were put back.
            if let Some(error) = self.say(say).await? {
                self.say_all(&around.after).await?;
                return Ok(Err(NotPrepared::Node(error)));
            }
        }
        let (end, payload) = self.ask(Command::STMT_PREPARE, &statement.sql).await?;
        self.say_all(&around.after).await?;
        Ok(match end {
            End::Prepared { id, .. } => Ok(id),
            _ => Err(NotPrepared::Node(node_error(&payload))),
        })
    }

    /// Puts back the settings after a PREPARE. If the node refuses, the link cannot be used any more.
    async fn say_all(&mut self, all: &[Say]) -> Result<(), ConnectFailure> {
        for say in all {
            if let Some(error) = self.say(say).await? {
                return Err(ConnectFailure::Rejected { errno: error.code, message: error.message });
            }
        }
        Ok(())
    }

    /// Sends one command of the proxy's own; returns the node's error, if there is one.
    async fn say(&mut self, say: &Say) -> Result<Option<NodeError>, ConnectFailure> {
        let (end, payload) = match say {
            Say::Schema(schema) => return self.use_schema(schema).await,
            Say::Sql(sql) => {
                let text = self.query_payload(sql);
                self.ask(Command::QUERY, &text).await?
            }
        };
        Ok(matches!(end, End::Err { .. }).then(|| node_error(&payload)))
    }

    /// The payload of a COM_QUERY after its command byte.
    fn query_payload(&self, sql: &str) -> Vec<u8> {
        let mut text = vec![];
        if self.link.caps.has(Caps::QUERY_ATTRIBUTES) {
            text.extend_from_slice(&[0, 1]); // no attributes, in one set
        }
        text.extend_from_slice(sql.as_bytes());
        text
    }

    /// Sends a query of the proxy's own while the session is idle; `None` when the node answers with an error.
    pub async fn query(&mut self, sql: &str, deadline: Duration) -> Result<Option<Rows>, ConnectFailure> {
        self.sent = Instant::now();
        let answer = self.link.query_unless_rejected(sql, deadline).await;
        self.rests();
        answer.map_err(how_lost)
    }

    /// Waits, while the session is idle, until the node has what the session has seen.
    pub async fn catch_up(&mut self, what: &CatchUp) -> Result<Waited, ConnectFailure> {
        self.sent = Instant::now();
        let waited = what.on(&mut self.link).await;
        self.rests();
        Ok(unless_rejected(waited).map_err(how_lost)?.unwrap_or(Waited::Ended))
    }

    /// Sends a command of the proxy's own; returns the end of its answer and the last packet.
    async fn ask(&mut self, command: Command, text: &[u8]) -> Result<(End, Vec<u8>), ConnectFailure> {
        let mut payload = Vec::with_capacity(1 + text.len());
        payload.push(command.0);
        payload.extend_from_slice(text);
        let mut out = Vec::with_capacity(payload.len() + HEADER_LEN);
        put_packet(&mut out, &mut 0, &payload);
        self.send(&out).await.map_err(|error| of_io(&error))?;
        let mut answer = Answer::new(command, self.link.caps);
        loop {
            let packet = self.packet().await?;
            let payload = &self.link.buffer.bytes()[HEADER_LEN..packet];
            let need = answer.need(payload.len(), payload.first().copied());
            debug_assert!(matches!(need, Need::First | Need::Whole));
            let step = answer
                .step(payload.len(), payload)
                .map_err(|malformed| ConnectFailure::Protocol { what: malformed.what.to_owned() })?;
            let last = matches!(step, Step::End(_)).then(|| payload.to_vec());
            self.link.buffer.consume(packet);
            if let (Step::End(end), Some(last)) = (step, last) {
                self.rests();
                return Ok((end, last));
            }
        }
    }

    /// Waits for one whole packet at the front of the buffer; returns its length with its header.
    async fn packet(&mut self) -> Result<usize, ConnectFailure> {
        loop {
            if let Some(head) = Head::peek(self.link.buffer.bytes()) {
                let len = HEADER_LEN + head.len;
                if self.link.buffer.len() >= len {
                    return Ok(len);
                }
                self.link.buffer.reserve(len);
            }
            match self.link.fill().await {
                Ok(0) => return Err(ConnectFailure::Closed),
                Ok(_) => {}
                Err(error) => return Err(of_io(&error)),
            }
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if self.lane().is_shut() {
            // It was discarded with its lane, unless it is a unix socket. The reset may not have arrived.
            if let Some(port) = self.link.stream.local_address().map(|address| address.port()) {
                let link = Abandoned { connection_id: self.thread_id(), port, answered: self.rested };
                abandoned::note(&self.lane().address, link);
            }
        } else if !self.half_sent {
            self.link.quit();
        }
    }
}

/// The schema to log in with. Not where some statements must be prepared without one, since no statement removes it; nor one that the login's character
/// set may not have.
fn schema_of_login(who: &Identity, wanted: &Wanted) -> Option<Vec<u8>> {
    let schema = wanted.schema().filter(|_| wanted.without_schema().next().is_none())?;
    if who.schema.as_deref() == Some(schema) {
        return who.schema_sent.clone();
    }
    schema.is_ascii().then(|| schema.to_vec())
}

fn is_without_schema(error: &LinkError) -> bool {
    matches!(error, LinkError::Rejected { errno, .. } if NO_SCHEMA.contains(errno))
}

/// The error in an ERR packet's payload.
fn node_error(payload: &[u8]) -> NodeError {
    ErrPacket::parse(payload).map_or_else(
        |_| NodeError { code: UNKNOWN_ERROR, state: *b"HY000", message: "Unknown error".to_owned() },
        NodeError::from,
    )
}

/// What an error of a socket says about the node.
pub fn of_io(error: &std::io::Error) -> ConnectFailure {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => ConnectFailure::Refused,
        ErrorKind::TimedOut => ConnectFailure::TimedOut,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => ConnectFailure::Unreachable,
        ErrorKind::InvalidData => ConnectFailure::Protocol { what: error.to_string() },
        _ => ConnectFailure::Reset,
    }
}

fn of_connect(error: LinkError) -> AttachError {
    match error {
        LinkError::Refused | LinkError::NoSocket => AttachError::Lost(ConnectFailure::Refused),
        LinkError::Reset => AttachError::Lost(ConnectFailure::Reset),
        LinkError::Closed => AttachError::Lost(ConnectFailure::Closed),
        LinkError::TimedOut { .. } => AttachError::Lost(ConnectFailure::TimedOut),
        LinkError::Unreachable(_) => AttachError::Lost(ConnectFailure::Unreachable),
        LinkError::Protocol(what) => AttachError::Lost(ConnectFailure::Protocol { what }),
        LinkError::Rejected { errno, state, message } => match errno::whose(errno, message.as_bytes()) {
            Whose::Full => AttachError::Full(NodeError { code: errno, state, message }),
            Whose::Node | Whose::Link => AttachError::Lost(ConnectFailure::Rejected { errno, message }),
            Whose::Client | Whose::Will | Whose::All => {
                AttachError::Refused(NodeError { code: errno, state, message })
            }
        },
        LinkError::Local(local_error) => AttachError::Local(local_error),
        LinkError::Tls(_) => AttachError::Insecure(error.to_string()),
        LinkError::Unanswered(Unanswered::Forgotten) => AttachError::Forgotten(error.to_string()),
        LinkError::Unanswered(why) => AttachError::NotRebuilt(why.to_string()),
    }
}

/// How a node is told of a client. One on this host is not: it would be `localhost` there, whose accounts are meant for the node's own host.
pub fn proxied(header: Option<ProxyHeader>, client: SocketAddr) -> Option<(ProxyHeader, SocketAddr)> {
    header.filter(|_| !client.ip().is_loopback()).map(|header| (header, client))
}

/// What is told of a node with which there is no TLS: its process is there and answers, and lets no new connection in.
pub fn insecure(why: &str) -> ConnectFailure {
    ConnectFailure::Rejected { errno: errno::SSL_CONNECTION_ERROR, message: why.to_owned() }
}

/// The status bits in the answer to a ping. An error, or an answer without them, must not be taken for "no transaction".
fn status_of(end: End) -> Result<u16, ConnectFailure> {
    end.status().ok_or_else(|| ConnectFailure::Protocol { what: format!("a ping was answered by {end:?}") })
}

/// How a link that stood has ended.
fn how_lost(error: LinkError) -> ConnectFailure {
    match of_connect(error) {
        AttachError::Lost(how) => how,
        _ => ConnectFailure::Closed,
    }
}

/// A node that lags is not lost.
fn of_wait(error: LinkError) -> AttachError {
    match error {
        LinkError::TimedOut { .. } => AttachError::Behind,
        LinkError::Rejected { errno: errno::LOCK_WAIT_TIMEOUT, .. } => AttachError::Behind,
        LinkError::Rejected { errno, ref message, .. }
            if errno::whose(errno, message.as_bytes()) == Whose::Will =>
        {
            AttachError::Behind
        }
        other => of_connect(other),
    }
}

/// A node that accepts the login and then refuses a setting of the session cannot be used for it.
fn of_restore(error: LinkError) -> AttachError {
    match of_connect(error) {
        // The account's init_connect failed, which a server tells at the first command of a connection.
        AttachError::Refused(error) if error.whose() == Whose::All => AttachError::Refused(error),
        AttachError::Refused(NodeError { code, message, .. }) => {
            AttachError::NotRebuilt(format!("a setting of the session was refused: error {code}: {message}"))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_to_a_ping_is_no_status() {
        assert_eq!(status_of(End::Ok { status: 3, warnings: 0, changed: false }), Ok(3));
        for end in [End::Err { code: 1927 }, End::Text] {
            assert!(status_of(end).is_err(), "{end:?}");
        }
    }

    #[test]
    fn a_node_that_lags_is_not_lost() {
        let late = LinkError::TimedOut { after: Duration::from_secs(5) };
        assert!(matches!(of_wait(late), AttachError::Behind));
        let rejected = |errno| LinkError::Rejected { errno, state: *b"HY000", message: "WSREP".to_owned() };
        assert!(matches!(of_wait(rejected(1205)), AttachError::Behind));
        assert!(matches!(of_wait(rejected(1047)), AttachError::Lost(_)));
        assert!(matches!(of_wait(LinkError::Reset), AttachError::Lost(ConnectFailure::Reset)));
    }
}
