//! `caching_sha2_password`: the challenge, its answer, and what follows it. MySQL's default since 8.0.
//!
//! ```text
//!   stage1 = SHA256(password)        enough to log in where the server remembers the account: as secret as the password
//!   stage2 = SHA256(stage1)          what the server remembers of an account that has shown its password since it started
//!   reply  = stage1 XOR SHA256(stage2 + salt)
//!
//!   client: reply
//!   server: 01 03, OK                fast authentication: it remembers stage2, and the reply is right
//!       or: 01 04                    full authentication: it wants the password itself, and only then remembers stage2
//!   client: the password (clear.rs)  under TLS, or over a unix socket
//!       or: 02                       asks for the server's RSA key, which comes as 01 and PEM; then, for that key with OAEP (SHA-1):
//!                                    password and NUL, XORed with the salt over and over
//! ```
//!
//! As with `mysql_native_password`, who knows `stage2` and sees a right reply learns `stage1`. An account without a password sends an empty reply
//! and gets the OK at once. What the server stores is another sum ([`super::stored_sha2`]), from which neither stage follows.
//!
//! Source: MySQL's source documentation, "Caching_sha2_password information".

use sha2::{Digest, Sha256 as Hasher};
use subtle::ConstantTimeEq;

/// A SHA-256 sum.
pub type Sha256 = [u8; 32];

/// The plugin's name on the wire.
pub const PLUGIN: &str = "caching_sha2_password";
/// The longest password that a server takes, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 256;
/// The first byte of a payload by which the server goes on with a plugin.
pub const MORE: u8 = 1;
/// The server's payload: the reply was right, OK follows.
pub const FAST: [u8; 2] = [MORE, 3];
/// The server's payload: the password itself is wanted.
pub const FULL: [u8; 2] = [MORE, 4];
/// The client's payload: it has no TLS and asks for the server's RSA key, to encrypt the password with.
pub const KEY_WANTED: [u8; 1] = [2];

/// SHA256(password): enough to log in where the server remembers the account.
pub fn stage1(password: &[u8]) -> Sha256 {
    Hasher::digest(password).into()
}

/// SHA256(SHA256(password)): what the server remembers.
pub fn stage2(stage1: &Sha256) -> Sha256 {
    Hasher::digest(stage1).into()
}

/// The answer to a challenge.
pub fn reply(stage1: &Sha256, salt: &[u8; 20]) -> Sha256 {
    masked(stage1, &stage2(stage1), salt)
}

/// Whether `reply` answers the challenge for the account of which `stage2` is remembered; gives `stage1` when it does. Takes the same time
/// whichever byte is wrong.
pub fn verify(remembered: &Sha256, salt: &[u8; 20], reply: &[u8]) -> Option<Sha256> {
    let reply: &Sha256 = reply.try_into().ok()?;
    let stage1 = masked(reply, remembered, salt);
    bool::from(stage2(&stage1).ct_eq(remembered)).then_some(stage1)
}

/// Masks a password and its NUL for the challenge, or takes the mask off: what the RSA key then encrypts.
pub fn mask_password(bytes: &mut [u8], salt: &[u8; 20]) {
    for (byte, mask) in bytes.iter_mut().zip(salt.iter().cycle()) {
        *byte ^= mask;
    }
}

fn masked(value: &Sha256, stage2: &Sha256, salt: &[u8; 20]) -> Sha256 {
    let mask: Sha256 = Hasher::new().chain_update(stage2).chain_update(salt).finalize().into();
    super::xor(value, &mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wrong_reply_tells_nothing() {
        let remembered = stage2(&stage1(b"secret"));
        let salt = [7; 20];
        assert_eq!(verify(&remembered, &salt, &reply(&stage1(b"Secret"), &salt)), None);
        assert_eq!(verify(&remembered, &salt, &reply(&stage1(b"secret"), &[8; 20])), None);
        assert_eq!(verify(&remembered, &salt, b""), None);
    }

    proptest! {
        #[test]
        fn a_right_reply_gives_stage1(password in proptest::collection::vec(any::<u8>(), 0..64), salt in any::<[u8; 20]>()) {
            let one = stage1(&password);
            prop_assert_eq!(verify(&stage2(&one), &salt, &reply(&one, &salt)), Some(one));
        }
    }
}
