//! Verifies a client's login with the account table that the manager read from the database.
//!
//! ```text
//!   name, address --plugin_for--> the plugin that the client is asked for
//!   its answer    --check-------> Accept, with what suffices to log in to a node as this client
//!                                 or why not
//!   its password  --check_password, slow--> the same (sha256_password; caching_sha2_password, where the digest is not remembered: digests.rs)
//!                 --unchecked-----> Accept for now, where only the node can check it
//! ```

use std::fmt;
use std::net::IpAddr;

use protocol::auth::native::Sha1;
use protocol::auth::password::Password;
use protocol::auth::stored_sha2::Stored;
use protocol::auth::{caching_sha2, clear, ed25519, native, parsec};
use topology::account::{Account, Accounts, Proof, Requirement};
use zeroize::Zeroizing;

use crate::configured::Passwords;

/// How the proxy logs in to a node in the client's name.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The account has no password.
    Empty,
    /// SHA1(password), recovered from the client's own answer.
    Stage1(Zeroizing<Sha1>),
    /// SHA256(password), likewise: for `caching_sha2_password`.
    Sha256(Zeroizing<caching_sha2::Sha256>),
    /// The password itself, as the client has shown it (`sha256_password`).
    Password(Password),
    /// The same, which only a node can check (`pam`).
    Pam(Password),
    /// The client has signed: the password is that of the configuration ([`crate::configured`]), as it is when a node is logged in to.
    Configured,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Empty => "Empty",
            Credential::Stage1(_) => "Stage1(hidden)",
            Credential::Sha256(_) => "Sha256(hidden)",
            Credential::Password(_) => "Password(hidden)",
            Credential::Pam(_) => "Pam(hidden)",
            Credential::Configured => "Configured",
        })
    }
}

/// An authentication plugin that a client can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// `mysql_native_password`
    Native,
    /// `caching_sha2_password`
    CachingSha2,
    /// MariaDB's `client_ed25519`
    Ed25519,
    /// MariaDB's `parsec`
    Parsec,
    /// `sha256_password`
    Sha256,
    /// `mysql_clear_password`
    Clear,
}

impl Plugin {
    /// By its name on the wire.
    pub fn of(name: &str) -> Option<Plugin> {
        use Plugin::{CachingSha2, Clear, Ed25519, Native, Parsec, Sha256};
        [Native, CachingSha2, Ed25519, Parsec, Sha256, Clear].into_iter().find(|plugin| plugin.name() == name)
    }

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::Native => native::PLUGIN,
            Plugin::CachingSha2 => caching_sha2::PLUGIN,
            Plugin::Ed25519 => ed25519::PLUGIN,
            Plugin::Parsec => parsec::PLUGIN,
            Plugin::Sha256 => clear::SHA256,
            Plugin::Clear => clear::PLUGIN,
        }
    }

    /// The one that servers greet with, of those that have a challenge of 20 bytes.
    pub fn of_greeting(name: &str) -> Plugin {
        if name == caching_sha2::PLUGIN { Plugin::CachingSha2 } else { Plugin::Native }
    }
}

/// The plugin that a client is asked for: its own, if the account has that, else the account's first; one that the proxy can log in to a node with, if
/// there is one. A name that no account has is asked for what some
/// account would be, always the same by `decoy`, so that the question does not tell which names exist.
pub fn plugin_for(
    accounts: &Accounts,
    user: &str,
    from: IpAddr,
    own: Option<Plugin>,
    (default, passwords): (Plugin, &Passwords),
    decoy: u64,
) -> Plugin {
    let decoy = || {
        let rows = accounts.rows();
        rows.get((decoy % rows.len().max(1) as u64) as usize)
    };
    let Some(account) = accounts.find(user, from).or_else(decoy) else { return default };
    let spoken = || {
        account.proofs.iter().filter_map(|proof| match proof {
            Proof::Native(_) => Some(Plugin::Native),
            Proof::CachingSha2(_) => Some(Plugin::CachingSha2),
            Proof::Ed25519(_) => Some(Plugin::Ed25519),
            Proof::Parsec(_) => Some(Plugin::Parsec),
            Proof::Sha256(_) => Some(Plugin::Sha256),
            Proof::Clear => Some(Plugin::Clear),
            Proof::Empty => Some(default),
            Proof::Other(_) => None,
        })
    };
    // One that signs leads nowhere without a password of the configuration.
    let is_of_use =
        |plugin: &Plugin| !matches!(plugin, Plugin::Ed25519 | Plugin::Parsec) || passwords.has(&account.user);
    let of_use = || spoken().filter(is_of_use);
    let found = of_use().find(|plugin| Some(*plugin) == own).or_else(|| of_use().next());
    found.or_else(|| spoken().next()).unwrap_or(default)
}

