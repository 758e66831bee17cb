//! The client accounts, as learned from the database: enough to verify a client's answer and to log in to a node in its name, and never a
//! password.

use std::net::IpAddr;

use protocol::auth::ed25519::PublicKey;
use protocol::auth::parsec;
use protocol::auth::stored_sha2::Stored;

/// One way in which an account may authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// mysql_native_password with this SHA1(SHA1(password)), as the server stores it (`*HEX`).
    Native([u8; 20]),
    /// caching_sha2_password with this hash.
    CachingSha2(Stored),
    /// MariaDB's ed25519 with this public key.
    Ed25519(PublicKey),
    /// MariaDB's parsec.
    Parsec(parsec::Stored),
    /// sha256_password with this hash.
    Sha256(Stored),
    /// The password itself, which only the server can check (MariaDB's pam).
    Clear,
    /// mysql_native_password, caching_sha2_password or sha256_password with no password.
    Empty,
    /// What the proxy does not support; in words, for the log.
    Other(String),
}

/// What an account demands of a connection (`REQUIRE ...`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requirement {
    /// Nothing.
    #[default]
    Nothing,
    /// TLS (`SSL`).
    Tls,
    /// A certificate that is trusted (`X509`).
    Certificate,
    /// A certificate with a certain issuer or subject, or a certain cipher (`ISSUER`, `SUBJECT`, `CIPHER`).
    Particular,
}

/// One row of the server's account table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// User name; empty for the anonymous account.
    pub user: String,
    /// Host pattern as the server keeps it: `%`, `10.0.0.%`, `localhost`, `10.0.0.0/255.255.255.0`.
    pub host: String,
    /// How it may authenticate: MariaDB's accounts may have several plugins, MySQL's several passwords. Each of them is enough.
    pub proofs: Vec<Proof>,
    /// `ACCOUNT LOCK`.
    pub locked: bool,
    /// What it demands of a connection.
    pub requires: Requirement,
}

/// All accounts, most specific host first (the order in which MariaDB itself looks).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    rows: Vec<Account>,
}

impl Accounts {
    /// Keeps `rows` in the server's own order of search: hosts without wildcards first, then the longer pattern first.
    pub fn new(mut rows: Vec<Account>) -> Self {
        rows.sort_by_key(|row| {
            let wild = row.host.find(['%', '_']);
            (wild.is_some(), usize::MAX - wild.unwrap_or(row.host.len()), row.user.is_empty())
        });
        Self { rows }
    }

    /// How many accounts are known.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True before the first successful read of the account table.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All of them, in the order in which they are looked through.
    pub fn rows(&self) -> &[Account] {
        &self.rows
    }

    /// The account that matches `user` connecting from `from`. `localhost` matches any loopback address, since nobody connects through a
    /// proxy by unix socket.
    pub fn find(&self, user: &str, from: IpAddr) -> Option<&Account> {
        self.rows.iter().find(|row| row.user == user && host_matches(&row.host, from))
    }
}

fn host_matches(pattern: &str, from: IpAddr) -> bool {
    let from = from.to_canonical();
    if pattern.eq_ignore_ascii_case("localhost") {
        return from.is_loopback();
    }
    if let (Some((net, mask)), IpAddr::V4(addr)) = (pattern.split_once('/'), from)
        && let (Ok(net), Ok(mask)) = (net.parse::<std::net::Ipv4Addr>(), mask.parse::<std::net::Ipv4Addr>())
    {
        return addr.to_bits() & mask.to_bits() == net.to_bits();
    }
    like(pattern.as_bytes(), from.to_string().as_bytes())
}

/// SQL LIKE with `%` and `_`, without escapes (host patterns have none). Linear: remembers only the last `%`.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'%') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p).is_some_and(|&c| c == b'_' || c.eq_ignore_ascii_case(&text[t])) {
            p += 1;
            t += 1;
        } else if let Some((sp, st)) = star {
            star = Some((sp, st + 1));
            p = sp + 1;
            t = st + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(user: &str, host: &str) -> Account {
        Account { user: user.into(), host: host.into(), proofs: vec![Proof::Empty], ..Account::default() }
    }

    #[test]
    fn the_most_specific_host_speaks_first() {
        let all = Accounts::new(vec![
            account("app", "%"),
            account("app", "10.0.%"),
            account("app", "10.0.0.7"),
            account("root", "localhost"),
            account("net", "10.77.0.0/255.255.255.0"),
        ]);
        let host = |user, ip: &str| all.find(user, ip.parse().unwrap()).map(|a| a.host.as_str());
        assert_eq!(host("app", "10.0.0.7"), Some("10.0.0.7"));
        assert_eq!(host("app", "10.0.3.9"), Some("10.0.%"));
        assert_eq!(host("app", "192.168.1.1"), Some("%"));
        assert_eq!(host("root", "127.0.0.1"), Some("localhost"));
        assert_eq!(host("root", "::ffff:127.0.0.1"), Some("localhost"));
        assert_eq!(host("root", "10.0.0.7"), None);
        assert_eq!(host("net", "10.77.0.9"), Some("10.77.0.0/255.255.255.0"));
        assert_eq!(host("net", "10.78.0.9"), None);
    }

    #[test]
    fn like_backs_up_to_the_last_percent() {
        assert!(like(b"10.%.7", b"10.1.7.7"));
        assert!(!like(b"10.%.7", b"10.1.7.8"));
        assert!(like(b"%", b""));
        assert!(like(b"10.0.0._", b"10.0.0.5"));
    }
}
