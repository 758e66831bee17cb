//! Asks a client for the proof of its account, and looks at it.
//!
//! ```text
//!   its plugin, its answer ──> is it the account's plugin? ──no──> AuthSwitch ──> its answer
//!   mysql_native_password, client_ed25519, parsec: the answer is checked
//!   caching_sha2_password: 01 03 where its digest is remembered, else 01 04 ──> its password, under TLS or our RSA key
//!   sha256_password: its password, likewise
//!   mysql_clear_password: its password, under TLS only, which the first node that is logged in to checks
//! ```
//!
//! Who cannot be let in waits the same time for the same words, whatever the reason, and is asked the same questions as others.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use protocol::auth::stored_sha2::Stored;
use protocol::auth::{caching_sha2, clear, native, parsec};
use protocol::handshake::AuthSwitch;
use protocol::packet::put_packet;
use rand::Rng;
use session::login::{self, Channel, Check, Credential, Plugin};
use tokio::io::AsyncWriteExt;
use topology::account::{Accounts, Proof};
use zeroize::Zeroizing;

use super::rsa_key::ENCRYPTED_LEN;
use super::{Client, Done, Unchecked};
use crate::error_reply;
use crate::password_errors::Attempt;
use crate::priming;
use crate::shared::Shared;

/// What a client was asked, and what it answered.
struct Answered {
    plugin: Plugin,
    salt: Vec<u8>,
    answer: Zeroizing<Vec<u8>>,
}

impl Client {
    /// See the head of this file. `plugin`: that of `answer`; `None`: an old client that names none.
    pub(super) async fn verify(
        &mut self,
        user: &str,
        plugin: Option<&str>,
        answer: Zeroizing<Vec<u8>>,
        shared: &Arc<Shared>,
    ) -> Result<Credential, Done> {
        let from = self.peer.ip();
        let Some(accounts) = shared.accounts(self.since + shared.login_timeout()).await else {
            return Err(Done::Refused(error_reply::NO_ACCOUNTS_YET, String::new()));
        };
        let own = plugin.map_or(Some(Plugin::Native), Plugin::of);
        let decoy = shared.decoy(user);
        let passwords = shared.passwords();
        let ways = (shared.default_plugin(), &*passwords);
        let asked = login::plugin_for(&accounts, user, from, own, ways, decoy);
        let is_first = matches!(asked, Plugin::Native | Plugin::CachingSha2 | Plugin::Clear);
        if asked == Plugin::Clear && !self.stream.is_private() {
            return Err(Done::Refused(error_reply::PASSWORD_NEEDS_TLS, String::new()));
        }
        let answered = if own == Some(asked) && is_first {
            Answered { plugin: asked, salt: self.salt.to_vec(), answer: without_nul(answer) }
        } else {
            self.switch(asked, || derivation(user, from, &accounts, shared)).await?
        };
        let mut attempt = Some(self.attempt(user, shared)?);
        let has_answered = !answered.answer.is_empty();
        let checked = match asked {
            Plugin::CachingSha2 if has_answered => {
                self.check_sha2(user, &answered, &accounts, attempt, shared).await?
            }
            Plugin::Sha256 if has_answered => {
                give_back(&mut attempt, shared);
                self.check_shown(user, asked, &answered.answer, &accounts, attempt, shared).await?.checked
            }
            _ => {
                let checked = check_again(user, &answered, &accounts, (from, self.channel()), shared).await;
                if let Check::Accept(Credential::Pam(_)) = &checked {
                    self.unchecked = attempt.map(|attempt| Unchecked { attempt, place: None });
                } else if is_decided(&checked) {
                    give_back(&mut attempt, shared);
                }
                checked
            }
        };
        if let Check::Accept(credential) = &checked {
            self.stored = what_proves(user, from, credential, asked, shared);
        }
        self.decided(user, checked, has_answered, shared)
    }

    /// Before an answer is looked at; refused where too many were wrong.
    fn attempt(&self, user: &str, shared: &Shared) -> Result<Attempt, Done> {
        let from = self.peer.ip();
        shared.password_errors.attempt(user, from, Instant::now()).map_err(|pause| {
            if let Some(kept_back) = shared.refusal.now(Instant::now()) {
                tracing::warn!(
                    "client {from} was refused as {user:?} before its password was looked at: too many were wrong, \
                     proxy.password_errors_max ({kept_back} refusals more were not told)"
                );
            }
            // To be told in whole seconds.
            let detail = format!("{} s", pause.as_secs() + 1);
            Done::Refused(error_reply::TOO_MANY_PASSWORD_ERRORS, detail)
        })
    }

