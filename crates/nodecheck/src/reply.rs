//! An answer on standard output, which may be a client's socket (xinetd, systemd with `Accept=yes`).
//!
//! A client's socket is standard input as well. One that is standard output alone belongs to somebody else, such as the journal: what is
//! written there is meant for it, and it is not ours to shut.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use socket2::SockRef;

/// How long a client may take to have its answer.
const LINGER_TIME_MAX: Duration = Duration::from_millis(100);

/// Writes it. Closing a socket whose request nobody has read sends a reset, which may overtake the answer: so the request is read
/// away until the client closes, or has had its time.
pub fn give(answer: &[u8]) {
    let mut out = std::io::stdout().lock();
    // A reader that has gone needs no answer, and the exit code tells the rest.
    if out.write_all(answer).and_then(|()| out.flush()).is_err() {
        return;
    }
    let socket = SockRef::from(&out);
    if !is_client(&out) || socket.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let until = Instant::now() + LINGER_TIME_MAX;
    let mut piece = [0; 512];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match (&*socket).read(&mut piece) {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
}

/// Says something to the person who runs this. Not into a client's socket: under xinetd standard error is one, too.
pub fn remark(text: &str) {
    let error = std::io::stderr();
    if !is_client(&error) {
        // Whoever closed it does not want to know.
        let _ = writeln!(error.lock(), "{text}");
    }
}

/// Whether this is the socket of a client: the one that standard input is.
fn is_client(stream: &impl AsFd) -> bool {
    let file =
        |stream: &dyn AsFd| rustix::fs::fstat(stream.as_fd()).ok().map(|file| (file.st_dev, file.st_ino));
    SockRef::from(stream).r#type().is_ok() && file(stream) == file(&std::io::stdin())
}
