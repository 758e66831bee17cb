//! Writes an answer to a client that may read slowly, and may still be sending.

use std::io;
use std::time::Duration;

use link::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// How long a client may take to read its answer.
pub const WRITE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long unread input of a client is read and discarded after its answer.
const LINGER_TIME_MAX: Duration = Duration::from_millis(500);

pub async fn write(stream: &mut Transport, bytes: &[u8]) -> io::Result<()> {
    timeout(WRITE_TIME_MAX, stream.write_all(bytes)).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Closing a socket with unread bytes sends a reset, which may overtake the answer: what still arrives is therefore read and discarded.
pub async fn linger(stream: &mut Transport) {
    let drained = async {
        stream.shutdown().await?;
        let mut piece = [0; 512];
        while stream.read(&mut piece).await? > 0 {}
        io::Result::Ok(())
    };
    // A client that is still sending after this time is closed anyway.
    let _ = timeout(LINGER_TIME_MAX, drained).await;
}
