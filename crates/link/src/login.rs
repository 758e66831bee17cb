//! The parameters of a login: an account, its secret, and the requested capabilities.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use ppp::{v1, v2};
use protocol::auth::caching_sha2::Sha256;
use protocol::auth::native::Sha1;
use protocol::auth::password::Password;
use protocol::capability::Caps;
use protocol::packet::put;
use zeroize::Zeroize;

use crate::{Codec, ServerTls};

/// The secret of an account. Debug never shows it, and it is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password itself.
    Password(Password),
    /// The password, of which only signatures are made (`ed25519`, `parsec`): no server is shown it, whatever it asks for.
    Signing(Password),
    /// The password, which is shown for itself (`mysql_clear_password`, `dialog`), and to a server only that has proved who it is.
    Shown(Password),
    /// SHA1(password), as learned from a client's right answer: enough for `mysql_native_password`.
    Stage1(Sha1),
    /// SHA256(password), likewise: enough for `caching_sha2_password` at a server that remembers the account.
    Sha256(Sha256),
    /// The account has no password.
    None,
}

impl Drop for Secret {
    fn drop(&mut self) {
        match self {
            Secret::Stage1(stage1) => stage1.zeroize(),
            Secret::Sha256(stage1) => stage1.zeroize(),
            // A password overwrites itself.
            Secret::Password(_) | Secret::Signing(_) | Secret::Shown(_) | Secret::None => {}
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Password(_) => "Password(..)",
            Secret::Signing(_) => "Signing(..)",
            Secret::Shown(_) => "Shown(..)",
            Secret::Stage1(_) => "Stage1(..)",
            Secret::Sha256(_) => "Sha256(..)",
            Secret::None => "None",
        })
    }
}

/// The parameters of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The account's name.
    pub user: String,
    /// The same in the character set of the login, where that is not UTF-8.
    pub user_sent: Option<Vec<u8>>,
    /// The account's secret.
    pub secret: Secret,
    /// The default database.
    pub database: Option<Vec<u8>>,
    /// TLS over TCP; `None`: plain. A unix socket is always plain. A server that offers no TLS is not logged in to where it is wanted.
    pub tls: Option<ServerTls>,
    /// How packets are compressed, if the server offers it.
    pub compression: Option<Codec>,
    /// The requested capabilities but for compression; reduced to those that the server offers.
    pub caps: Caps,
    /// The collation's id. MySQL and MariaDB 10.11 read the low byte only: one above 255 takes a SET NAMES.
    pub charset: u16,
    /// Connection attributes as [`attributes`] writes them; empty for none.
    pub attrs: Vec<u8>,
    /// The longest packet we want to see, in bytes.
    pub max_packet: u32,
    /// The client for whom the connection is made, and how the server is told of it (over TCP only).
    pub proxied: Option<(ProxyHeader, SocketAddr)>,
}

/// The version of the header by which a server is told of the client for whom a connection is made (HAProxy's `doc/proxy-protocol.txt`). A
/// server that was not told to take it from us refuses the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// A line of text.
    V1,
    /// Bytes.
    V2,
}

impl ProxyHeader {
    /// The header of a connection to `server`.
    pub fn of(self, client: SocketAddr, server: SocketAddr) -> io::Result<Vec<u8>> {
        // Both addresses are of one kind.
        let server = match (client, server) {
            (SocketAddr::V4(_), SocketAddr::V6(_)) => {
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, server.port()))
            }
            (SocketAddr::V6(_), SocketAddr::V4(_)) => {
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, server.port()))
            }
            _ => server,
        };
        match self {
            ProxyHeader::V1 => Ok(v1::Addresses::from((client, server)).to_string().into_bytes()),
            ProxyHeader::V2 => {
                let (version, protocol) = (v2::Version::Two | v2::Command::Proxy, v2::Protocol::Stream);
                v2::Builder::with_addresses(version, protocol, (client, server)).build()
            }
        }
    }
}

impl Login {
    /// The capabilities of probes and orders: utf8mb4, transactions, results without EOF packets.
    pub const PLAIN: Caps = Caps(
        Caps::LONG_PASSWORD.0
            | Caps::LONG_FLAG.0
            | Caps::PROTOCOL_41.0
            | Caps::TRANSACTIONS.0
            | Caps::SECURE_CONNECTION.0
            | Caps::MULTI_RESULTS.0
            | Caps::PLUGIN_AUTH.0
            | Caps::CONNECT_ATTRS.0
            | Caps::DEPRECATE_EOF.0,
    );

    /// As [`Login::new`]. An empty password: the account has none.
    pub fn with_password(user: impl Into<String>, password: impl Into<Password>) -> Login {
        let password = password.into();
        Login::new(user, if password.is_empty() { Secret::None } else { Secret::Password(password) })
    }

    /// A login with [`Login::PLAIN`] capabilities, no database, utf8mb4.
    pub fn new(user: impl Into<String>, secret: Secret) -> Login {
        Login {
            user: user.into(),
            user_sent: None,
            secret,
            tls: None,
            compression: None,
            database: None,
            caps: Login::PLAIN,
            charset: 45, // utf8mb4_general_ci, known to every server since 5.5
            attrs: attributes(&[("program_name", "understudy")]),
            max_packet: 16 << 20,
            proxied: None,
        }
    }
}

/// Connection attributes in the form that [`Login::attrs`] takes.
pub fn attributes(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in pairs {
        put::lenenc_bytes(&mut out, name.as_bytes());
        put::lenenc_bytes(&mut out, value.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_a_secret() {
        let login = Login::new("app", Secret::Password("hunter2".into()));
        let shown = format!("{login:?} {:?} {:?}", Secret::Stage1([0x41; 20]), Secret::Sha256([0x41; 32]));
        assert!(!shown.contains("hunter2") && !shown.contains("65"), "{shown}");
    }
}
