//! A door before a node: it relays bytes between the proxy and the node, and can be told to break the link at a packet of an answer.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use fixture::packet::read_packet;
use protocol::packet::HEADER_LEN;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// No packet of the answer is the last.
const NEVER: usize = usize::MAX;

/// See the head of this file.
pub struct Door {
    pub address: SocketAddr,
    trap: Arc<Mutex<Option<Trap>>>,
}

/// Breaks the link of whoever sends such a request, when so many packets of its answer have passed; with 0, when the first packet has
/// come and is not passed on: the node has run the statement then. Behind the last packet at the latest, when the next request comes.
#[derive(Clone)]
pub struct Trap {
    /// How the request's payload begins.
    pub request: Vec<u8>,
    /// This many such requests are let through before it.
    pub spared: usize,
    pub packets: usize,
    pub sprung: Arc<AtomicBool>,
}

impl Door {
    /// A door before the node at this address.
    pub async fn before(node: SocketAddr) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let trap: Arc<Mutex<Option<Trap>>> = Arc::default();
        let set = trap.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let trap = set.clone();
                tokio::spawn(async move {
                    let far = TcpStream::connect(node).await.unwrap();
                    let _ = (near.set_nodelay(true), far.set_nodelay(true));
                    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
                    let left = AtomicUsize::new(NEVER);
                    // Whichever ends first drops both sides of the link.
                    tokio::select! {
                        () = requests(from_near, to_far, &trap, &left) => {}
                        () = answers(from_far, to_near, &left) => {}
                    }
                });
            }
        });
        Door { address, trap }
    }

    /// Sets a trap in place of the one before.
    pub fn set(&self, trap: Option<Trap>) {
        *self.trap.lock().unwrap() = trap;
    }
}

/// Header and payload of the next packet.
async fn packet(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let (head, payload) = read_packet(from).await.ok()?;
    Some([&head.to_bytes()[..], &payload].concat())
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    trap: &Mutex<Option<Trap>>,
    left: &AtomicUsize,
) {
    while let Some(bytes) = packet(&mut from).await {
        if bytes[HEADER_LEN - 1] == 0 {
            if left.load(SeqCst) != NEVER {
                // The answer had fewer packets: the link breaks behind it, and the node never gets this.
                return;
            }
            let mut trap = trap.lock().unwrap();
            let springs = |set: &mut Trap| {
                let is_such = bytes[HEADER_LEN..].starts_with(&set.request);
                let is_it = is_such && set.spared == 0;
                set.spared = set.spared.saturating_sub(usize::from(is_such));
                is_it
            };
            if let Some(set) = trap.take_if(springs) {
                set.sprung.store(true, SeqCst);
                left.store(set.packets, SeqCst);
            }
        }
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, left: &AtomicUsize) {
    while let Some(bytes) = packet(&mut from).await {
        let before = left.load(SeqCst);
        if before == 0 || to.write_all(&bytes).await.is_err() {
            return;
        }
        if before != NEVER {
            left.store(before - 1, SeqCst);
            if before == 1 {
                return;
            }
        }
    }
}
