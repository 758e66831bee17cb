//! How a client's password comes over a connection without TLS for `caching_sha2_password`: encrypted for the server's RSA key.
//!
//! The key is shown over the same connection: who listens learns nothing, who stands between could show a key of his own. Clients decide whether they ask for it.

use std::fmt;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use protocol::auth::caching_sha2;
use zeroize::Zeroizing;

/// What stands before the key in the answer (AuthMoreData).
const KEY_SHOWN: u8 = 1;

/// The bytes of a password under the key.
pub const ENCRYPTED_LEN: usize = 256;

/// The proxy's key. It is made anew at each start: clients ask for it on each connection.
pub struct RsaKey {
    private: OaepPrivateDecryptingKey,
    public_pem: String,
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaKey(..)")
    }
}

impl RsaKey {
    /// A key of 2048 bits. Takes some tenths of a second.
    ///
    /// # Errors
    /// The library's, in words.
    pub fn generate() -> Result<Self, String> {
        let failed = |_| "no RSA key could be made".to_owned();
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(failed)?;
        let der: PublicKeyX509Der<'_> = private.public_key().as_der().map_err(failed)?;
        let digits = BASE64.encode(der.as_ref());
        let mut public_pem = "-----BEGIN PUBLIC KEY-----\n".to_owned();
        // RFC 7468: lines of 64.
        for line in digits.as_bytes().chunks(64) {
            public_pem.extend(line.iter().map(|byte| char::from(*byte)));
            public_pem.push('\n');
        }
        public_pem.push_str("-----END PUBLIC KEY-----\n");
        let private =
            OaepPrivateDecryptingKey::new(private).map_err(|_| "the RSA key cannot be used".to_owned())?;
        Ok(Self { private, public_pem })
    }

    /// The payload that shows it to a client (PEM).
    pub fn shown(&self) -> Vec<u8> {
        [&[KEY_SHOWN], self.public_pem.as_bytes()].concat()
    }

    /// The password, and its NUL, in what a client sent for this challenge; `None`: it was not made with this key, or for another challenge.
    pub fn password(&self, encrypted: &[u8], salt: &[u8; 20]) -> Option<Zeroizing<Vec<u8>>> {
        let mut room = Zeroizing::new(vec![0; self.private.key_size_bytes()]);
        let len = self.private.decrypt(&OAEP_SHA1_MGF1SHA1, encrypted, &mut room, None).ok()?.len();
        room.truncate(len);
        caching_sha2::mask_password(&mut room, salt);
        (room.last() == Some(&0)).then_some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_comes_over_and_nothing_else_is_taken_for_one() {
        let (key, other) = (RsaKey::generate().unwrap(), RsaKey::generate().unwrap());
        let salt = *b"abcdefghijklmnopqrst";
        for password in ["", "secret", &"ö".repeat(60)] {
            let sent = link::rsa::encrypted(password.as_bytes(), &salt, &key.shown()[1..]).unwrap();
            assert_eq!(key.password(&sent, &salt).unwrap().as_slice(), [password.as_bytes(), &[0]].concat());
            assert!(other.password(&sent, &salt).is_none());
            assert!(key.password(&sent, b"tsrqponmlkjihgfedcba").is_none(), "another challenge");
            assert!(key.password(&sent[1..], &salt).is_none());
            assert!(key.password(&[], &salt).is_none());
        }
    }
}
