//! The client's side of the wire: its login, its commands, and what the proxy says to it by itself.

mod proof;
pub mod rsa_key;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::{Buffer, Codec, ServerConfig, Side, Transport};
use listen::slots::ConnectionSlot;
use protocol::capability::Caps;
use protocol::certificate_proof::{self, Fingerprint};
use protocol::command::Command;
use protocol::handshake::{ChangeUser, Greeting, LoginRequest, is_ssl_request};
use protocol::ok::{self, TransactionState, put_ok};
use protocol::packet::{HEADER_LEN, Head, PAYLOAD_MAX, put_packet};
use rand::Rng;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};
use topology::routes::ServerGreeting;
use zeroize::{Zeroize, Zeroizing};

use crate::error_reply::{self, ErrorReply};
use crate::identity::{Identity, known_name};
use crate::password_errors::Attempt;
use crate::proxy_header;
use crate::shared::Shared;
use crate::unread::Unread;

/// What the proxy can pass on; to that come compression, and TLS where it is set. Not offered: query attributes, optional
/// metadata, and metadata that a client keeps from an earlier answer (of a node that may not be this one).
const OFFERED: Caps = Caps(
    Caps::LONG_PASSWORD.0
        | Caps::FOUND_ROWS.0
        | Caps::LONG_FLAG.0
        | Caps::CONNECT_WITH_DB.0
        | Caps::NO_SCHEMA.0
        | Caps::ODBC.0
        | Caps::LOCAL_FILES.0
        | Caps::IGNORE_SPACE.0
        | Caps::PROTOCOL_41.0
        | Caps::INTERACTIVE.0
        | Caps::IGNORE_SIGPIPE.0
        | Caps::TRANSACTIONS.0
        | Caps::RESERVED.0
        | Caps::SECURE_CONNECTION.0
        | Caps::MULTI_STATEMENTS.0
        | Caps::MULTI_RESULTS.0
        | Caps::PS_MULTI_RESULTS.0
        | Caps::PLUGIN_AUTH.0
        | Caps::CONNECT_ATTRS.0
        | Caps::PLUGIN_AUTH_LENENC_DATA.0
        | Caps::SESSION_TRACK.0
        | Caps::DEPRECATE_EOF.0
        | Caps::PROGRESS.0
        | Caps::STMT_BULK_OPERATIONS.0
        | Caps::EXTENDED_METADATA.0,
);
/// What the proxy can do whatever its nodes can. A client that wants either gets zlib, as of a server.
const COMPRESSION: Caps = Caps(Caps::COMPRESS.0 | Caps::ZSTD.0);
/// A login packet is some hundred bytes; its connection attributes may be some kilobytes. More than this is no login: a thousand clients
/// may be in the middle of theirs.
const LOGIN_BYTES_MAX: usize = 16 * 1024;
/// What a packet of a client's login, and all of it, may take when many others are at theirs.
const HURRIED_BYTES_MAX: usize = 8 * 1024;
const HURRIED_TIME_MAX: Duration = Duration::from_secs(2);
/// What is told last, and TLS's end, may take a client so long to accept.
const FINISH_TIME_MAX: Duration = Duration::from_secs(1);
/// At most so many bytes of session tracking, which an EOF or error packet cannot carry, wait for the next OK packet.
const UNTOLD_BYTES_MAX: usize = 64 * 1024;
/// How much of a command that is not kept whole must be at hand for the scanner.
const PREFIX: usize = 16 * 1024;

/// The client as the driver holds it.
pub struct Client {
    /// The socket.
    pub stream: Transport,
    /// What it sent and was not yet dealt with; the command being served stands at its front.
    pub buffer: Buffer,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// The connection id it was told.
    pub id: u32,
    /// What was agreed on.
    pub caps: Caps,
    /// The sequence number of the next packet of the login.
    pub login_seq: u8,
    /// How many packets of the present command came behind its first.
    pub continued: u8,
    /// Changes of the session that it asked to be told, and that no EOF packet can tell: they go with the next OK.
    pub untold: Vec<u8>,
    /// What an error left untold of the transaction: it goes with the answer to the next statement.
    pub untold_transaction: Option<TransactionState>,
    /// Room for what is made for it in place of its node's packets, kept from one answer to the next.
    pub made: Vec<u8>,
    /// What it has still to send of a command, or of a file, that was broken off.
    pub unread: Option<Unread>,
    /// The sequence number that follows a file which was broken off.
    after_file: Option<u8>,
    /// Of an answer that was broken off, or has ended at the node: what it has not taken yet.
    left: Vec<u8>,
    /// When it began to log in.
    since: Instant,
    /// It is one of very many that have not logged in yet.
    is_hurried: bool,
    salt: [u8; 20],
    /// What the server stores of the password that it has proved to know.
    stored: Option<Vec<u8>>,
    /// Its password is one that only a node can check, and none has yet.
    pub unchecked: Option<Unchecked>,
    /// What it was shown under TLS.
    certificate: Option<Fingerprint>,
    /// The text of the OK packet that ends its login.
    proof: Vec<u8>,
    /// How its packets are to be compressed behind its login.
    codec: Option<Codec>,
}

