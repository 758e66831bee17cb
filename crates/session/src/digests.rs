//! What is remembered of accounts of `caching_sha2_password`: the digest by which an answer is checked without the password, as MySQL remembers it
//! itself, and which nodes may not remember it.
//!
//! ```text
//!   a client has shown its password ---shown---> the digest is kept; these nodes are to be logged in to with the password
//!   a node was logged in to, or not ---told----> it remembers the account, or it may not
//!   those that take statements were ---ready---> clients are let in by the digest: sessions before would be refused by the node
//!   a client answers ------------------verify--> its SHA256(password), if the digest is kept and the answer is right
//!                    ------------wants_password> whether it should show its password all the same, for a node that may not remember it
//! ```
//!
//! In memory only, and for accounts of the account table only. A digest goes with the stored hash that it was checked against: a changed password
//! forgets it. It is SHA256(SHA256(password)), which is not enough to log in.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use protocol::auth::caching_sha2::{self, Sha256};
use topology::NodeId;
use topology::account::{Account, Accounts, Proof};
use zeroize::Zeroizing;

/// A client that could be let in by its digest is asked for its password at most once in this time, for an account that some node may not
/// remember: the node may be down for long.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// See the head of this file.
#[derive(Default)]
pub struct Digests {
    kept: HashMap<(String, String), Kept>,
    /// How often each node was connected to anew; see [`topology::routes::Lane::links_anew`].
    links: HashMap<NodeId, u64>,
}

struct Kept {
    /// The account's proofs when it was kept.
    proofs: Vec<Proof>,
    digest: Zeroizing<Sha256>,
    /// The nodes that may not remember it, and those that do.
    forgotten_by: BTreeSet<NodeId>,
    remembered_by: BTreeSet<NodeId>,
    /// Those of them that are being logged in to.
    telling: BTreeSet<NodeId>,
    /// The nodes that took statements have been logged in to since it is kept.
    is_ready: bool,
    /// The password was last shown encrypted, by a client without TLS.
    under_rsa: bool,
    /// When a client was last asked for the password for their sake.
    asked: Option<Instant>,
}

impl Kept {
    /// `node` has forgotten it, or may have. The next client is asked for the password without delay where that is news.
    fn is_forgotten_by(&mut self, node: NodeId) {
        if self.remembered_by.remove(&node) {
            self.asked = None;
        }
        self.forgotten_by.insert(node);
    }
}

/// What logging in to a node with the password has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It remembers the account now; or it cannot be made to, and asking clients again is of no use.
    Settled,
    /// It does not: it has forgotten it, or it could not be reached.
    Forgotten,
}

fn key(account: &Account) -> (String, String) {
    (account.user.clone(), account.host.clone())
}

impl Digests {
    /// A client of `account` has shown its password, and it was right: keeps the digest, and gives those of `nodes` that are to be logged in to.
    /// `under_rsa`: by a client without TLS.
    pub fn shown(
        &mut self,
        accounts: &Accounts,
        account: &Account,
        stage1: &Sha256,
        nodes: BTreeSet<NodeId>,
        under_rsa: bool,
    ) -> BTreeSet<NodeId> {
        if let Some(kept) = self
            .kept
            .get_mut(&key(account))
            .filter(|kept| kept.proofs == account.proofs && *kept.digest == caching_sha2::stage2(stage1))
        {
            kept.under_rsa = under_rsa;
            kept.forgotten_by = &nodes - &kept.remembered_by;
            // Until then each client waits for logins of its own.
            let news = if kept.is_ready { &kept.forgotten_by - &kept.telling } else { nodes };
            kept.telling.extend(&news);
            return news;
        }
        let there = |key: &(String, String)| {
            accounts.rows().iter().any(|row| (&row.user, &row.host) == (&key.0, &key.1))
        };
        if self.kept.len() >= accounts.len() {
            self.kept.retain(|key, _| there(key));
        }
        let asked = self.kept.get(&key(account)).and_then(|kept| kept.asked);
        let kept = Kept {
            proofs: account.proofs.clone(),
            digest: Zeroizing::new(caching_sha2::stage2(stage1)),
            forgotten_by: nodes.clone(),
            remembered_by: BTreeSet::new(),
            telling: nodes.clone(),
            is_ready: false,
            under_rsa,
            asked,
        };
        self.kept.insert(key(account), kept);
        nodes
    }