    /// Asks for another plugin's answer. `derivation`: that of the account's key, for parsec.
    async fn switch(
        &mut self,
        plugin: Plugin,
        derivation: impl FnOnce() -> parsec::Derivation,
    ) -> Result<Answered, Done> {
        let (salt, switch) = match plugin {
            Plugin::Ed25519 | Plugin::Parsec => {
                let salt: [u8; 32] = rand::rng().random();
                (salt.to_vec(), AuthSwitch { plugin: plugin.name().into(), data: salt.to_vec() })
            }
            Plugin::Native | Plugin::CachingSha2 | Plugin::Sha256 => {
                (self.salt.to_vec(), AuthSwitch::to(plugin.name(), &self.salt))
            }
            Plugin::Clear => (vec![], AuthSwitch { plugin: plugin.name().into(), data: vec![] }),
        };
        self.say_in_login(&switch.encode()).await?;
        let mut answer = without_nul(self.read_login().await?);
        // A client begins with an empty packet.
        if plugin == Plugin::Parsec && answer.is_empty() {
            self.say_in_login(&derivation().encode()).await?;
            answer = self.read_login().await?;
        }
        Ok(Answered { plugin, salt, answer })
    }

    /// An answer under caching_sha2_password: by the digest, if one is remembered, or by the password that the client then shows. `attempt` is given
    /// back where nothing wrong was looked at: a pool whose account is not remembered yet must not run out of them while it shows its password.
    async fn check_sha2(
        &mut self,
        user: &str,
        answered: &Answered,
        accounts: &Arc<Accounts>,
        mut attempt: Option<Attempt>,
        shared: &Arc<Shared>,
    ) -> Result<Check, Done> {
        let from = self.peer.ip();
        let by_digest = self.by_digest(user, &answered.answer, accounts, shared);
        if !matches!(by_digest, ByDigest::Wrong) {
            give_back(&mut attempt, shared);
        }
        if let ByDigest::Right(checked) = by_digest {
            self.say_in_login(&caching_sha2::FAST).await?;
            return Ok(checked);
        }
        self.say_in_login(&caching_sha2::FULL).await?;
        let shown = self.read_login().await?;
        let plugin = Plugin::CachingSha2;
        let looked = self.check_shown(user, plugin, &shown, accounts, attempt, shared).await?;
        if let Check::Accept(Credential::Sha256(stage1)) = &looked.checked {
            let under_rsa = !self.stream.is_private();
            priming::shown(shared, (user, from), &looked.password, stage1, &looked.compared, under_rsa).await;
        }
        Ok(looked.checked)
    }

    /// A password that was `sent` under TLS, or is to be under our RSA key, is compared with what is stored.
    async fn check_shown(
        &mut self,
        user: &str,
        plugin: Plugin,
        sent: &[u8],
        accounts: &Arc<Accounts>,
        mut attempt: Option<Attempt>,
        shared: &Shared,
    ) -> Result<Looked, Done> {
        let decrypted;
        let shown = if self.stream.is_private() {
            sent
        } else {
            decrypted = self.encrypted_password(plugin, sent, shared).await?;
            &decrypted
        };
        let Some(password) = clear::password_in(shown) else {
            return Err(Done::Refused(error_reply::MALFORMED, "a password without its end".into()));
        };
        let password = Arc::new(Zeroizing::new(password.to_vec()));
        let shown = (plugin, &password);
        let (checked, compared) = self.compare_again(user, shown, accounts, &mut attempt, shared).await?;
        if is_decided(&checked) {
            give_back(&mut attempt, shared);
        }
        Ok(Looked { password, checked, compared })
    }

    /// The password, with its NUL, of a client without TLS, which encrypts it with our key. It asks for that first (`sent`), unless it has it
    /// already: from the login, when this is a change of user, or from a file.
    async fn encrypted_password(
        &mut self,
        plugin: Plugin,
        sent: &[u8],
        shared: &Shared,
    ) -> Result<Zeroizing<Vec<u8>>, Done> {
        let asks = match plugin {
            Plugin::Sha256 => sent == clear::SHA256_KEY_WANTED,
            _ => sent == caching_sha2::KEY_WANTED,
        };
        if !asks && sent.len() != ENCRYPTED_LEN {
            return Err(Done::Refused(error_reply::PASSWORD_NEEDS_TLS, String::new()));
        }
        let key =
            shared.rsa_key().await.map_err(|why| Done::Refused(error_reply::PASSWORD_NEEDS_TLS, why))?;
        let encrypted = if asks {
            self.say_in_login(&key.shown()).await?;
            self.read_login().await?
        } else {
            Zeroizing::new(sent.to_vec())
        };
        let salt = self.salt;
        let Ok(_permit) = shared.password_checks.acquire().await else { return Err(Done::Gone) };
        let decrypted = tokio::task::spawn_blocking(move || key.password(&encrypted, &salt)).await;
        let Ok(Some(password)) = decrypted else {
            return Err(Done::Refused(
                error_reply::MALFORMED,
                "a password that is not under the proxy's own key, which is another after each start".into(),
            ));
        };
        Ok(password)
    }