/// A login by a password that only a node can check.
pub struct Unchecked {
    /// Used up already; it is given back where no password was wrong.
    pub attempt: Attempt,
    /// Its place among the clients that are logging in.
    pub place: Option<ConnectionSlot>,
}

/// The first packet of an answer, for [`Client::say`] and its like: they count on from the last packet of the command.
pub const FIRST: u8 = 1;

/// A command at the front of the client's buffer.
#[derive(Clone, Copy, Debug)]
pub struct BufferedCommand {
    /// Length of the (first) packet, its header included.
    pub len: usize,
    /// All of it is in the buffer. Otherwise it is larger than what is kept, and streamed.
    pub whole: bool,
}

/// Why the client is done.
#[derive(Debug)]
pub enum Done {
    /// It went away, or its socket broke.
    Gone,
    /// It was told an error that ends the connection.
    Refused(ErrorReply, String),
}

impl From<io::Error> for Done {
    fn from(_: io::Error) -> Self {
        Done::Gone
    }
}

/// Printable: some clients take a NUL for the end.
fn new_salt() -> [u8; 20] {
    let mut salt = [0; 20];
    let mut random = rand::rng();
    salt.fill_with(|| random.random_range(b'!'..=b'~'));
    salt
}

impl Client {
    /// A client that was accepted. `is_hurried`: one of so many that log in, that this one must be quick.
    pub fn new(stream: TcpStream, peer: SocketAddr, id: u32, is_hurried: bool) -> Self {
        Self {
            stream: stream.into(),
            buffer: Buffer::default(),
            peer,
            id,
            caps: Caps::NONE,
            login_seq: 0,
            continued: 0,
            untold: vec![],
            untold_transaction: None,
            made: vec![],
            unread: None,
            after_file: None,
            left: vec![],
            since: Instant::now(),
            is_hurried,
            salt: new_salt(),
            stored: None,
            unchecked: None,
            certificate: None,
            proof: vec![],
            codec: None,
        }
    }

    /// Greets the client and learns who it is. The final OK (or the node's own refusal) is the driver's to send.
    pub async fn login(
        &mut self,
        server: &Arc<ServerGreeting>,
        shared: &Arc<Shared>,
    ) -> Result<Identity, Done> {
        let can_be_used = OFFERED & Caps(server.capabilities);
        let payload = self.greet(server, can_be_used | COMPRESSION, shared).await?;
        let request = LoginRequest::parse(&payload)
            .map_err(|malformed| Done::Refused(error_reply::MALFORMED, malformed.to_string()))?;
        if !request.caps.has(Caps::PROTOCOL_41) || !request.caps.has(Caps::SECURE_CONNECTION) {
            return Err(Done::Refused(
                error_reply::MALFORMED,
                "the client speaks a protocol older than 4.1".into(),
            ));
        }
        self.caps = request.caps & can_be_used;
        self.codec = match request.caps {
            caps if caps.has(Caps::COMPRESS) => Some(Codec::Zlib),
            caps if caps.has(Caps::ZSTD) => Some(Codec::Zstd { level: request.zstd_level }),
            _ => None,
        };
        let (user, user_sent) = known_name(request.user, request.charset);
        let user = String::from_utf8_lossy(&user).into_owned();
        let credential =
            self.verify(&user, request.plugin.as_deref(), Zeroizing::new(request.auth), shared).await?;
        let schema = request.database.filter(|schema| !schema.is_empty());
        // Its COM_CHANGE_USER is none of a newcomer.
        self.is_hurried = false;
        Ok(Identity {
            user,
            credential,
            schema: schema.clone().map(|schema| known_name(schema, request.charset).0),
            schema_sent: schema,
            user_sent,
            charset: request.charset,
            peer: self.peer,
            attrs: request.attrs,
            seq: self.login_seq,
        })
    }