    /// The nodes that take statements have been logged in to for a client of `account` that has shown its password.
    pub fn ready(&mut self, account: &Account) {
        if let Some(kept) = self.kept.get_mut(&key(account)) {
            kept.is_ready = true;
        }
    }

    /// What a login to `node` as `account` has shown.
    pub fn told(&mut self, account: &Account, node: NodeId, told: Told) {
        let Some(kept) = self.kept.get_mut(&key(account)) else { return };
        kept.telling.remove(&node);
        match told {
            Told::Settled => {
                kept.forgotten_by.remove(&node);
                kept.remembered_by.insert(node);
            }
            Told::Forgotten => kept.is_forgotten_by(node),
        }
    }

    /// `node` was connected to anew so many times: if one of them is news, it may have been restarted, and remember no account.
    pub fn linked_anew(&mut self, node: NodeId, count: u64) {
        if self.links.insert(node, count).is_some_and(|before| before != count) {
            self.kept.values_mut().for_each(|kept| kept.is_forgotten_by(node));
        }
    }

    /// The client's SHA256(password), if clients of `account` are let in by its digest and `answer` is right.
    pub fn verify(&self, account: &Account, salt: &[u8; 20], answer: &[u8]) -> Option<Sha256> {
        let kept =
            self.kept.get(&key(account)).filter(|kept| kept.is_ready && kept.proofs == account.proofs)?;
        caching_sha2::verify(&kept.digest, salt, answer)
    }

    /// Whether clients of `account` are let in by its digest.
    pub fn is_kept(&self, account: &Account) -> bool {
        self.kept.get(&key(account)).is_some_and(|kept| kept.is_ready && kept.proofs == account.proofs)
    }

    /// Whether `stage1` is still that of the account's password.
    pub fn is_of(&self, account: &Account, stage1: &Sha256) -> bool {
        let kept = self.kept.get(&key(account)).filter(|kept| kept.proofs == account.proofs);
        kept.is_some_and(|kept| *kept.digest == caching_sha2::stage2(stage1))
    }

