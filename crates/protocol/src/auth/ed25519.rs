//! `client_ed25519` of MariaDB: the server sends 32 random bytes, the client signs them.
//!
//! Signatures are those of RFC 8032, but for where the key comes from: there it is SHA-512 of 32 random bytes, here SHA-512 of the password. The
//! server stores the public key, so that who has it cannot log in, and nothing that was overheard is of use for another login.
//!
//! Source: MariaDB's manual, "Authentication Plugin - ed25519".

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signature, Verifier, VerifyingKey};
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

/// The plugin's name on the wire.
pub const PLUGIN: &str = "client_ed25519";
/// Its name in the account table.
pub const STORED_AS: &str = "ed25519";
/// A challenge.
pub type Salt = [u8; 32];
/// A public key, as the server stores it.
pub type PublicKey = [u8; 32];

/// The answer to a challenge.
pub fn reply(password: &[u8], salt: &Salt) -> [u8; 64] {
    let key = secret_key(password);
    raw_sign::<Sha512>(&key, salt, &VerifyingKey::from(&key)).to_bytes()
}

/// What the server stores of a password.
pub fn public_key(password: &[u8]) -> PublicKey {
    VerifyingKey::from(&secret_key(password)).to_bytes()
}

/// Reads a public key as the server prints it: 43 characters of base64.
pub fn parse_stored(stored: &str) -> Option<PublicKey> {
    STANDARD_NO_PAD.decode(stored).ok()?.try_into().ok()
}

/// Whether `reply` answers the challenge for the account that stores `key`.
pub fn verify(key: &PublicKey, salt: &Salt, reply: &[u8]) -> bool {
    let (Ok(key), Ok(signature)) = (VerifyingKey::from_bytes(key), Signature::from_slice(reply)) else {
        return false;
    };
    key.verify(salt, &signature).is_ok()
}

fn secret_key(password: &[u8]) -> ExpandedSecretKey {
    let sum: Zeroizing<[u8; 64]> = Zeroizing::new(Sha512::digest(password).into());
    ExpandedSecretKey::from_bytes(&sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_key_is_the_servers() {
        // IDENTIFIED VIA ed25519 USING PASSWORD('secret'), the example of MariaDB's manual
        let stored = parse_stored("ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY").unwrap();
        assert_eq!(public_key(b"secret"), stored);
        for bad in
            ["", "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJ", "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"]
        {
            assert_eq!(parse_stored(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_the_passwords_own_signature_is_taken() {
        let (key, salt) = (public_key(b"secret"), [7; 32]);
        let right = reply(b"secret", &salt);
        assert!(verify(&key, &salt, &right));
        assert!(!verify(&key, &[8; 32], &right) && !verify(&public_key(b"Secret"), &salt, &right));
        assert!(
            !verify(&key, &salt, &right[..63])
                && !verify(&key, &salt, b"")
                && !verify(&[0xFF; 32], &salt, &right)
        );
    }
}
