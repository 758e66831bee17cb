//! Resolves a name, connects and logs in, with one deadline for all of it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::capability::Caps;
use protocol::command::Command;
use protocol::handshake::{Greeting, LoginRequest, SSL_REQUEST_LEN};
use protocol::ok::{ERR, OkPacket};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::authentication::{Authentication, Step, Way};
use crate::error::local_resource_error;
use crate::wire::{packet, send};
use crate::{Buffer, Codec, LinkError, Login, ServerTls, Side, Transport};

/// An idle link to a host that has vanished is given up by the kernel after about 5 + 3 * 2 seconds. TCP_USER_TIMEOUT is not set: it also ends a
/// connection whose peer lives and reads nothing for that long, as a server that waits for a lock in the middle of LOAD DATA.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_PROBES: u32 = 3;

/// The pause before a unix socket with a full queue is tried again.
const QUEUE_PAUSE: Duration = Duration::from_millis(2);

/// Capabilities that are requested on occasions of their own only, or never, because they are not implemented here.
const NOT_SPOKEN: Caps = Caps(
    Caps::SSL.0
        | Caps::COMPRESS.0
        | Caps::ZSTD.0
        | Caps::MULTI_FACTOR_AUTHENTICATION.0
        | Caps::CAPABILITY_EXTENSION.0,
);

/// A logged-in connection.
#[derive(Debug)]
pub struct Link {
    /// The connection itself. While it is used directly, the other methods must not be used.
    pub stream: Transport,
    /// Bytes that were received and not parsed yet: between statements none, or the server's last error.
    pub buffer: Buffer,
    /// The capabilities that both sides have agreed on, but for what concerns the transport only (TLS, compression).
    pub caps: Caps,
    /// The server's greeting.
    pub greeting: Greeting,
    /// The server's status flags as of the last answer that [`Link::query`] read.
    pub status: u16,
    /// The payload of the OK that ended the login; may tell the schema and variables when session tracking was asked for.
    pub login_ok: Vec<u8>,
    /// The answer to a statement has not been read to its end, so no other statement can be sent.
    pub(crate) is_busy: bool,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `host:port`.
    Tcp(String),
    /// The server's unix socket, where an account of `localhost` may log in.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => f.write_str(address),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Link {
    /// Connects over TCP and logs in. One deadline spans name resolution, connecting (each of the name's addresses gets its share
    /// of what is left) and the login.
    pub async fn connect(address: &str, login: &Login, deadline: Duration) -> Result<Link, LinkError> {
        let until = Instant::now() + deadline;
        let opened = async {
            let mut stream = open(address, until, deadline).await?;
            if let Some((header, client)) = login.proxied {
                let header = stream.peer_addr().and_then(|server| header.of(client, server));
                let sent = match header {
                    Ok(header) => stream.write_all(&header).await,
                    Err(error) => Err(error),
                };
                sent.map_err(|error| LinkError::of_io(&error, deadline))?;
            }
            log_in(stream.into(), login, secured(login, address)?, deadline).await
        };
        timeout(deadline, opened).await.unwrap_or(Err(LinkError::TimedOut { after: deadline }))
    }

    /// As [`Link::connect`], over TCP or a unix socket.
    pub async fn connect_to(place: &Endpoint, login: &Login, deadline: Duration) -> Result<Link, LinkError> {
        match place {
            Endpoint::Tcp(address) => Link::connect(address, login, deadline).await,
            Endpoint::Unix(path) => {
                let opened =
                    async { log_in(open_socket(path, deadline).await?.into(), login, None, deadline).await };
                timeout(deadline, opened).await.unwrap_or(Err(LinkError::TimedOut { after: deadline }))
            }
        }
    }

    /// Reads once, into the buffer; 0 when the peer has closed. Cancel safe.
    #[inline]
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.fill(&mut self.stream).await
    }

    /// Closes the way to the peer: a server sees its client gone, and ends what it then may (SLEEP, GET_LOCK and the like); what it
    /// says can still be read.
    pub async fn half_close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Sends COM_QUIT, so that the server does not count an aborted client. Does not wait, and ignores errors: the server may be gone.
    pub fn quit(&self) {
        self.stream.begin_command();
        let _ = self.stream.try_write(&[1, 0, 0, 0, Command::QUIT.0]);
    }

    /// Whether the answer to a statement was given up before its end, so that no other can be sent.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether a question can be asked on it: no answer is on its way, and the server has said nothing unasked.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_busy && self.buffer.is_empty()
    }

    /// Closes with a reset (RST): what the local kernel has not sent yet is discarded, and the peer is notified at once.
    ///
    /// What the peer's kernel has already received is *not* discarded: on Linux a process that was stopped reads it when it continues,
    /// and only then sees the reset. A statement sent to a frozen server may still be run.
    pub fn reset(self) {
        self.stream.reset_on_close();
    }
}

async fn open(address: &str, until: Instant, deadline: Duration) -> Result<TcpStream, LinkError> {
    let found: Vec<SocketAddr> = lookup_host(address)
        .await
        .map_err(|error| match local_resource_error(&error) {
            Some(local_error) => LinkError::Local(local_error.to_owned()),
            None => LinkError::Unreachable(format!("{address} does not resolve: {error}")),
        })?
        .collect();
    let mut failure = LinkError::Unreachable(format!("{address} resolves to no address"));
    for (nth, address) in found.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let share = left / (found.len() - nth) as u32;
        match timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                prepare(&stream).map_err(|error| LinkError::of_io(&error, deadline))?;
                return Ok(stream);
            }
            Ok(Err(error)) => failure = LinkError::of_io(&error, deadline),
            Err(_) => failure = LinkError::TimedOut { after: deadline },
        }
    }
    Err(failure)
}

