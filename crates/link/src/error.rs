//! Why a connection could not be made or used: one case for each way in which callers react.

use std::io;
use std::time::Duration;

use protocol::ok::ErrPacket;
use protocol::packet::Malformed;

/// An error of a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// ECONNREFUSED: the host answers, and no process listens on the port.
    #[error("connection refused: the host is there, and nothing listens on this port")]
    Refused,
    /// No process listens on the server's unix socket: the file does not exist, or is left from an earlier process.
    #[error("nobody listens at this socket: the server is not running, or its socket is elsewhere")]
    NoSocket,
    /// The peer, or its kernel, reset the connection.
    #[error("the peer reset the connection")]
    Reset,
    /// The peer closed the connection in good order before its answer was complete.
    #[error("the peer closed the connection")]
    Closed,
    /// No answer in time.
    #[error("no answer within {} ms", after.as_millis())]
    TimedOut {
        /// The deadline that was given.
        after: Duration,
    },
    /// The host cannot be reached: its name does not resolve, or there is no route.
    #[error("cannot reach the host: {0}")]
    Unreachable(String),
    /// The server answered the login or the statement with an error packet. The message is the server's own.
    #[error("the server refused with error {errno} ({}): {message}", String::from_utf8_lossy(state))]
    Rejected {
        /// The server's number; see [`protocol::errno`].
        errno: u16,
        /// SQLSTATE; `HY000` when the server sent none.
        state: [u8; 5],
        /// The server's sentence.
        message: String,
    },
    /// The answer is not the MySQL protocol, or exceeds a limit.
    #[error("the peer does not follow the MySQL protocol: {0}")]
    Protocol(String),
    /// The server has asked for a proof that cannot be given here; it has refused the login, or ended it.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// TLS was wanted, and there is none: the server offers none, or does not prove who it is.
    #[error("there is no TLS to this server: {0}")]
    Tls(String),
    /// This host lacks a resource: a file descriptor, a port, memory or a permission. Nothing is known about the peer.
    #[error("{0}: the fault is this host's, not the peer's")]
    Local(String),
}

/// Why a server's question, who logs in, was not answered. The fault is neither the server's nor the network's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The account uses an authentication plugin that is not spoken here.
    #[error(
        "the account authenticates with {plugin}, which is not supported: give it caching_sha2_password, ed25519 or \
         mysql_native_password, or use another account"
    )]
    NotSpoken {
        /// The plugin's name.
        plugin: String,
    },
    /// The server wants the password itself, and others could read it on the way.
    #[error(
        "the server asks for the password itself ({plugin}), which is sent only under TLS or over the server's unix socket: use TLS to \
         this server, or an account of another plugin"
    )]
    Withheld {
        /// The plugin's name.
        plugin: String,
    },
    /// A digest of the password is known, from a client's login, or the password may be used for certain plugins only ([`crate::Secret`]).
    #[error(
        "the server asks for {plugin}, and what is known of the account's password is a digest of another plugin, or is to be used for another \
         plugin only"
    )]
    ForAnother {
        /// The plugin's name.
        plugin: String,
    },
    /// The server has forgotten the account's digest (`caching_sha2_password`), as it does at a restart, and only the digest is known here.
    #[error(
        "the server does not remember this account's password (caching_sha2_password forgets it at a restart, at FLUSH PRIVILEGES and when it \
         is changed), and only its digest is known: a login with the password, under TLS, makes it known again"
    )]
    Forgotten,
}

impl LinkError {
    pub(crate) fn of_err_packet(payload: &[u8]) -> LinkError {
        match ErrPacket::parse(payload) {
            Ok(err) => LinkError::Rejected {
                errno: err.code,
                state: err.state.try_into().unwrap_or(*b"HY000"),
                message: String::from_utf8_lossy(err.message).into_owned(),
            },
            Err(malformed) => malformed.into(),
        }
    }

    /// `deadline` is what a timeout of the kernel's own is reported as.
    pub(crate) fn of_io(error: &io::Error, deadline: Duration) -> LinkError {
        if let Some(local_error) = local_resource_error(error) {
            return LinkError::Local(local_error.to_owned());
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => LinkError::Refused,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected => LinkError::Reset,
            io::ErrorKind::UnexpectedEof => LinkError::Closed,
            io::ErrorKind::TimedOut => LinkError::TimedOut { after: deadline },
            _ => LinkError::Unreachable(error.to_string()),
        }
    }
}

/// What this host lacks, if that is why a socket could not be created or used: a sentence that says what to do.
///
/// The numbers are Linux's (errno-base.h, errno.h): the standard library has no names for most of them.
pub fn local_resource_error(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        24 => Some(
            "this process has no file descriptors left (EMFILE): raise its limit, LimitNOFILE= or `ulimit -n`",
        ),
        23 => Some("this host has no file descriptors left (ENFILE): raise fs.file-max"),
        99 => Some(
            "this host has no local port or address left for a connection there (EADDRNOTAVAIL): widen \
             net.ipv4.ip_local_port_range",
        ),
        12 => Some("this host has no memory left for a connection (ENOMEM)"),
        105 => Some("this host has no buffer space left for a connection (ENOBUFS)"),
        13 => Some(
            "this process is not allowed to make this connection (EACCES): see the host's own firewall or policy",
        ),
        _ => None,
    }
}

impl From<Malformed> for LinkError {
    fn from(malformed: Malformed) -> LinkError {
        LinkError::Protocol(malformed.what.to_owned())
    }
}

/// `None` where the server has rejected the statement.
pub fn unless_rejected<T>(answer: Result<T, LinkError>) -> Result<Option<T>, LinkError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(LinkError::Rejected { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_lack_is_not_the_peers_fault() {
        let of = |number| LinkError::of_io(&io::Error::from_raw_os_error(number), Duration::ZERO);
        for number in [12, 13, 23, 24, 99, 105] {
            assert!(matches!(of(number), LinkError::Local(_)), "{number}: {:?}", of(number));
        }
        assert_eq!(of(111), LinkError::Refused);
        assert_eq!(of(104), LinkError::Reset);
        assert!(matches!(of(113), LinkError::Unreachable(_)), "no route to the host");
        assert!(matches!(of(101), LinkError::Unreachable(_)), "no route to its network");
    }
}
