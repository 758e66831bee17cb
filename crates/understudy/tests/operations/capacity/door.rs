//! A way to a node that can fall silent: what was accepted stays open on both sides, and nothing comes through any more, as when a cable is cut.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Door {
    pub address: SocketAddr,
    is_silent: watch::Sender<bool>,
}

impl Door {
    /// Opens it on loopback, before the node at `to`.
    pub async fn open(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_silent, watched) = watch::channel(false);
        tokio::spawn(async move {
            // Ends with the door: nobody can change it any more then.
            while watched.has_changed().is_ok() {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(carry(client, to, watched.clone()));
            }
        });
        Self { address, is_silent }
    }

    /// From now on nothing passes.
    pub fn fall_silent(&self) {
        self.is_silent.send_replace(true);
    }
}

async fn carry(mut client: TcpStream, to: SocketAddr, mut is_silent: watch::Receiver<bool>) {
    let Ok(mut node) = TcpStream::connect(to).await else { return };
    tokio::select! {
        _ = is_silent.wait_for(|is_silent| *is_silent) => {}
        _ = copy_bidirectional(&mut client, &mut node) => return,
    }
    // Both sockets stay open for as long as the door is there.
    while is_silent.changed().await.is_ok() {}
}