    /// Says who we are, goes on under TLS if the client asks for it, and returns its login request.
    async fn greet(
        &mut self,
        server: &ServerGreeting,
        offered: Caps,
        shared: &Shared,
    ) -> Result<Zeroizing<Vec<u8>>, Done> {
        let tls = shared.tls();
        let greeting = Greeting {
            version: server.version.clone(),
            connection_id: self.id,
            salt: self.salt,
            caps: if tls.is_some() { offered | Caps::SSL } else { offered },
            charset: server.charset,
            status: server.status & ok::status::OF_LOGIN,
            plugin: shared.default_plugin().name().into(),
        };
        let mut out = vec![];
        put_packet(&mut out, &mut 0, &greeting.encode());
        self.stream.write_all(&out).await?;
        self.login_seq = 1;
        let mut payload = self.read_login().await?;
        match tls {
            Some(tls) if is_ssl_request(&payload) => {
                self.certificate = Some(tls.fingerprint);
                self.accept_tls(tls.config, shared).await?;
                payload = self.read_login().await?;
            }
            Some(tls) if tls.is_required => {
                return Err(Done::Refused(error_reply::TLS_REQUIRED, String::new()));
            }
            None if is_ssl_request(&payload) => {
                let detail = "TLS was asked for and is not offered (listen.tls, listen.read_tls)";
                return Err(Done::Refused(error_reply::MALFORMED, detail.into()));
            }
            _ => {}
        }
        Ok(payload)
    }

    /// Goes on under TLS. Where that fails the client is told so by TLS itself, and the reason is logged.
    async fn accept_tls(&mut self, config: Arc<ServerConfig>, shared: &Shared) -> Result<(), Done> {
        let until = (self.since + HURRIED_TIME_MAX).into();
        let accepting = self.stream.accept_tls(config, &mut self.buffer);
        let accepted = if self.is_hurried {
            timeout_at(until, accepting).await.map_err(|_| Done::Gone)?
        } else {
            accepting.await
        };
        accepted.map_err(|error| {
            if error.kind() == io::ErrorKind::InvalidData
                && let Some(kept_back) = shared.refusal.now(Instant::now())
            {
                let from = self.peer.ip();
                tracing::warn!(
                    "client {from} asked for TLS, and there is none: {error} ({kept_back} refusals more were not told)"
                );
            }
            Done::Gone
        })
    }

    /// Its login is over: its packets are compressed from here on, if that was agreed on.
    pub fn begin_compression(&mut self) {
        if let Some(codec) = self.codec.take() {
            self.stream.compress(codec, Some(Side::Server), &mut self.buffer);
        }
    }

    /// COM_CHANGE_USER: the same questions on a connection that stands. `payload` is the command; `charset` is the character set that it has, if it
    /// names none.
    pub async fn change_user(
        &mut self,
        payload: &[u8],
        charset: u16,
        shared: &Arc<Shared>,
    ) -> Result<Identity, Done> {
        self.login_seq = 1;
        let request = ChangeUser::parse(payload, self.caps)
            .map_err(|malformed| Done::Refused(error_reply::MALFORMED, malformed.to_string()))?;
        let charset = request.charset.unwrap_or(charset);
        let (user, user_sent) = known_name(request.user, charset);
        let user = String::from_utf8_lossy(&user).into_owned();
        // Asked under the salt of the login, as servers do: the C libraries of MariaDB and MySQL answer under that one, whatever they are asked under.
        self.since = Instant::now();
        let credential = self.verify(&user, Some(""), Zeroizing::default(), shared).await?;
        let schema = Some(request.database).filter(|schema| !schema.is_empty());
        Ok(Identity {
            user,
            user_sent,
            credential,
            schema: schema.clone().map(|schema| known_name(schema, charset).0),
            schema_sent: schema,
            charset,
            peer: self.peer,
            attrs: request.attrs,
            seq: self.login_seq,
        })
    }

    /// One packet of the login, whole: its payload. Who must be quick, and says nothing, is gone.
    async fn read_login(&mut self) -> Result<Zeroizing<Vec<u8>>, Done> {
        if !self.is_hurried {
            return self.read_small(LOGIN_BYTES_MAX).await;
        }
        let until = (self.since + HURRIED_TIME_MAX).into();
        let read = timeout_at(until, self.read_small(HURRIED_BYTES_MAX)).await;
        read.unwrap_or(Err(Done::Gone))
    }

