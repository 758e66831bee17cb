//! How the proxy behaves.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use link::{Codec, Login, ProxyHeader, ServerConfig, ServerTls};
use protocol::certificate_proof::Fingerprint;
use session::configured::Passwords;

/// All of them come from the program's table of settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen for clients: `host:port`, IPv4 or `[IPv6]:port`.
    pub listen: Vec<String>,
    /// Whether clients may use TLS; `None`: they cannot.
    pub tls: Option<ClientTls>,
    /// When the certificate expires that clients are shown, on this port or another, in seconds since 1970.
    pub certificate_expires_unix_s: Option<u64>,
    /// The manager's account, which asks MySQL about sessions.
    pub monitor: Login,
    /// How a node is connected to in a client's name; `None`: plain.
    pub node_tls: Option<ServerTls>,
    /// Of accounts whose clients sign.
    pub passwords: Arc<Passwords>,
    /// Who begins each connection with a PROXY header.
    pub proxy_header_from: Arc<[IpNet]>,
    /// How packets to and from a node are compressed, if it offers that.
    pub node_compression: Option<Codec>,
    /// How a node is told of the client's address.
    pub node_proxy_header: Option<ProxyHeader>,
    /// The longest that one statement waits for a node.
    pub hold_time: Duration,
    /// Statements that wait at the same time.
    pub hold_statements_max: usize,
    /// Bytes of the statements that wait at the same time.
    pub hold_bytes_max: usize,
    /// Held statements that run at the same time after the hold ends.
    pub release_at_once: usize,
    /// The longest that a connection to a node, login included, may take.
    pub connect_timeout: Duration,
    /// The longest that a client may take to log in.
    pub login_timeout: Duration,
    /// The longest that a client may send nothing after an answer; zero: for ever.
    pub client_idle_max: Duration,
    /// The largest statement that is kept to be sent again; a larger one is streamed.
    pub retain_bytes_max: usize,
    /// Wrong passwords that one address may send for one account in a row; zero: any number.
    pub password_errors_max: u32,
    /// After this long it may send one more.
    pub password_error_pause: Duration,
    /// Client connections at the same time.
    pub client_connections_max: usize,
    /// How often a statement that changes nothing is sent again after its node was lost while it ran.
    pub resends_max: u32,
    /// For how long a statement that ran when nodes were lost is refused; zero: never.
    pub suspect_time: Duration,
    /// `writers = "all"`: a session that moves waits until its new node has applied what the group had.
    pub writers_all: bool,
}

/// TLS with clients.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// Versions, ciphers, and the certificate that clients are shown.
    pub config: Arc<ServerConfig>,
    /// The certificate's.
    pub fingerprint: Fingerprint,
    /// Who does not use it is not let in.
    pub is_required: bool,
}
