//! A door before a node: it relays bytes between the proxy and the node, and can be told to break the link at a packet of an answer. What is under TLS
//! or compressed passes as it is.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use fixture::packet::read_packet;
use protocol::capability::Caps;
use protocol::ok::OK;
use protocol::packet::{Fields, HEADER_LEN};
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
                    let form = Form::default();
                    // Whichever ends first drops both sides of the link.
                    tokio::select! {
                        () = requests(from_near, to_far, &trap, &left, &form) => {}
                        () = answers(from_far, to_near, &left, &form) => {}
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

/// Whether what passes are packets that can be read.
#[derive(Default)]
struct Form {
    /// The login has asked for compressed packets.
    is_to_be_compressed: AtomicBool,
    /// From here on they cannot.
    is_hidden: AtomicBool,
}

/// Header and payload of the next packet; what cannot be read is passed on to its end.
async fn packet(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, form: &Form) -> Option<Vec<u8>> {
    from.peek(&mut [0]).await.ok()?;
    if form.is_hidden.load(SeqCst) {
        tokio::io::copy(from, to).await.ok()?;
        return None;
    }
    let (head, payload) = read_packet(from).await.ok()?;
    Some([&head.to_bytes()[..], &payload].concat())
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    trap: &Mutex<Option<Trap>>,
    left: &AtomicUsize,
    form: &Form,
) {
    let mut is_login = true;
    while let Some(bytes) = packet(&mut from, &mut to, form).await {
        if std::mem::take(&mut is_login) {
            let caps = Caps(u64::from(Fields::new(&bytes[HEADER_LEN..]).u32().expect("a login request")));
            form.is_hidden.store(caps.has(Caps::SSL), SeqCst);
            form.is_to_be_compressed.store(caps.has(Caps::COMPRESS) || caps.has(Caps::ZSTD), SeqCst);
        }
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

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, left: &AtomicUsize, form: &Form) {
    while let Some(bytes) = packet(&mut from, &mut to, form).await {
        if form.is_to_be_compressed.load(SeqCst) && bytes[HEADER_LEN] == OK {
            form.is_hidden.store(true, SeqCst);
        }
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