/// The result of checking the client's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The login is correct.
    Accept(Credential),
    /// The answer is right, and the client cannot be let in all the same: why, in words for it.
    NotServed(&'static str),
    /// The answer is right, and the account demands more of a connection than this one has: what.
    Demands(&'static str),
    /// No such account from that address. It may be new, so the table is read again.
    Unknown,
    /// The password is wrong.
    Denied,
    /// The account proves itself only by what is not supported.
    Unsupported {
        /// What that is.
        what: String,
    },
}

const LOCKED: &str = "it is locked (ALTER USER ... ACCOUNT UNLOCK)";

/// What a client's connection has of what an account may demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Anybody can listen.
    Plain,
    /// TLS.
    Tls,
    /// The same, and the client has shown a certificate that is trusted.
    Certificate,
}

const CERTIFICATE: &str =
    "a certificate from the client (REQUIRE X509), of an authority in listen.tls_ca_file";
/// What no client can give through the proxy: the node would look at the proxy's certificate.
const PARTICULAR: &str = "it requires a certificate of a certain issuer or subject, or a cipher, and a database node sees the proxy's, not the client's \
                          (REQUIRE X509 or REQUIRE SSL can be had)";

/// Checks `answer`, which was given under `plugin` for the challenge `salt`. One of a plugin that compares the password itself is right here only for an
/// account without one: see [`check_password`] and [`crate::digests`].
pub fn check(
    accounts: &Accounts,
    user: &str,
    from: IpAddr,
    plugin: Plugin,
    salt: &[u8],
    answer: &[u8],
    channel: Channel,
) -> Check {
    let Some(account) = accounts.find(user, from) else { return Check::Unknown };
    let mut checks = account.proofs.iter().map(|proof| match (plugin, proof) {
        (_, Proof::Empty) if answer.is_empty() => Some(Check::Accept(Credential::Empty)),
        (Plugin::Native, Proof::Native(stored)) => {
            let stage1 = native::verify(stored, salt.try_into().ok()?, answer)?;
            Some(Check::Accept(Credential::Stage1(Zeroizing::new(stage1))))
        }
        (Plugin::Ed25519, Proof::Ed25519(key)) => ed25519::verify(key, salt.try_into().ok()?, answer)
            .then_some(Check::Accept(Credential::Configured)),
        (Plugin::Parsec, Proof::Parsec(stored)) => {
            stored.verify(salt.try_into().ok()?, answer).then_some(Check::Accept(Credential::Configured))
        }
        _ => None,
    });
    match checks.find_map(|check| check) {
        Some(right) => allowed(account, channel, right),
        None => wrong(account),
    }
}

/// As [`check`] has found it, unless it lacks a password of the configuration that fits the account. May take milliseconds.
pub fn configured(checked: Check, account: Option<&Account>, passwords: &Passwords) -> Check {
    match (checked, account) {
        (Check::Accept(Credential::Configured), Some(account)) => match passwords.fitting(account) {
            Ok(_) => Check::Accept(Credential::Configured),
            Err(why) => Check::NotServed(why),
        },
        (checked, _) => checked,
    }
}

