//! A TCP relay in front of a database that can delay responses or cut every connection: faults that a real server cannot be made to have.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// How the relay treats connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Forwards everything.
    Pass,
    /// Forwards everything; data from the database arrives later by this time.
    Delay(Duration),
    /// Closes every connection, new ones too.
    Cut,
}

/// A running relay. Dropping it stops it and closes its connections.
pub struct Relay {
    /// Its port on 127.0.0.1.
    pub port: u16,
    manner: watch::Sender<Manner>,
    task: AbortHandle,
}

impl Relay {
    /// Starts to forward connections to `database`.
    pub async fn start(database: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no free port")?;
        let port = listener.local_addr()?.port();
        let (manner, seen) = watch::channel(Manner::Pass);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, database, seen.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, manner, task: task.abort_handle() })
    }

    /// Changes the treatment from now on.
    pub fn set(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection, until either side closes it or it is cut. I/O errors are ignored here: both ends notice them.
async fn pass(client: TcpStream, database: SocketAddr, mut manner: watch::Receiver<Manner>) {
    if *manner.borrow() == Manner::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(database).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let seen = manner.clone();
    let answers = async {
        let mut piece = vec![0; 16 * 1024];
        loop {
            let count = from_server.read(&mut piece).await?;
            if count == 0 {
                return std::io::Result::Ok(());
            }
            let manner = *seen.borrow();
            if let Manner::Delay(late) = manner {
                tokio::time::sleep(late).await;
            }
            to_client.write_all(&piece[..count]).await?;
        }
    };
    let questions = tokio::io::copy(&mut from_client, &mut to_server);
    tokio::select! {
        _ = answers => {}
        _ = questions => {}
        _ = manner.wait_for(|manner| *manner == Manner::Cut) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn it_passes_delays_and_cuts() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay::start(echo.local_addr().unwrap()).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = echo.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        let mut stream = TcpStream::connect(("127.0.0.1", relay.port)).await.unwrap();
        let mut byte = [0];
        stream.write_all(b"a").await.unwrap();
        stream.read_exact(&mut byte).await.unwrap();
        relay.set(Manner::Delay(Duration::from_millis(80)));
        let began = Instant::now();
        stream.write_all(b"b").await.unwrap();
        stream.read_exact(&mut byte).await.unwrap();
        assert!(byte == *b"b" && began.elapsed() >= Duration::from_millis(80));
        relay.set(Manner::Cut);
        assert_eq!(stream.read(&mut byte).await.unwrap(), 0);
        let mut refused = TcpStream::connect(("127.0.0.1", relay.port)).await.unwrap();
        assert_eq!(refused.read(&mut byte).await.unwrap_or(0), 0);
    }
}