    /// Whether a client of `account` that is right by its digest should show its password, so that all nodes remember the account.
    pub fn wants_password(&mut self, account: &Account, is_private: bool, now: Instant) -> bool {
        let Some(kept) = self.kept.get_mut(&key(account)) else { return false };
        // Those of this account may not be able to encrypt it.
        if !is_private && !kept.under_rsa {
            return false;
        }
        let was_asked = kept.asked.is_some_and(|asked| now.saturating_duration_since(asked) < ASK_AGAIN);
        if kept.forgotten_by.is_empty() || was_asked {
            return false;
        }
        kept.asked = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::auth::stored_sha2::Stored;

    const SALT: [u8; 20] = [7; 20];

    fn account(user: &str) -> Account {
        let proofs = vec![Proof::CachingSha2(Stored::of_nobody())];
        Account { user: user.into(), host: "%".into(), proofs, ..Account::default() }
    }

    fn nodes(numbers: &[u8]) -> BTreeSet<NodeId> {
        numbers.iter().map(|number| NodeId(*number)).collect()
    }

    #[test]
    fn a_right_answer_is_known_until_the_password_changes() {
        let (app, other) = (account("app"), account("other"));
        let accounts = Accounts::new(vec![app.clone(), other.clone()]);
        let stage1 = caching_sha2::stage1(b"secret");
        let reply = caching_sha2::reply(&stage1, &SALT);
        let mut digests = Digests::default();
        assert_eq!(digests.verify(&app, &SALT, &reply), None);
        digests.shown(&accounts, &app, &stage1, nodes(&[0]), false);
        assert_eq!(digests.verify(&app, &SALT, &reply), None, "the node does not know it yet");
        assert_eq!(
            digests.shown(&accounts, &app, &stage1, nodes(&[0]), false),
            nodes(&[0]),
            "the next waits, too"
        );
        digests.ready(&app);
        assert_eq!(digests.verify(&app, &SALT, &reply), Some(stage1));
        assert_eq!(
            digests.shown(&accounts, &app, &stage1, nodes(&[0]), false),
            nodes(&[]),
            "it is on its way"
        );
        assert_eq!(digests.verify(&app, &[8; 20], &reply), None);
        assert_eq!(digests.verify(&other, &SALT, &reply), None);
        assert!(digests.is_of(&app, &stage1) && !digests.is_of(&app, &caching_sha2::stage1(b"Secret")));
        let changed = Account { proofs: vec![Proof::Empty], ..app };
        assert_eq!(digests.verify(&changed, &SALT, &reply), None);
        assert!(!digests.is_of(&changed, &stage1));
    }

    #[test]
    fn a_password_is_wanted_for_nodes_that_have_forgotten_it() {
        let app = account("app");
        let accounts = Accounts::new(vec![app.clone()]);
        let stage1 = caching_sha2::stage1(b"secret");
        let mut digests = Digests::default();
        let start = Instant::now();
        assert!(
            !digests.wants_password(&app, true, start),
            "it is asked for it as long as no digest is kept"
        );
        digests.shown(&accounts, &app, &stage1, nodes(&[0, 1]), false);
        digests.told(&app, NodeId(0), Told::Settled);
        assert!(digests.wants_password(&app, true, start), "1 was not logged in to");
        assert!(!digests.wants_password(&app, true, start + ASK_AGAIN / 2), "one client is enough");
        digests.shown(&accounts, &app, &stage1, nodes(&[0, 1]), false);
        digests.told(&app, NodeId(0), Told::Settled);
        digests.told(&app, NodeId(1), Told::Forgotten);
        assert!(!digests.wants_password(&app, true, start + ASK_AGAIN / 2));
        assert!(digests.wants_password(&app, true, start + ASK_AGAIN));
        digests.told(&app, NodeId(1), Told::Settled);
        assert!(!digests.wants_password(&app, true, start + 3 * ASK_AGAIN));
        digests.told(&app, NodeId(0), Told::Forgotten);
        assert!(digests.wants_password(&app, true, start + 3 * ASK_AGAIN));
    }

    #[test]
    fn a_node_that_was_connected_to_anew_may_have_forgotten_all_accounts() {
        let app = account("app");
        let mut digests = Digests::default();
        let start = Instant::now();
        digests.linked_anew(NodeId(0), 1);
        let stage1 = caching_sha2::stage1(b"secret");
        digests.shown(&Accounts::new(vec![app.clone()]), &app, &stage1, nodes(&[0]), false);
        digests.told(&app, NodeId(0), Told::Settled);
        digests.linked_anew(NodeId(0), 1);
        assert!(!digests.wants_password(&app, true, start));
        for count in [2, 3] {
            digests.linked_anew(NodeId(0), count);
            assert!(digests.wants_password(&app, true, start), "at once, also the second time");
            assert!(!digests.wants_password(&app, true, start), "one client is enough");
            digests.told(&app, NodeId(0), Told::Settled);
        }
    }

    #[test]
    fn no_more_accounts_are_kept_than_there_are() {
        let mut digests = Digests::default();
        for number in 0..100 {
            let only = account(&number.to_string());
            let accounts = Accounts::new(vec![only.clone()]);
            digests.shown(&accounts, &only, &caching_sha2::stage1(b"secret"), nodes(&[]), false);
            assert_eq!(digests.kept.len(), 1);
        }
    }
}
