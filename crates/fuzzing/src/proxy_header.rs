//! The PROXY header that a balancer begins a connection with.
//!
//! Input: the bytes of a connection. Checked: the address that was read is the one that another header of it says, nothing is taken from behind the
//! header, and what is taken for a header begins as one.

use std::task::{Context, Poll, Waker};

use link::ProxyHeader;
use proxy::proxy_header::{is_header, read};

pub(crate) fn holds(bytes: &[u8]) {
    let Some((client, taken)) = told(bytes) else { return };
    assert!(is_header(bytes) && taken <= bytes.len());
    assert_eq!(told(&bytes[..taken]), Some((client, taken)), "what is behind it does not count");
    assert!(told(&bytes[..taken - 1]).is_none(), "and all of it is needed");
    let Some(client) = client else { return };
    for version in [ProxyHeader::V1, ProxyHeader::V2] {
        let written = version.of(client, client).expect("both are of one family");
        assert_eq!(told(&written), Some((Some(client), written.len())));
    }
}

/// Whose connection it is, and how many bytes say so; `None`: there is no header.
fn told(bytes: &[u8]) -> Option<(Option<std::net::SocketAddr>, usize)> {
    let mut left = bytes;
    let mut context = Context::from_waker(Waker::noop());
    let read = std::pin::pin!(read(&mut left)).poll(&mut context);
    let Poll::Ready(read) = read else { panic!("bytes in memory are there at once") };
    read.ok().map(|client| (client, bytes.len() - left.len()))
}
