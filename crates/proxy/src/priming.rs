//! Logs in to the nodes with a password that a client has shown, so that they remember the account (`caching_sha2_password`): from then on they let the
//! proxy in by the digest, also after a failover. [`session::digests`] decides which nodes; the password is overwritten when the logins have ended.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use link::{Link, LinkError, Login, Secret, Unanswered};
use protocol::auth::caching_sha2::Sha256;
use protocol::auth::stored_sha2::Stored;
use protocol::errno;
use session::digests::{Digests, Told};
use session::login::{self, Credential, Plugin};
use topology::NodeId;
use topology::account::{Account, Proof};
use zeroize::Zeroizing;

use crate::backend::proxied;
use crate::lane::Lane;
use crate::shared::Shared;

/// A client of `user` has shown its password: it is remembered, and each node is logged in to with it. Returns when those that are open have answered, at
/// the latest after the time for a connection. `compared`: the stored hashes that it was right by.
pub async fn shown(
    shared: &Arc<Shared>,
    (user, from): (&str, IpAddr),
    password: &Zeroizing<Vec<u8>>,
    stage1: &Sha256,
    compared: &[Stored],
    under_rsa: bool,
) {
    let lane_table = shared.door.lane_table();
    // The table may have been read again meanwhile, with another password.
    if login::stored(&lane_table.accounts, user, from, Plugin::CachingSha2) != compared {
        return;
    }
    let Some(account) = lane_table.accounts.find(user, from) else { return };
    let lanes = || lane_table.lanes.iter().filter(|lane| !lane.is_removed);
    let nodes = lanes().map(|lane| lane.node).collect();
    let nodes = shared.digests().shown(&lane_table.accounts, account, stage1, nodes, under_rsa);
    // The server takes a password as bytes, a login here as text: MySQL's clients send UTF-8.
    let Ok(password) = std::str::from_utf8(password) else { return shared.digests().ready(account) };
    let mut open = vec![];
    for lane in lanes().filter(|lane| nodes.contains(&lane.node)) {
        let (tls, proxy_header) = shared.way_to_nodes();
        let login = Login {
            tls,
            proxied: proxied(proxy_header, (from, 0).into()),
            ..Login::new(user, Secret::Password(password.into()))
        };
        let logging_in = log_in(shared.clone(), lane.clone(), account.clone(), login);
        // They end, whatever becomes of the client.
        let logging_in = tokio::spawn(logging_in);
        if lane.is_open() {
            open.push(logging_in);
        }
    }
    for logging_in in open {
        let _ = logging_in.await;
    }
    shared.digests().ready(account);
}

async fn log_in(shared: Arc<Shared>, lane: Arc<Lane>, account: Account, login: Login) {
    let told = match Link::connect(&lane.address, &login, shared.connect_timeout()).await {
        Ok(link) => {
            link.quit();
            Told::Settled
        }
        Err(error) => {
            if let Some(kept_back) = shared.refusal.now(Instant::now()) {
                tracing::warn!(
                    "{} could not be made to remember the account {:?}, so that it may refuse its sessions: {error} \
                     ({kept_back} refusals more were not told)",
                    lane.name,
                    account.user
                );
            }
            match error {
                LinkError::Unanswered(Unanswered::Withheld { .. })
                | LinkError::Rejected { errno: errno::ACCESS_DENIED_ERROR, .. } => Told::Settled,
                _ => Told::Forgotten,
            }
        }
    };
    shared.digests().told(&account, lane.node, told);
}

impl Shared {
    /// What is remembered of accounts, here and by the nodes.
    pub fn digests(&self) -> std::sync::MutexGuard<'_, Digests> {
        let mut digests = self.digests.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for lane in &self.door.lane_table().lanes {
            digests.linked_anew(lane.node, lane.links_anew());
        }
        digests
    }

    /// What a login of a session to a node has shown.
    pub fn node_told(&self, user: &str, from: IpAddr, node: NodeId, told: Told) {
        if let Some(account) = self.door.lane_table().accounts.find(user, from) {
            self.digests().told(account, node, told);
        }
    }

    /// Whether a client that has logged in with this would be let in by the account as it is now.
    pub fn is_right(&self, account: &Account, credential: &Credential) -> bool {
        account.proofs.iter().any(|proof| match (proof, credential) {
            (Proof::Empty, Credential::Empty) => true,
            (Proof::Native(stage2), Credential::Stage1(stage1)) => {
                protocol::auth::native::stage2(stage1) == *stage2
            }
            (Proof::CachingSha2(_), Credential::Sha256(stage1)) => self.digests().is_of(account, stage1),
            (Proof::Sha256(stored), Credential::Password(password)) => stored.is_of(password.as_bytes()),
            (Proof::Clear, Credential::Pam(_)) => true,
            (Proof::Ed25519(_) | Proof::Parsec(_), Credential::Configured) => {
                self.passwords().fitting(account).is_ok()
            }
            _ => false,
        })
    }
}
