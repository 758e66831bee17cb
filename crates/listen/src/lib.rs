//! Opens listening sockets: lists of addresses, IPv4 and IPv6, with errors that say what to do. Also limits of the number of accepted
//! connections, and a rate limit for log lines.

pub mod log_limit;
pub mod slots;

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted. The kernel takes no more than `net.core.somaxconn`, which is 4096 by its own default; one
/// connection too many waits a whole second, until its SYN is sent again.
const BACKLOG: i32 = 4096;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The name in front of the port is unknown.
    #[error(
        "cannot listen on {address}: {why}; write it as ADDRESS:PORT, for example 127.0.0.1:6080 or [::1]:6080"
    )]
    Name {
        /// As it was written.
        address: String,
        /// The resolver's reason.
        why: String,
    },
    /// The port is taken.
    #[error(
        "cannot listen on {0}: the port is in use by another program (see who with: ss -ltnp 'sport = :{port}'); \
         stop it, or set another port",
        port = .0.port()
    )]
    InUse(SocketAddr),
    /// No such address on this machine.
    #[error("cannot listen on {0}: this machine has no such address (see: ip address)")]
    NotOurs(SocketAddr),
    /// A port below 1024 without the right to it.
    #[error("cannot listen on {0}: no permission; a port below 1024 needs root or CAP_NET_BIND_SERVICE")]
    Forbidden(SocketAddr),
    /// The machine has no IPv6, or no IPv4.
    #[error(
        "cannot listen on {0}: this machine does not have {family} switched on; listen on {other}:{port} instead",
        family = if .0.is_ipv6() { "IPv6" } else { "IPv4" },
        other = in_other_family(.0),
        port = .0.port()
    )]
    Family(SocketAddr),
    /// Another error of the system.
    #[error("cannot listen on {address}: {source}")]
    Other {
        /// Which address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
}

impl ListenError {
    /// The machine does not have this address, or not its whole family.
    fn is_of_the_machine(&self) -> bool {
        matches!(self, Self::NotOurs(_) | Self::Family(_))
    }
}

/// The corresponding address of the other family: a loopback address stays one.
fn in_other_family(address: &SocketAddr) -> &'static str {
    match (address.is_ipv6(), address.ip().is_loopback()) {
        (true, false) => "0.0.0.0",
        (true, true) => "127.0.0.1",
        (false, false) => "[::]",
        (false, true) => "[::1]",
    }
}

/// Whether only programs of this machine reach a listening address (`host:port`). `None` for a name that cannot be looked up, which is an error
/// once it is listened on.
pub fn is_local(address: &str) -> Option<bool> {
    let mut found = address.to_socket_addrs().ok()?;
    Some(found.all(|address| address.ip().to_canonical().is_loopback()))
}

