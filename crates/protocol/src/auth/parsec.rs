//! `parsec` of MariaDB (11.6 and newer): the server sends 32 random bytes, the client signs them and as many of its own.
//!
//! ```text
//!   secret key = PBKDF2 over HMAC-SHA-512 (password, salt, rounds)     the public key that belongs to it is what the server stores
//!
//!   server: 32 bytes
//!   client: an empty packet
//!   server: 01 'P' k salt                1024 * 2^k rounds; the account's own, so that the client can derive the key
//!   client: 32 bytes, then the Ed25519 signature (RFC 8032) of the server's bytes and its own
//! ```
//!
//! As with `client_ed25519`, nothing follows from an answer by which another server would let anybody in.
//!
//! Source: MariaDB's manual, "Authentication Plugin - PARSEC", and what MariaDB 11.8.9 and its client send.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ed25519_dalek::{Signature, Signer, SigningKey, Verifier, VerifyingKey};
use sha2::Sha512;
use zeroize::Zeroizing;

use super::caching_sha2::MORE;
use super::ed25519::PublicKey;

/// The plugin's name, on the wire and in the account table.
pub const PLUGIN: &str = "parsec";
/// Random bytes of one side.
pub type Scramble = [u8; 32];
/// The client's random bytes, and the signature.
pub const REPLY_LEN: usize = 32 + Signature::BYTE_SIZE;

const SALT_LEN: usize = 18;
const ROUNDS_MIN: u32 = 1024;
/// MariaDB 11.8 takes 3 at most. More than this would take a thread away for a second, whoever asks for it.
const ROUNDS_LOG2_MAX: u8 = 7;

/// How an account's key is derived from its password ("ext-salt").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Derivation {
    /// Above that of [`ROUNDS_MIN`].
    rounds_log2: u8,
    salt: [u8; SALT_LEN],
}

/// What the server stores of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// How the key is derived.
    pub derivation: Derivation,
    key: PublicKey,
}

impl Derivation {
    /// That of an account that does not exist, by random bytes that are always the same for it.
    pub fn of_nobody(random: [u64; 3]) -> Derivation {
        let bytes = random.map(u64::to_le_bytes);
        Derivation { rounds_log2: 0, salt: std::array::from_fn(|at| bytes.as_flattened()[at]) }
    }

    /// Reads the server's payload.
    pub fn parse(payload: &[u8]) -> Option<Derivation> {
        let [b'P', rounds_log2, salt @ ..] = payload.strip_prefix(&[MORE]).unwrap_or(payload) else {
            return None;
        };
        let salt = salt.try_into().ok()?;
        (*rounds_log2 <= ROUNDS_LOG2_MAX).then_some(Derivation { rounds_log2: *rounds_log2, salt })
    }

    /// The server's payload.
    pub fn encode(&self) -> Vec<u8> {
        [&[MORE, b'P', self.rounds_log2], &self.salt[..]].concat()
    }
}

/// What a client signs with. Debug does not show it, and it is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    derivation: Derivation,
    signing: SigningKey,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Takes a millisecond and more.
    pub fn derive(password: &[u8], derivation: Derivation) -> Key {
        let mut seed = Zeroizing::new([0; 32]);
        let rounds = ROUNDS_MIN << derivation.rounds_log2;
        pbkdf2::pbkdf2_hmac::<Sha512>(password, &derivation.salt, rounds, &mut *seed);
        Key { derivation, signing: SigningKey::from_bytes(&seed) }
    }

    /// How it was derived.
    pub fn derivation(&self) -> Derivation {
        self.derivation
    }

    /// The client's answer to the server's bytes, with `own` random ones.
    pub fn reply(&self, server: &Scramble, own: &Scramble) -> [u8; REPLY_LEN] {
        let signature = self.signing.sign(&[*server, *own].concat()).to_bytes();
        std::array::from_fn(|at| if at < own.len() { own[at] } else { signature[at - own.len()] })
    }
}

impl Stored {
    /// Reads it as the account table has it: `P`, the rounds as a digit, and the base64 of salt and key, with colons between.
    pub fn parse(stored: &str) -> Option<Stored> {
        let mut fields = stored.split(':');
        let (Some(&[b'P', rounds @ b'0'..=b'9']), Some(salt), Some(key), None) =
            (fields.next().map(str::as_bytes), fields.next(), fields.next(), fields.next())
        else {
            return None;
        };
        let salt = STANDARD_NO_PAD.decode(salt).ok()?.try_into().ok()?;
        let key = STANDARD_NO_PAD.decode(key).ok()?.try_into().ok()?;
        let rounds_log2 = rounds - b'0';
        (rounds_log2 <= ROUNDS_LOG2_MAX)
            .then_some(Stored { derivation: Derivation { rounds_log2, salt }, key })
    }

