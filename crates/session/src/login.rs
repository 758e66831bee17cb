//! Verifies a client's login with the account table that the manager read from the database.
//!
//! ```text
//!   LoginRequest ──> check ──┬─> Accept (the client's SHA1(password) follows from its answer, and suffices to log in to a node)
//!                            ├─> AskAgain (another plugin was used: ask for mysql_native_password) ──> check
//!                            └─> Deny (with the server's own error)
//! ```

use std::net::IpAddr;

use protocol::auth::native::{self, Sha1};
use topology::account::{Accounts, Proof};

/// The only authentication plugin that this version supports.
pub const NATIVE: &str = "mysql_native_password";

/// How the proxy logs in to a node in the client's name.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The account has no password.
    Empty,
    /// SHA1(password), recovered from the client's own answer.
    Stage1(Sha1),
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credential::Empty => "Empty",
            Credential::Stage1(_) => "Stage1(hidden)",
        })
    }
}

/// The result of checking the client's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The login is correct.
    Accept(Credential),
    /// It answered for another plugin; ask for [`NATIVE`].
    AskAgain,
    /// No such account from that address. It may be new, so the table is read again.
    Unknown,
    /// The password is wrong, or the account is locked.
    Denied,
    /// The account uses a plugin that this version does not support.
    Unsupported {
        /// The plugin's name.
        plugin: String,
    },
}

/// Checks `answer`, which was given under `plugin` (`None`: an old client that names none) for `salt`.
pub fn check(
    accounts: &Accounts,
    user: &str,
    from: IpAddr,
    salt: &[u8; 20],
    plugin: Option<&str>,
    answer: &[u8],
) -> Check {
    if plugin.is_some_and(|plugin| plugin != NATIVE) {
        return Check::AskAgain;
    }
    let Some(account) = accounts.find(user, from) else { return Check::Unknown };
    if account.locked {
        return Check::Denied;
    }
    match &account.proof {
        Proof::Empty if answer.is_empty() => Check::Accept(Credential::Empty),
        Proof::Empty => Check::Denied,
        Proof::Native(stored) => match native::verify(stored, salt, answer) {
            Some(stage1) => Check::Accept(Credential::Stage1(stage1)),
            None => Check::Denied,
        },
        Proof::Other(plugin) => Check::Unsupported { plugin: plugin.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::account::Account;

    #[test]
    fn the_clients_own_answer_gives_what_a_node_needs() {
        let stage1 = native::stage1(b"secret");
        let row = |user: &str, proof, locked| Account { user: user.into(), host: "%".into(), proof, locked };
        let accounts = Accounts::new(vec![
            row("app", Proof::Native(native::stage2(&stage1)), false),
            row("open", Proof::Empty, false),
            row("shut", Proof::Empty, true),
            row("new", Proof::Other("caching_sha2_password".into()), false),
        ]);
        let salt = *b"abcdefghijklmnopqrst";
        let from: IpAddr = "10.0.0.1".parse().unwrap();
        let ask = |user, plugin, answer: &[u8]| check(&accounts, user, from, &salt, plugin, answer);
        let good = native::reply(&stage1, &salt);
        assert_eq!(ask("app", Some(NATIVE), &good), Check::Accept(Credential::Stage1(stage1)));
        assert_eq!(ask("app", None, &good), Check::Accept(Credential::Stage1(stage1)));
        assert_eq!(ask("app", Some("caching_sha2_password"), &[1; 32]), Check::AskAgain);
        assert_eq!(ask("app", Some(NATIVE), &[7; 20]), Check::Denied);
        assert_eq!(ask("app", Some(NATIVE), b""), Check::Denied);
        assert_eq!(ask("open", Some(NATIVE), b""), Check::Accept(Credential::Empty));
        assert_eq!(ask("open", Some(NATIVE), &good), Check::Denied);
        assert_eq!(ask("shut", Some(NATIVE), b""), Check::Denied);
        assert_eq!(ask("who", Some(NATIVE), b""), Check::Unknown);
        assert_eq!(
            ask("new", Some(NATIVE), b""),
            Check::Unsupported { plugin: "caching_sha2_password".into() }
        );
        assert!(!format!("{:?}", Credential::Stage1(stage1)).contains("1,"), "secrets are not printed");
    }
}
