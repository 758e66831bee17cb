//! What MySQL stores of a password under `caching_sha2_password`, in one of two forms (`caching_sha2_password_storage_format`), and under
//! `sha256_password`.
//!
//! ```text
//!   $A$00A$ 20 characters of salt, 43 of a sum    SHA-crypt (sha_crypt.rs); MySQL's default
//!   $B$00A$ 20 characters of salt, 88 of a sum    PBKDF2 over HMAC-SHA-512, in base64; since 9.7
//!      --- three hexadecimal digits: thousands of rounds
//!   $5$ 20 characters of salt, $, 43 of a sum     SHA-crypt of 5000 rounds; sha256_password
//! ```
//!
//! One check takes thousands of sums: some milliseconds.
//!
//! Source: what MySQL 9.7.4 stores; its manual has no description.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::Sha512;
use subtle::ConstantTimeEq;

use super::caching_sha2::PASSWORD_BYTES_MAX;
use super::sha_crypt;

const SALT_LEN: usize = 20;
/// What the field of rounds counts.
const ROUNDS_UNIT: u32 = 1000;
/// Those of `sha256_password`.
const SHA256_ROUNDS: u32 = 5000;

/// A password as MySQL stores it.
#[derive(Clone, PartialEq, Eq)]
pub struct Stored {
    rounds: u32,
    salt: [u8; SALT_LEN],
    sum: Sum,
}

#[derive(Clone, PartialEq, Eq)]
enum Sum {
    ShaCrypt([u8; sha_crypt::SUM_LEN]),
    Pbkdf2([u8; 64]),
}

impl Stored {
    /// Reads it as the account table has it; `None` for another form.
    pub fn parse(stored: &str) -> Option<Stored> {
        let (form, rest) = stored.as_bytes().split_at_checked(3)?;
        let (rounds, rest) = rest.split_at_checked(3)?;
        if !rounds.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let rounds = u32::from_str_radix(std::str::from_utf8(rounds).ok()?, 16).ok()? * ROUNDS_UNIT;
        let (salt, sum) = rest.strip_prefix(b"$")?.split_at_checked(SALT_LEN)?;
        let sum = match form {
            b"$A$" => Sum::ShaCrypt(sum.try_into().ok()?),
            b"$B$" => Sum::Pbkdf2(STANDARD.decode(sum).ok()?.try_into().ok()?),
            _ => return None,
        };
        (rounds > 0).then_some(Stored { rounds, salt: salt.try_into().ok()?, sum })
    }

    /// The same under `sha256_password`.
    pub fn parse_sha256(stored: &str) -> Option<Stored> {
        let (salt, sum) = stored.as_bytes().strip_prefix(b"$5$")?.split_first_chunk()?;
        let sum = Sum::ShaCrypt(sum.strip_prefix(b"$")?.try_into().ok()?);
        Some(Stored { rounds: SHA256_ROUNDS, salt: *salt, sum })
    }

    /// What no password matches.
    pub fn of_nobody() -> Stored {
        let sum = Sum::ShaCrypt([0; sha_crypt::SUM_LEN]);
        Stored { rounds: 5 * ROUNDS_UNIT, salt: [b'x'; SALT_LEN], sum }
    }

    /// Whether it is made of this password. Takes milliseconds: not for a thread that others wait for.
    pub fn is_of(&self, password: &[u8]) -> bool {
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        let is_same = match &self.sum {
            Sum::ShaCrypt(sum) => sha_crypt::sum(password, &self.salt, self.rounds).ct_eq(sum),
            Sum::Pbkdf2(sum) => {
                let mut found = [0; 64];
                pbkdf2::pbkdf2_hmac::<Sha512>(password, &self.salt, self.rounds, &mut found);
                found.ct_eq(sum)
            }
        };
        bool::from(is_same)
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stored(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the password "secret", by MySQL 9.7.4.
    const SHA_CRYPT: &str = "$A$00A$#:c=(Ww(|_sW\"K<3WM6\x01FcNcHaj8vWvQ1i5JCOrrdhEs.XWDztVV4P45b3bgLF0";
    const PBKDF2: &str = "$B$00A$\x7fyGmEyXdj\x14\x1a4o\x15J\x1eDx\x08[zou7kR8enmpsv/nHm4ge7sDTfw502h7OGBhCRaXkI2qQmr4MOkOaCoaXFKGygleh50tEGuJUSUoV/plDd7EM4w==";

    #[test]
    fn a_password_matches_what_the_server_has_stored_of_it() {
        for stored in [SHA_CRYPT, PBKDF2] {
            let stored = Stored::parse(stored).unwrap();
            assert_eq!(stored.rounds, 10_000);
            assert!(stored.is_of(b"secret") && !stored.is_of(b"Secret") && !stored.is_of(b""));
            assert!(!stored.is_of(&[b'x'; PASSWORD_BYTES_MAX + 1]));
        }
        assert!(!Stored::of_nobody().is_of(b""));
    }

    #[test]
    fn what_sha256_password_stores_is_another_form() {
        // Of the password "secret", by MySQL 9.7.4.
        const SHA256: &str =
            "$5$\x1d&i^p:%;\x0e\x1aE(0W\x07\x12h0-\x0e$Io.BTit2K2OVi0fdLhrn.D4xC6KvThp2E6sBAlE7Gh7";
        let stored = Stored::parse_sha256(SHA256).unwrap();
        assert!(stored.is_of(b"secret") && !stored.is_of(b"Secret"));
        for bad in [&SHA256[1..], &SHA256[..SHA256.len() - 1], &format!("{SHA256}."), "$5$", SHA_CRYPT] {
            assert_eq!(Stored::parse_sha256(bad), None, "{bad}");
        }
        assert_eq!(Stored::parse(SHA256), None);
    }

    #[test]
    fn only_a_whole_hash_is_read() {
        for good in [SHA_CRYPT, PBKDF2] {
            for bad in [
                &good[..good.len() - 1],
                &format!("{good}."),
                &good.replace("$A$", "$C$").replace("$B$", "$C$"),
                &good.replace("00A", "000"),
                &good.replace("00A", "+0A"),
                &good[..27],
                &good[..5],
                "",
            ] {
                assert_eq!(Stored::parse(bad), None, "{bad}");
            }
        }
    }
}