    fn by_digest(&self, user: &str, answer: &[u8], accounts: &Accounts, shared: &Shared) -> ByDigest {
        let Some(account) = accounts.find(user, self.peer.ip()) else { return ByDigest::Unknown };
        let mut digests = shared.digests();
        if !digests.is_kept(account) {
            return ByDigest::Unknown;
        }
        let Some(stage1) = digests.verify(account, &self.salt, answer) else { return ByDigest::Wrong };
        match digests.wants_password(account, self.stream.is_private(), Instant::now()) {
            true => ByDigest::Unknown,
            false => ByDigest::Right(login::remembered(account, stage1, self.channel())),
        }
    }

    /// As [`check_again`], of a password, which is compared only with what it was not compared with yet. Returns with what it was compared last.
    async fn compare_again(
        &self,
        user: &str,
        shown: Shown<'_>,
        accounts: &Arc<Accounts>,
        attempt: &mut Option<Attempt>,
        shared: &Shared,
    ) -> Result<(Check, Vec<Stored>), Done> {
        let from = self.peer.ip();
        let mut checked = self.compare(user, shown, accounts.clone(), attempt, shared).await?;
        let mut compared = login::stored(accounts, user, from, shown.0);
        if is_decided(&checked) {
            return Ok((checked, compared));
        }
        let mut tables = shared.read_again(user);
        while !is_decided(&checked)
            && let Some(accounts) = tables.next().await
        {
            let stored = login::stored(&accounts, user, from, shown.0);
            if stored != compared {
                compared = stored;
                checked = self.compare(user, shown, accounts, attempt, shared).await?;
            }
        }
        Ok((checked, compared))
    }

    /// Compares a password with what is stored, on a thread that nobody waits for, and not many at once: only then it is an attempt.
    async fn compare(
        &self,
        user: &str,
        (plugin, password): Shown<'_>,
        accounts: Arc<Accounts>,
        attempt: &mut Option<Attempt>,
        shared: &Shared,
    ) -> Result<Check, Done> {
        let from = self.peer.ip();
        let Ok(_permit) = shared.password_checks.acquire().await else { return Ok(Check::Denied) };
        if attempt.is_none() {
            *attempt = Some(self.attempt(user, shared)?);
        }
        // Another client may have shown it while this one waited.
        if plugin == Plugin::CachingSha2
            && let Some(account) = accounts.find(user, from)
        {
            let stage1 = Zeroizing::new(caching_sha2::stage1(password));
            if shared.digests().is_of(account, &stage1) {
                return Ok(login::remembered(account, *stage1, self.channel()));
            }
        }
        let (user, password, channel) = (user.to_owned(), password.clone(), self.channel());
        let comparing = tokio::task::spawn_blocking(move || {
            login::check_password(&accounts, &user, from, plugin, &password, channel)
        });
        Ok(comparing.await.unwrap_or(Check::Denied))
    }

    /// What its connection has of what an account may demand.
    fn channel(&self) -> Channel {
        match self.stream.has_peer_certificate() {
            None => Channel::Plain,
            Some(false) => Channel::Tls,
            Some(true) => Channel::Certificate,
        }
    }

    /// Lets the client in, or says why not.
    fn decided(
        &self,
        user: &str,
        checked: Check,
        has_answered: bool,
        shared: &Shared,
    ) -> Result<Credential, Done> {
        let from = self.peer.ip();
        let (reply, detail, why) = match checked {
            Check::Accept(credential) => return Ok(credential),
            Check::NotServed(why) => (error_reply::NOT_SERVED, why.to_owned(), why.to_owned()),
            other => {
                let why = match other {
                    Check::Demands(what) => format!("the account demands {what}"),
                    Check::Unsupported { what } => format!("the account proves itself by {what:?}"),
                    Check::Unknown => "no account of this name may come from there".into(),
                    _ => "the password is wrong".into(),
                };
                (error_reply::ACCESS_DENIED, error_reply::denied(user, from, has_answered), why)
            }
        };
        if let Some(kept_back) = shared.refusal.now(Instant::now()) {
            tracing::warn!(
                "client {from} was refused as {user:?}: {why} ({kept_back} refusals more were not told)"
            );
        }
        Err(Done::Refused(reply, detail))
    }

