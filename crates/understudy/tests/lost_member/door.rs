//! A way to a node that can turn into a firewall that resets: what stands is reset, and whatever is new.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Door {
    pub address: SocketAddr,
    resets: watch::Sender<bool>,
}

impl Door {
    /// Opens it at `address`, before the node at `to`.
    pub async fn open(address: SocketAddr, to: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (resets, watched) = watch::channel(false);
        tokio::spawn(async move {
            // Ends with the door: nobody can change it any more then.
            while watched.has_changed().is_ok() {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(carry(client, to, watched.clone()));
            }
        });
        Self { address, resets }
    }

    /// From now on everything through it is reset, or nothing any more.
    pub fn set_resets(&self, resets: bool) {
        self.resets.send_replace(resets);
    }
}

async fn carry(mut client: TcpStream, to: SocketAddr, mut resets: watch::Receiver<bool>) {
    tokio::select! {
        biased;
        _ = resets.wait_for(|resets| *resets) => {}
        () = async {
            if let Ok(mut node) = TcpStream::connect(to).await {
                // However it ends, both ends see it.
                let _ = copy_bidirectional(&mut client, &mut node).await;
            }
        } => return,
    }
    // Closed with nothing waited for: a reset.
    let _ = socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO));
}