/// A password that only the node can check: it decides about a locked account, too. Nothing that is said here follows from the password.
pub fn unchecked(accounts: &Accounts, user: &str, from: IpAddr, password: &str, channel: Channel) -> Check {
    match accounts.find(user, from) {
        None => Check::Unknown,
        Some(account) if account.proofs.contains(&Proof::Clear) => match account.requires {
            Requirement::Certificate if channel < Channel::Certificate => Check::Demands(CERTIFICATE),
            Requirement::Particular => Check::Demands(PARTICULAR),
            _ => Check::Accept(Credential::Pam(password.into())),
        },
        Some(account) => wrong(account),
    }
}

/// What a password that a client has shown under `plugin` is compared with.
pub fn stored(accounts: &Accounts, user: &str, from: IpAddr, plugin: Plugin) -> Vec<Stored> {
    let account = accounts.find(user, from).into_iter();
    account.flat_map(|account| stored_of(account, plugin)).cloned().collect()
}

fn stored_of(account: &Account, plugin: Plugin) -> impl Iterator<Item = &Stored> {
    account.proofs.iter().filter_map(move |proof| match (plugin, proof) {
        (Plugin::CachingSha2, Proof::CachingSha2(stored)) | (Plugin::Sha256, Proof::Sha256(stored)) => {
            Some(stored)
        }
        _ => None,
    })
}

/// Checks a password that a client has shown under `plugin`. Takes milliseconds: not for a thread that others wait for. A name that does not exist, or has no such
/// password, takes as long as one that has.
pub fn check_password(
    accounts: &Accounts,
    user: &str,
    from: IpAddr,
    plugin: Plugin,
    password: &[u8],
    channel: Channel,
) -> Check {
    let stored = stored(accounts, user, from, plugin);
    if stored.is_empty() {
        let other = accounts.rows().iter().flat_map(|row| stored_of(row, plugin)).next().cloned();
        let _ = std::hint::black_box(other.unwrap_or_else(Stored::of_nobody).is_of(password));
    }
    let is_right = stored.iter().any(|stored| stored.is_of(password));
    match accounts.find(user, from) {
        None => Check::Unknown,
        Some(account) if is_right && plugin == Plugin::Sha256 => allowed(account, channel, shown(password)),
        Some(account) if is_right => allowed(account, channel, Check::Accept(sha256(password))),
        Some(account) => wrong(account),
    }
}

/// An answer that is right by a digest which is remembered.
pub fn remembered(account: &Account, stage1: caching_sha2::Sha256, channel: Channel) -> Check {
    allowed(account, channel, Check::Accept(Credential::Sha256(Zeroizing::new(stage1))))
}

/// What a node is to be shown as well. The server takes a password as bytes, a login to a node as text: clients send UTF-8.
fn shown(password: &[u8]) -> Check {
    match std::str::from_utf8(password) {
        Ok(password) => Check::Accept(Credential::Password(password.into())),
        Err(_) => Check::NotServed("its password is not in UTF-8"),
    }
}

fn sha256(password: &[u8]) -> Credential {
    Credential::Sha256(Zeroizing::new(caching_sha2::stage1(password)))
}

/// `right`, unless the account may not be used, or not over that channel.
fn allowed(account: &Account, channel: Channel, right: Check) -> Check {
    match account.requires {
        _ if account.locked => Check::NotServed(LOCKED),
        Requirement::Tls if channel < Channel::Tls => Check::Demands("TLS (REQUIRE SSL)"),
        Requirement::Certificate if channel < Channel::Certificate => Check::Demands(CERTIFICATE),
        Requirement::Particular => Check::NotServed(PARTICULAR),
        Requirement::Nothing | Requirement::Tls | Requirement::Certificate => right,
    }
}

fn wrong(account: &Account) -> Check {
    let others = account.proofs.iter().map(|proof| match proof {
        Proof::Other(what) => Some(what.as_str()),
        _ => None,
    });
    match others.collect::<Option<Vec<_>>>() {
        Some(all) => Check::Unsupported { what: all.join(", ") },
        None => Check::Denied,
    }
}

#[cfg(test)]
mod tests;
