//! The passwords that the configuration has for accounts which prove themselves by a signature (`ed25519`, `parsec`): nothing that a node would take
//! follows from a client's answer, so the proxy logs in with these.
//!
//! ```text
//!   a client's signature is right ---fitting---> the password of that name from which the stored key follows; or why there is none
//!   a login to a node             ---for_node--> the same; where none fits, the node says what it thinks of the first
//! ```
//!
//! A name may have several: accounts of one name for several hosts, or the password before and after a change.

use std::fmt;

use protocol::auth::ed25519;
use protocol::auth::password::Password;
use topology::account::{Account, Proof};

/// Why a client is not let in though its signature is right.
pub const NONE: &str = "it authenticates by a signature for this connection only (ed25519, parsec), from which no login to a database node follows: give \
                        the proxy its password in a [[proxy.account]] of the configuration, or give it caching_sha2_password or mysql_native_password as \
                        well (IDENTIFIED VIA ed25519 ... OR mysql_native_password ...)";
/// The same, where the configuration has another password.
pub const OTHER: &str = "the password that the configuration has for it (proxy.account) is another one than it has in the database: change that \
                         there, and reload";

/// See the head of this file. Debug shows none.
#[derive(Default)]
pub struct Passwords(Vec<(String, Password)>);

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passwords({})", self.0.len())
    }
}

impl<P: Into<Password>> FromIterator<(String, P)> for Passwords {
    fn from_iter<I: IntoIterator<Item = (String, P)>>(all: I) -> Self {
        Self(all.into_iter().map(|(user, password)| (user, password.into())).collect())
    }
}

impl Passwords {
    fn of<'a>(&'a self, user: &str) -> impl Iterator<Item = &'a Password> {
        self.0.iter().filter(move |(name, _)| name == user).map(|(_, password)| password)
    }

    /// Whether there is one for an account of this name.
    pub fn has(&self, user: &str) -> bool {
        self.of(user).next().is_some()
    }

    /// The password of `account`. Takes a millisecond for each of its name the first time, where the account has `parsec`.
    ///
    /// # Errors
    /// Why there is none, in words for its client.
    pub fn fitting(&self, account: &Account) -> Result<&Password, &'static str> {
        let why = if self.has(&account.user) { OTHER } else { NONE };
        self.of(&account.user).find(|password| fits(account, password)).ok_or(why)
    }

    /// With what a node is logged in to as `user`, whose account may have changed since its client was let in, or be gone.
    pub fn for_node(&self, user: &str, account: Option<&Account>) -> Option<&Password> {
        let fitting = account.and_then(|account| self.fitting(account).ok());
        fitting.or_else(|| self.of(user).next())
    }
}

/// Whether the account's key follows from the password.
fn fits(account: &Account, password: &Password) -> bool {
    account.proofs.iter().any(|proof| match proof {
        Proof::Ed25519(key) => ed25519::public_key(password.as_bytes()) == *key,
        Proof::Parsec(stored) => stored.is_of(&password.key(stored.derivation)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passwords(all: &[(&str, &str)]) -> Passwords {
        all.iter().map(|(user, password)| ((*user).to_owned(), (*password).to_owned())).collect()
    }

    fn account(password: &[u8]) -> Account {
        let proofs = vec![Proof::Ed25519(ed25519::public_key(password))];
        Account { user: "app".into(), host: "%".into(), proofs, ..Account::default() }
    }

    #[test]
    fn of_several_passwords_the_one_that_fits_is_used() {
        let both = passwords(&[("app", "before"), ("other", "x"), ("app", "after")]);
        for right in ["before", "after"] {
            let account = account(right.as_bytes());
            assert_eq!(both.fitting(&account), Ok(&right.into()));
            assert_eq!(both.for_node("app", Some(&account)), Some(&right.into()));
        }
        assert_eq!(both.fitting(&account(b"x")), Err(OTHER), "another account's");
        assert_eq!(both.for_node("app", None), Some(&"before".into()));
        assert_eq!(passwords(&[("other", "x")]).fitting(&account(b"x")), Err(NONE));
        assert_eq!(passwords(&[]).for_node("app", Some(&account(b"x"))), None);
        assert!(!format!("{both:?}").contains("after"));
    }

    #[test]
    fn parsec_is_compared_by_its_salt() {
        let stored = "P0:hzl8y5LwfaCUM2Qh37NzvtSj:+jbn8DqgECNC12jUjSai2ZXNKU69hTFOMJohCaRCCnE";
        let proofs = vec![Proof::Parsec(protocol::auth::parsec::Stored::parse(stored).unwrap())];
        let account = Account { proofs, ..account(b"") };
        assert_eq!(passwords(&[("app", "secret")]).fitting(&account), Ok(&"secret".into()));
        assert_eq!(passwords(&[("app", "Secret")]).fitting(&account), Err(OTHER));
    }
}
