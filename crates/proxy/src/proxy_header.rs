//! The PROXY header, by which a balancer before the proxy says where a client comes from.
//!
//! It is the first that comes on a connection, before the server's greeting. Whoever sends it decides which accounts' host patterns the
//! client fits, so it is taken of listed addresses only; and those always send it. Source: HAProxy's `doc/proxy-protocol.txt`.

use std::io;
use std::net::SocketAddr;

use ppp::{v1, v2};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How version 2 begins, and version 1.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const WORD: &[u8; 6] = b"PROXY ";
/// The longest header of version 1, its line end included.
const LINE_BYTES_MAX: usize = 107;
/// Behind the signature: version and command, family and protocol, the length of the rest.
const HEAD_LEN: usize = 16;
/// Addresses and what a balancer says besides (a name, a certificate's), in bytes.
const REST_BYTES_MAX: usize = 4096;

/// Whether what a client says where it should log in begins as a header does.
pub fn is_header(bytes: &[u8]) -> bool {
    bytes.starts_with(&WORD[..4]) || bytes.starts_with(&SIGNATURE[..4])
}

/// Reads the header. `None`: the balancer speaks for itself, or does not know whom it speaks for. An error of kind
/// [`io::ErrorKind::InvalidData`]: there is none.
///
/// # Errors
/// See above, and the stream's own.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut bytes = vec![0; SIGNATURE.len()];
    stream.read_exact(&mut bytes).await?;
    if bytes == SIGNATURE { read_2(stream, bytes).await } else { read_1(stream, bytes).await }
}

async fn read_1(stream: &mut (impl AsyncRead + Unpin), mut line: Vec<u8>) -> io::Result<Option<SocketAddr>> {
    // By bytes: what is behind the line is the client's.
    while line.starts_with(WORD) && !line.ends_with(b"\r\n") && line.len() < LINE_BYTES_MAX {
        line.push(stream.read_u8().await?);
    }
    let header = v1::Header::try_from(&line[..]).map_err(malformed)?;
    Ok(match header.addresses {
        v1::Addresses::Unknown => None,
        v1::Addresses::Tcp4(both) => Some((both.source_address, both.source_port).into()),
        v1::Addresses::Tcp6(both) => Some((both.source_address, both.source_port).into()),
    })
}

async fn read_2(stream: &mut (impl AsyncRead + Unpin), mut bytes: Vec<u8>) -> io::Result<Option<SocketAddr>> {
    bytes.resize(HEAD_LEN, 0);
    stream.read_exact(&mut bytes[SIGNATURE.len()..]).await?;
    let rest = usize::from(u16::from_be_bytes([bytes[HEAD_LEN - 2], bytes[HEAD_LEN - 1]]));
    if rest > REST_BYTES_MAX {
        return Err(malformed(format!("{rest} bytes of addresses and more")));
    }
    bytes.resize(HEAD_LEN + rest, 0);
    stream.read_exact(&mut bytes[HEAD_LEN..]).await?;
    let header = v2::Header::try_from(&bytes[..]).map_err(malformed)?;
    Ok(match header.addresses {
        _ if header.command == v2::Command::Local => None,
        v2::Addresses::IPv4(both) => Some((both.source_address, both.source_port).into()),
        v2::Addresses::IPv6(both) => Some((both.source_address, both.source_port).into()),
        v2::Addresses::Unspecified | v2::Addresses::Unix(_) => None,
    })
}

fn malformed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