/// Opens every address of `list` (`host:port`), or none: the first that fails ends it.
///
/// `[::]` also takes IPv4, unless the list has an IPv4 address of the same port too. A name with several addresses stands for those
/// that this machine has: `localhost` is `::1`, too, where there is no IPv6. The sockets do not block.
pub fn open(list: &[String]) -> Result<Vec<TcpListener>, ListenError> {
    let mut known: Vec<SocketAddr> = Vec::new();
    let mut entries: Vec<Vec<SocketAddr>> = Vec::new();
    for address in list {
        let name = |why: String| ListenError::Name { address: address.clone(), why };
        let found = address.to_socket_addrs().map_err(|e| name(e.to_string()))?;
        let mut entry = Vec::new();
        for one in found {
            if !known.contains(&one) {
                known.push(one);
                entry.push(one);
            }
        }
        entries.push(entry);
    }
    let also_v4 = |port| known.iter().any(|a| a.is_ipv4() && a.port() == port);
    let mut open = Vec::new();
    for entry in entries {
        let (mut opened, mut missing) = (Vec::new(), None);
        for address in entry {
            match open_one(address, also_v4(address.port())) {
                Ok(listener) => opened.push(listener),
                Err(error) if error.is_of_the_machine() => missing = missing.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match missing {
            Some(error) if opened.is_empty() => return Err(error),
            _ => open.append(&mut opened),
        }
    }
    Ok(open)
}

fn open_one(address: SocketAddr, only_v6: bool) -> Result<TcpListener, ListenError> {
    let listener = || -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        // The sockets that it accepts inherit this (Linux), for which each of them would need a call of its own. Answers are written at
        // once, and are not to wait for the client's acknowledgement of an earlier one.
        socket.set_tcp_nodelay(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(only_v6 || !address.ip().is_unspecified())?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    listener().map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse(address),
        io::ErrorKind::AddrNotAvailable => ListenError::NotOurs(address),
        io::ErrorKind::PermissionDenied => ListenError::Forbidden(address),
        // EAFNOSUPPORT, which the standard library has no name for.
        _ if source.raw_os_error() == Some(97) => ListenError::Family(address),
        _ => ListenError::Other { address, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_is_one_in_every_notation() {
        for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(is_local(local), Some(true), "{local}");
        }
        for open in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"] {
            assert_eq!(is_local(open), Some(false), "{open}");
        }
        assert_eq!(is_local("no port"), None);
    }

    #[test]
    fn a_port_in_use_is_one_sentence_with_the_way_out() {
        let first = open(&["127.0.0.1:0".to_owned()]).unwrap();
        let taken = first[0].local_addr().unwrap();
        let said = open(&[taken.to_string()]).unwrap_err().to_string();
        assert!(said.contains(&taken.to_string()) && said.contains("in use"), "{said}");
        assert!(said.contains(&format!("sport = :{}", taken.port())), "{said}");
    }

    #[test]
    fn all_of_ipv6_stands_beside_ipv4_of_the_same_port() {
        for v4 in ["0.0.0.0", "127.0.0.1"] {
            let port = fixture::free_port();
            match open(&[format!("{v4}:{port}"), format!("[::]:{port}")]) {
                Ok(listeners) => assert_eq!(listeners.len(), 2),
                // The machine has no IPv6.
                Err(e) => assert!(matches!(e, ListenError::Family(_) | ListenError::NotOurs(_)), "{e}"),
            }
        }
    }

    #[test]
    fn a_missing_family_is_told_with_what_to_listen_on_instead() {
        let said = |address: &str| open(&[address.to_owned()]).unwrap_err().to_string();
        fixture::without_family(fixture::Family::Ipv6, || {
            for (address, instead) in [("[::]:9200", "0.0.0.0:9200"), ("[::1]:9200", "127.0.0.1:9200")] {
                let expect = format!(
                    "cannot listen on {address}: this machine does not have IPv6 switched on; listen on {instead} instead"
                );
                assert_eq!(said(address), expect);
            }
            let listeners = open(&["localhost:0".to_owned()]).unwrap();
            assert_eq!(listeners.len(), 1, "a name stands for what is there");
            assert!(listeners[0].local_addr().unwrap().is_ipv4());
        });
        fixture::without_family(fixture::Family::Ipv4, || {
            for (address, instead) in [("0.0.0.0:9200", "[::]:9200"), ("127.0.0.1:9200", "[::1]:9200")] {
                assert!(
                    said(address)
                        .ends_with(&format!("does not have IPv4 switched on; listen on {instead} instead"))
                );
            }
        });
    }

    #[test]
    fn whoever_is_accepted_is_not_kept_waiting() {
        let listener = &open(&["127.0.0.1:0".to_owned()]).unwrap()[0];
        listener.set_nonblocking(false).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(listener.accept().unwrap().0.nodelay().unwrap());
    }

    #[test]
    fn an_address_without_a_port_is_named() {
        let said = open(&["localhost".to_owned()]).unwrap_err().to_string();
        assert!(said.contains("cannot listen on localhost") && said.contains("ADDRESS:PORT"), "{said}");
    }
}