    async fn read_small(&mut self, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, Done> {
        loop {
            if proxy_header::is_header(self.buffer.bytes()) {
                let detail = format!(
                    "a PROXY header from {}, which listen.proxy_header_from does not list",
                    self.peer.ip()
                );
                return Err(Done::Refused(error_reply::MALFORMED, detail));
            }
            if let Some(head) = Head::peek(self.buffer.bytes()) {
                self.login_seq = head.seq.wrapping_add(1);
                if head.len > bytes_max {
                    let detail = format!("a login packet of more than {} KiB", bytes_max / 1024);
                    return Err(Done::Refused(error_reply::MALFORMED, detail));
                }
                let all = HEADER_LEN + head.len;
                if self.buffer.len() >= all {
                    let payload = Zeroizing::new(self.buffer.bytes()[HEADER_LEN..all].to_vec());
                    // It may be a password, and the buffer is used again by others.
                    self.buffer.bytes_mut()[..all].zeroize();
                    self.buffer.consume(all);
                    return Ok(payload);
                }
            }
            if self.buffer.fill(&mut self.stream).await? == 0 {
                return Err(Done::Gone);
            }
        }
    }

    /// The command at the front of the buffer, reading until it is whole or known to be larger than `retain_bytes_max`. A client that has not
    /// taken all of its last answer gets the rest before. Cancel safe: what was read stays in the buffer.
    pub async fn command(&mut self, retain_bytes_max: usize) -> Result<BufferedCommand, Done> {
        if !self.left.is_empty() {
            self.write_left().await?;
        }
        if self.stream.is_worn() && self.buffer.is_empty() {
            return Err(Done::Gone);
        }
        self.continued = 0;
        self.after_file = None;
        loop {
            if let Some(head) = Head::peek(self.buffer.bytes()) {
                let len = HEADER_LEN + head.len;
                if head.len > retain_bytes_max || head.len == PAYLOAD_MAX {
                    if self.buffer.len() >= len.min(PREFIX) {
                        return Ok(BufferedCommand { len, whole: false });
                    }
                } else if self.buffer.len() >= len {
                    return Ok(BufferedCommand { len, whole: true });
                }
                // The buffer grows with what comes: a length alone must cost no memory.
            }
            if self.buffer.fill(&mut self.stream).await? == 0 {
                return Err(Done::Gone);
            }
        }
    }

    /// Reads and drops a command that will not be executed. Nothing of it has been taken from the buffer yet, or all of it
    /// (its `len` is 0 then, and what follows is the next command).
    pub async fn drop_command(&mut self, command: BufferedCommand) -> Result<(), Done> {
        if let Some(unread) = self.unread.take() {
            self.drop_unread(unread).await?;
        }
        if command.whole || command.len == 0 {
            self.buffer.consume(command.len);
            return Ok(());
        }
        let head = self.next_head().await?;
        self.drop_unread(Unread::Command { left: HEADER_LEN + head.len, goes_on: head.len == PAYLOAD_MAX })
            .await
    }

    /// Reads and drops what is left; after a file it is known which number follows.
    async fn drop_unread(&mut self, unread: Unread) -> Result<(), Done> {
        match unread {
            Unread::Command { left, mut goes_on } => {
                self.drop_bytes(left).await?;
                while goes_on {
                    self.continued = self.continued.wrapping_add(1);
                    let head = self.next_head().await?;
                    self.drop_bytes(HEADER_LEN + head.len).await?;
                    goes_on = head.len == PAYLOAD_MAX;
                }
            }
            Unread::File { left, mut seq, mut ends } => {
                self.drop_bytes(left).await?;
                while !ends {
                    let head = self.next_head().await?;
                    // The file will never come to its end.
                    if head.seq != seq.wrapping_add(1) {
                        return Err(Done::Gone);
                    }
                    self.drop_bytes(HEADER_LEN + head.len).await?;
                    (seq, ends) = (head.seq, head.len == 0);
                }
                self.after_file = Some(seq.wrapping_add(1));
            }
        }
        Ok(())
    }

    /// The head of the next packet, which stays where it is.
    async fn next_head(&mut self) -> Result<Head, Done> {
        loop {
            if let Some(head) = Head::peek(self.buffer.bytes()) {
                return Ok(head);
            }
            if self.buffer.fill(&mut self.stream).await? == 0 {
                return Err(Done::Gone);
            }
        }
    }

    /// The sequence number that `seq` means: see [`FIRST`].
    fn seq(&self, seq: u8) -> u8 {
        match self.after_file {
            Some(seq) => seq,
            None if seq == FIRST => FIRST.wrapping_add(self.continued),
            None => seq,
        }
    }

    /// Reads and drops exactly `n` bytes.
    pub async fn drop_bytes(&mut self, mut n: usize) -> Result<(), Done> {
        while n > 0 {
            if self.buffer.is_empty() && self.buffer.fill(&mut self.stream).await? == 0 {
                return Err(Done::Gone);
            }
            let part = n.min(self.buffer.len());
            self.buffer.consume(part);
            n -= part;
        }
        Ok(())
    }

    /// The next OK ends a login, and proves the certificate by what is stored of the password to a client that asks no authority.
    pub fn prove_certificate(&mut self) {
        if let (Some(certificate), Some(stored)) = (&self.certificate, self.stored.take()) {
            self.proof = certificate_proof::proof(&stored, &self.salt, certificate).into();
        }
    }

    /// An OK of the proxy's own.
    pub async fn say_ok(&mut self, seq: u8, status: u16) -> Result<(), Done> {
        let mut seq = self.seq(seq);
        let mut payload = vec![];
        put_ok(&mut payload, ok::OK, 0, 0, status, 0, &std::mem::take(&mut self.proof));
        if !self.untold.is_empty()
            && let Ok(told) = ok::with_track(&payload, self.caps, &self.untold)
        {
            self.untold.clear();
            payload = told;
        }
        let mut out = vec![];
        put_packet(&mut out, &mut seq, &payload);
        self.write(&out).await
    }

    /// An error of the proxy's own.
    pub async fn say(&mut self, error_reply: ErrorReply, seq: u8, detail: &str) -> Result<(), Done> {
        let mut out = vec![];
        error_reply.put(&mut out, self.seq(seq), detail);
        self.write(&out).await
    }

    /// An error in a node's words.
    pub async fn say_err(&mut self, seq: u8, code: u16, state: [u8; 5], message: &str) -> Result<(), Done> {
        let mut seq = self.seq(seq);
        let mut payload = vec![];
        ok::put_err(&mut payload, code, &state, message);
        let mut out = vec![];
        put_packet(&mut out, &mut seq, &payload);
        self.write(&out).await
    }

    /// Writes packets of the proxy's own, behind what is left of a broken answer.
    async fn write(&mut self, packets: &[u8]) -> Result<(), Done> {
        self.write_left().await?;
        Ok(self.stream.write_all(packets).await?)
    }

    /// Whether it has not taken all of its last answer.
    pub fn has_left(&self) -> bool {
        !self.left.is_empty() || self.stream.has_unsent()
    }

    /// What it was told last goes before its connection ends; nothing is waited for long.
    pub async fn finish(&mut self) {
        let _ = timeout(FINISH_TIME_MAX, self.stream.finish()).await;
    }

    /// Cancel safe.
    async fn write_left(&mut self) -> Result<(), Done> {
        while !self.left.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(&self.left) {
                Ok(written) => drop(self.left.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// These whole packets go before whatever it is told next.
    pub fn leave(&mut self, packets: &[u8]) {
        self.left.extend_from_slice(packets);
    }

    /// Nothing of its session is untold any more: it was begun anew.
    pub fn forget_untold(&mut self) {
        self.untold.clear();
        self.untold_transaction = None;
    }

    /// What the OK packet that answers `command` is to tell beside its own changes; `own`: the transaction's state among those.
    pub fn take_untold(&mut self, command: Command, own: Option<TransactionState>) -> Vec<u8> {
        let mut untold = std::mem::take(&mut self.untold);
        let is_statement =
            matches!(command, Command::QUERY | Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE);
        if is_statement
            && let Some(state) = self.untold_transaction.take()
            && own.is_none()
        {
            state.put(&mut untold);
        }
        untold
    }

    /// These changes of its session go with the next OK packet, if it wants to be told.
    pub fn leave_untold(&mut self, track: &[u8]) {
        if self.caps.has(Caps::SESSION_TRACK) && self.untold.len() + track.len() <= UNTOLD_BYTES_MAX {
            self.untold.extend_from_slice(track);
        }
    }

    /// Reads more of what it sends; false when it is gone.
    pub async fn fill(&mut self) -> bool {
        matches!(self.buffer.fill(&mut self.stream).await, Ok(n) if n > 0)
    }

    /// Whether the client went away, though bytes of it may wait to be read.
    pub fn is_gone(&self) -> bool {
        self.stream.has_hung_up()
    }

    /// Resolves when the client went away. What it sends meanwhile stays where it is.
    pub async fn gone(&self) {
        self.stream.until_hung_up().await;
    }
}
