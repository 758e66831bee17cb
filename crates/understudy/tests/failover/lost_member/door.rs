//! A way to a node that can turn against what goes through it: a firewall that resets what stands and whatever is new, or one that ends a
//! connection at certain words.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Default)]
struct Rule {
    resets: bool,
    /// Not taken from a client, unless empty.
    words: &'static str,
}

pub struct Door {
    pub address: SocketAddr,
    rule: watch::Sender<Rule>,
}

impl Door {
    /// Opens it at `address`, before the node at `to`.
    pub async fn open(address: SocketAddr, to: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (rule, watched) = watch::channel(Rule::default());
        tokio::spawn(async move {
            // Ends with the door: nobody can change it any more then.
            while watched.has_changed().is_ok() {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(carry(client, to, watched.clone()));
            }
        });
        Self { address, rule }
    }

    /// From now on everything through it is reset, or nothing any more.
    pub fn set_resets(&self, resets: bool) {
        self.rule.send_modify(|rule| rule.resets = resets);
    }

    /// From now on a connection ends when a client says `words`; an empty text lets everything pass.
    pub fn cut_at(&self, words: &'static str) {
        self.rule.send_modify(|rule| rule.words = words);
    }
}

async fn carry(mut client: TcpStream, to: SocketAddr, rule: watch::Receiver<Rule>) {
    let mut resets = rule.clone();
    tokio::select! {
        biased;
        _ = resets.wait_for(|rule| rule.resets) => {}
        () = pass(&mut client, to, rule) => return,
    }
    // Closed with nothing waited for: a reset.
    let _ = socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO));
}

/// Carries both ways until one end is over, or what a client says is not taken.
async fn pass(client: &mut TcpStream, to: SocketAddr, rule: watch::Receiver<Rule>) {
    let Ok(mut node) = TcpStream::connect(to).await else { return };
    let (mut said, mut answered) = (vec![0; 65536], vec![0; 65536]);
    loop {
        let done = tokio::select! {
            read = client.read(&mut said) => match read {
                Ok(0) | Err(_) => return,
                Ok(len) => {
                    let words = rule.borrow().words;
                    if !words.is_empty() && String::from_utf8_lossy(&said[..len]).contains(words) {
                        return;
                    }
                    node.write_all(&said[..len]).await
                }
            },
            read = node.read(&mut answered) => match read {
                Ok(0) | Err(_) => return,
                Ok(len) => client.write_all(&answered[..len]).await,
            },
        };
        if done.is_err() {
            return;
        }
    }
}