    async fn say_in_login(&mut self, payload: &[u8]) -> Result<(), Done> {
        let mut out = vec![];
        put_packet(&mut out, &mut self.login_seq, payload);
        Ok(self.stream.write_all(&out).await?)
    }
}

/// A password, and the plugin that it was shown under.
type Shown<'a> = (Plugin, &'a Arc<Zeroizing<Vec<u8>>>);

/// A password that was shown, what came of it, and with what it was compared last.
struct Looked {
    password: Arc<Zeroizing<Vec<u8>>>,
    checked: Check,
    compared: Vec<Stored>,
}

/// How the key of an account of parsec is derived, or would be if there were such an account.
fn derivation(user: &str, from: IpAddr, accounts: &Accounts, shared: &Shared) -> parsec::Derivation {
    let of = |proof: &Proof| match proof {
        Proof::Parsec(stored) => Some(stored.derivation),
        _ => None,
    };
    let account = accounts.find(user, from);
    let derivation = account.and_then(|account| account.proofs.iter().find_map(of));
    derivation.unwrap_or_else(|| parsec::Derivation::of_nobody(shared.decoys(user)))
}

/// What the server stores of the password, by which a certificate is proved ([`protocol::certificate_proof`]).
fn what_proves(
    user: &str,
    from: IpAddr,
    credential: &Credential,
    plugin: Plugin,
    shared: &Shared,
) -> Option<Vec<u8>> {
    if let Credential::Stage1(stage1) = credential {
        return Some(native::stage2(stage1).to_vec());
    }
    let lane_table = shared.door.lane_table();
    lane_table.accounts.find(user, from)?.proofs.iter().find_map(|proof| match (plugin, proof) {
        (Plugin::Ed25519, Proof::Ed25519(key)) => Some(key.to_vec()),
        (Plugin::Parsec, Proof::Parsec(stored)) => Some(stored.in_memory()),
        _ => None,
    })
}

/// What an answer is worth without the password.
enum ByDigest {
    /// The digest says so.
    Right(Check),
    /// The digest says that it is wrong: the account's password may be another one by now.
    Wrong,
    /// No digest is remembered, or the password itself is wanted.
    Unknown,
}

fn give_back(attempt: &mut Option<Attempt>, shared: &Shared) {
    if let Some(attempt) = attempt.take() {
        shared.password_errors.was_right(attempt, Instant::now());
    }
}

/// An empty password may come as a single NUL.
fn without_nul(mut answer: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    if **answer == [0] {
        answer.clear();
    }
    answer
}

fn is_decided(checked: &Check) -> bool {
    matches!(checked, Check::Accept(_) | Check::NotServed(_) | Check::Demands(_))
}

/// Checks an answer: at once, and, where it is wrong, as long as the account, or its password, may be new.
async fn check_again(
    user: &str,
    answered: &Answered,
    accounts: &Accounts,
    (from, channel): (IpAddr, Channel),
    shared: &Shared,
) -> Check {
    let passwords = shared.passwords();
    let look = |accounts: &Accounts| {
        let Answered { plugin, salt, answer } = answered;
        if *plugin == Plugin::Clear {
            let password = if answer.is_empty() { Some(&b""[..]) } else { clear::password_in(answer) };
            let password = password.and_then(|password| std::str::from_utf8(password).ok());
            let unchecked = |password| login::unchecked(accounts, user, from, password, channel);
            return password.map_or(Check::Denied, unchecked);
        }
        let checked = login::check(accounts, user, from, *plugin, salt, answer, channel);
        login::configured(checked, accounts.find(user, from), &passwords)
    };
    // Before a node has looked at the password, what the account demands is not told sooner than that there is none.
    let is_final = |checked: &Check| {
        is_decided(checked) && !(answered.plugin == Plugin::Clear && matches!(checked, Check::Demands(_)))
    };
    let mut checked = look(accounts);
    if is_final(&checked) {
        return checked;
    }
    let mut tables = shared.read_again(user);
    while !is_final(&checked)
        && let Some(accounts) = tables.next().await
    {
        checked = look(&accounts);
    }
    checked
}