/// Has no deadline of its own; the caller limits it.
async fn open_socket(path: &Path, deadline: Duration) -> Result<UnixStream, LinkError> {
    loop {
        let error = match UnixStream::connect(path).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        return Err(match error.kind() {
            // The server's queue is full of clients, and a socket that does not block is not put behind them.
            io::ErrorKind::WouldBlock => {
                sleep(QUEUE_PAUSE).await;
                continue;
            }
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => LinkError::NoSocket,
            io::ErrorKind::PermissionDenied => LinkError::Local(
                "this user may not use this socket (EACCES): it must be able to enter the directory and to write to the socket".into(),
            ),
            _ => LinkError::of_io(&error, deadline),
        });
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// How the way is secured, and the name that the server's certificate must have where it is looked at: the host of `address`.
type Secured<'a> = Option<(&'a ServerTls, ServerName<'static>)>;

fn secured<'a>(login: &'a Login, address: &str) -> Result<Secured<'a>, LinkError> {
    let Some(tls) = &login.tls else { return Ok(None) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| LinkError::Tls(format!("{host:?} is no name that a certificate can have")))?;
    Ok(Some((tls, name)))
}

async fn log_in(
    mut stream: Transport,
    login: &Login,
    secured: Secured<'_>,
    deadline: Duration,
) -> Result<Link, LinkError> {
    let mut buffer = Buffer::default();
    let (seq, first) = packet(&mut buffer, &mut stream, deadline).await?;
    if first.first() == Some(&ERR) {
        return Err(LinkError::of_err_packet(&first));
    }
    let greeting = Greeting::parse(&first)?;
    let way = match &secured {
        Some((tls, _)) if tls.is_verified() => Way::Proved,
        Some(_) => Way::Encrypted,
        None if stream.is_private() => Way::Proved,
        None => Way::Plain,
    };
    let (authentication, plugin, proof) = Authentication::begin(&login.secret, &greeting, way);
    let mut request = answer(&greeting, login, plugin, proof);
    let caps = request.sent_caps();
    let compression = login.compression.filter(|codec| greeting.caps.has(capability_of(*codec)));
    if let Some(codec) = compression {
        request.caps = request.caps | capability_of(codec);
        if let Codec::Zstd { level } = codec {
            request.zstd_level = level;
        }
    }
    let mut seq = seq;
    if let Some((tls, name)) = secured {
        if !greeting.caps.has(Caps::SSL) {
            return Err(LinkError::Tls("the server offers none (have_ssl, its certificate)".into()));
        }
        request.caps = request.caps | Caps::SSL;
        let all = request.encode();
        send(&mut stream, seq, &all[..SSL_REQUEST_LEN], deadline).await?;
        seq = seq.wrapping_add(1);
        // What came in clear behind the greeting was said by nobody who has proved himself.
        if !buffer.is_empty() {
            return Err(LinkError::Tls("bytes came between the greeting and TLS".into()));
        }
        stream.connect_tls(tls.config().clone(), name).await.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => LinkError::Tls(error.to_string()),
            _ => LinkError::of_io(&error, deadline),
        })?;
    }
    send(&mut stream, seq, &request.encode(), deadline).await?;
    let login_ok = authenticate(&mut stream, &mut buffer, authentication, deadline).await?;
    let status = OkPacket::parse(&login_ok, caps)?.status;
    if let Some(codec) = compression {
        stream.compress(codec, Some(Side::Client), &mut buffer);
    }
    Ok(Link { stream, buffer, caps, greeting, status, login_ok, is_busy: false })
}

fn capability_of(codec: Codec) -> Caps {
    match codec {
        Codec::Zlib => Caps::COMPRESS,
        Codec::Zstd { .. } => Caps::ZSTD,
    }
}

/// The login request, with the proof for `plugin`: if the account wants another, the server says so.
fn answer(greeting: &Greeting, login: &Login, plugin: &str, proof: Vec<u8>) -> LoginRequest {
    let caps = (login.caps | Caps::PLUGIN_AUTH | Caps::CONNECT_WITH_DB).without(NOT_SPOKEN) & greeting.caps;
    LoginRequest {
        caps,
        max_packet: login.max_packet,
        charset: login.charset,
        user: login.user_sent.clone().unwrap_or_else(|| login.user.clone().into_bytes()),
        auth: proof,
        database: login.database.clone(),
        plugin: caps.has(Caps::PLUGIN_AUTH).then(|| plugin.to_owned()),
        attrs: if caps.has(Caps::CONNECT_ATTRS) { login.attrs.clone() } else { Vec::new() },
        zstd_level: 0,
    }
}

async fn authenticate(
    stream: &mut Transport,
    buffer: &mut Buffer,
    mut authentication: Authentication<'_>,
    deadline: Duration,
) -> Result<Vec<u8>, LinkError> {
    loop {
        let read = packet(buffer, stream, deadline).await;
        let (seq, payload) = read.map_err(|error| authentication.ended(error))?;
        match authentication.step(&payload)? {
            Step::Send(answer) => send(stream, seq, &answer, deadline).await?,
            Step::Wait => {}
            Step::Done => return Ok(payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_that_vanished_is_noticed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let within = Duration::from_secs(5);
        let stream = open(&address, Instant::now() + within, within).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE_IDLE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
    }
}
