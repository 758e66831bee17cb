//! `mysql_native_password`: the challenge and its answer.
//!
//! ```text
//!   stage1 = SHA1(password)          enough to log in: as secret as the password
//!   stage2 = SHA1(stage1)            what the server stores ("*" and 40 hex digits)
//!   reply  = stage1 XOR SHA1(salt + stage2)
//! ```
//!
//! Whoever knows `stage2` and sees a right reply learns `stage1`, and can log in elsewhere with it: that is how a proxy
//! that stores no password opens its own connections. An account without a password sends an empty reply and has no
//! stored hash; the caller sees to that.

use std::fmt::Write;

use sha1::{Digest, Sha1 as Hasher};
use subtle::ConstantTimeEq;

/// A SHA-1 sum.
pub type Sha1 = [u8; 20];

/// The plugin's name on the wire.
pub const PLUGIN: &str = "mysql_native_password";

/// SHA1(password): enough to log in.
pub fn stage1(password: &[u8]) -> Sha1 {
    Hasher::digest(password).into()
}

/// SHA1(SHA1(password)): what the server stores.
pub fn stage2(stage1: &Sha1) -> Sha1 {
    Hasher::digest(stage1).into()
}

/// Reads a stored hash as the servers print it: `*` and 40 hex digits.
pub fn parse_stored(hash: &str) -> Option<Sha1> {
    let digits = hash.strip_prefix('*')?.as_bytes();
    if digits.len() != 40 {
        return None;
    }
    let mut stored = [0; 20];
    for (byte, pair) in stored.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = *pair.first_chunk::<2>()?;
        *byte = (hex(high)? << 4) | hex(low)?;
    }
    Some(stored)
}

/// A stored hash as the servers print it.
pub fn stored(stage2: &Sha1) -> String {
    stage2.iter().fold("*".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}"); // into a String it cannot fail
        text
    })
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|n| n as u8)
}

/// The answer to a challenge.
pub fn reply(stage1: &Sha1, salt: &[u8; 20]) -> Sha1 {
    masked(stage1, &stage2(stage1), salt)
}

/// Whether `reply` answers the challenge for the account that stores `stored`; gives `stage1` when it does.
/// Takes the same time whichever byte is wrong.
pub fn verify(stored: &Sha1, salt: &[u8; 20], reply: &[u8]) -> Option<Sha1> {
    let reply: &Sha1 = reply.try_into().ok()?;
    let stage1 = masked(reply, stored, salt);
    bool::from(stage2(&stage1).ct_eq(stored)).then_some(stage1)
}

fn masked(value: &Sha1, stage2: &Sha1, salt: &[u8; 20]) -> Sha1 {
    let mask: Sha1 = Hasher::new().chain_update(salt).chain_update(stage2).finalize().into();
    super::xor(value, &mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_stored_hash_is_the_servers() {
        // SELECT PASSWORD('secret') on MariaDB 10.11
        let hash = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
        assert_eq!(stage2(&stage1(b"secret")), parse_stored(hash).unwrap());
        assert_eq!(stored(&stage2(&stage1(b"secret"))), hash);
    }

    #[test]
    fn only_a_whole_hash_is_read() {
        for bad in [
            "",
            "*",
            "14E65567ABDB5135D0CFD9A70B3032C179A49EE7",
            "*14E65567ABDB5135D0CFD9A70B3032C179A49EE",
            "*14E65567ABDB5135D0CFD9A70B3032C179A49EEG",
            "*14E65567ABDB5135D0CFD9A70B3032C179A49EE70",
            "*+4E65567ABDB5135D0CFD9A70B3032C179A49EE7",
        ] {
            assert_eq!(parse_stored(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_wrong_reply_tells_nothing() {
        let stored = stage2(&stage1(b"secret"));
        let salt = [7; 20];
        assert_eq!(verify(&stored, &salt, &reply(&stage1(b"Secret"), &salt)), None);
        assert_eq!(verify(&stored, &salt, &reply(&stage1(b"secret"), &[8; 20])), None);
        assert_eq!(verify(&stored, &salt, b""), None);
    }

    proptest! {
        #[test]
        fn a_right_reply_gives_stage1(password in proptest::collection::vec(any::<u8>(), 0..64), salt in any::<[u8; 20]>()) {
            let one = stage1(&password);
            prop_assert_eq!(verify(&stage2(&one), &salt, &reply(&one, &salt)), Some(one));
        }
    }
}