    /// Whether it belongs to the key that was derived as it says.
    pub fn is_of(&self, key: &Key) -> bool {
        self.derivation == key.derivation && self.key == key.signing.verifying_key().to_bytes()
    }

    /// Whether `reply` answers the server's bytes.
    pub fn verify(&self, server: &Scramble, reply: &[u8]) -> bool {
        let Some((own, signature)) = reply.split_first_chunk::<32>() else { return false };
        let (Ok(key), Ok(signature)) =
            (VerifyingKey::from_bytes(&self.key), Signature::from_slice(signature))
        else {
            return false;
        };
        key.verify(&[*server, *own].concat(), &signature).is_ok()
    }

    /// What proves a certificate to a client of this account ([`crate::certificate_proof`]): the stored password as the server has it in memory.
    pub fn in_memory(&self) -> Vec<u8> {
        [&self.derivation.encode()[1..], &self.key].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of "secret", by MariaDB 11.8.9.
    const STORED: &str = "P0:hzl8y5LwfaCUM2Qh37NzvtSj:+jbn8DqgECNC12jUjSai2ZXNKU69hTFOMJohCaRCCnE";
    /// A login of its own client with that password: the server's bytes, its second payload, and the client's answer.
    const SERVER: &str = "4912eea5069d375864aa6641c84638a562640b5b43ac5e8f209d1869eca49f4c";
    const SALT: &str = "01500087397ccb92f07da094336421dfb373bed4a3";
    const REPLY: &str = "ea9a4d659c7da899b2de46c6948e068e820c236af22685ec6e16d173e65e51b591996d55659fad84d82fc5d855384c910ebdda14cf53703f5906cbfa5a9b317bdac05b9ac1608198f83735461e853fac6c7a456115ac0d04b44b7b7fc0934b00";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn key_of(password: &[u8]) -> Key {
        Key::derive(password, Stored::parse(STORED).unwrap().derivation)
    }

    #[test]
    fn a_recorded_login_is_understood_on_both_sides() {
        let stored = Stored::parse(STORED).unwrap();
        let server: Scramble = bytes(SERVER).try_into().unwrap();
        let reply = bytes(REPLY);
        let key = key_of(b"secret");
        assert!(stored.is_of(&key) && !stored.is_of(&key_of(b"Secret")));
        assert_eq!(stored.derivation.encode(), bytes(SALT));
        assert_eq!(Derivation::parse(&bytes(SALT)), Some(stored.derivation));
        assert!(stored.verify(&server, &reply));
        let own = reply[..32].try_into().unwrap();
        assert_eq!(key.reply(&server, &own)[..], reply, "signatures are not random");
    }

    #[test]
    fn only_the_passwords_own_signature_is_taken() {
        let stored = Stored::parse(STORED).unwrap();
        let (server, own) = ([7; 32], [8; 32]);
        let right = key_of(b"secret").reply(&server, &own);
        assert!(stored.verify(&server, &right) && !stored.verify(&[9; 32], &right));
        assert!(!stored.verify(&server, &key_of(b"Secret").reply(&server, &own)));
        for at in 0..REPLY_LEN {
            let mut wrong = right;
            wrong[at] ^= 1;
            assert!(!stored.verify(&server, &wrong), "{at}");
        }
        assert!(!stored.verify(&server, &right[..REPLY_LEN - 1]) && !stored.verify(&server, b""));
    }

    #[test]
    fn only_a_whole_hash_is_read() {
        for bad in [
            "",
            "P0",
            &STORED[1..],
            &STORED[..STORED.len() - 1],
            &STORED.replace("P0", "P8"),
            &STORED.replace("P0", "P00"),
            &STORED.replace("P0", "S0"),
            &format!("{STORED}:"),
        ] {
            assert_eq!(Stored::parse(bad), None, "{bad}");
        }
        assert_ne!(Stored::parse(&STORED.replace("P0", "P7")), None);
        for bad in ["", "0150", "0150087397ccb92f07da094336421dfb373bed4a3a", &SALT.replace("0150", "0151")] {
            assert_eq!(Derivation::parse(&bytes(bad.get(..bad.len() & !1).unwrap())), None, "{bad}");
        }
    }
}
