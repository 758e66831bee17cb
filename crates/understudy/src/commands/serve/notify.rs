//! Telling systemd how far we are (Type=notify): one datagram to the socket it names, and silence when it names none.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// All listeners stand.
pub fn ready() {
    say("READY=1");
}

/// The end has begun.
pub fn stopping() {
    say("STOPPING=1");
}

fn say(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(e) = sent {
        tracing::warn!("could not tell {state} to NOTIFY_SOCKET: {e}");
    }
}
