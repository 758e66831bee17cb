//! SHA-crypt over SHA-256 (crypt(3)'s `$5$`, <https://www.akkadia.org/drepper/SHA-crypt.txt>), with salts of any length: MySQL's are longer than the 16
//! bytes to which crypt(3) and the libraries cut them, which is why it is computed here.

use sha2::{Digest, Sha256 as Hasher};
use zeroize::Zeroizing;

use super::caching_sha2::Sha256;

/// The characters of a sum.
pub const SUM_LEN: usize = 43;
/// crypt(3)'s own alphabet, in its order.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The sum, in crypt(3)'s digits.
pub fn sum(password: &[u8], salt: &[u8], rounds: u32) -> [u8; SUM_LEN] {
    digits(&bytes(password, salt, rounds))
}

/// The steps are those of the description.
fn bytes(password: &[u8], salt: &[u8], rounds: u32) -> Sha256 {
    let second: Sha256 =
        Hasher::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut first = Hasher::new().chain_update(password).chain_update(salt);
    first.update(repeated(&second, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        first.update(if bits & 1 == 1 { &second[..] } else { password });
        bits >>= 1;
    }
    let mut sum: Sha256 = first.finalize().into();
    let mut of_password = Hasher::new();
    for _ in 0..password.len() {
        of_password.update(password);
    }
    let mut of_salt = Hasher::new();
    for _ in 0..16 + usize::from(sum[0]) {
        of_salt.update(salt);
    }
    let password_bytes = repeated(&of_password.finalize().into(), password.len());
    let salt_bytes = repeated(&of_salt.finalize().into(), salt.len());
    for round in 0..rounds {
        let (begin, end) =
            if round & 1 == 1 { (&password_bytes[..], &sum[..]) } else { (&sum[..], &password_bytes[..]) };
        let mut hasher = Hasher::new().chain_update(begin);
        if round % 3 != 0 {
            hasher.update(&salt_bytes);
        }
        if round % 7 != 0 {
            hasher.update(&password_bytes);
        }
        sum = hasher.chain_update(end).finalize().into();
    }
    sum
}

/// The sum over and over, `len` bytes of it.
fn repeated(sum: &Sha256, len: usize) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(sum.iter().copied().cycle().take(len).collect())
}

/// Three bytes, from three thirds of the sum in turn, are four digits.
fn digits(sum: &Sha256) -> [u8; SUM_LEN] {
    let mut out = [0; SUM_LEN];
    let (mut a, mut b, mut c) = (0, 10, 20);
    for group in out.chunks_mut(4) {
        let mut bits = if a == 30 {
            u32::from(sum[31]) << 8 | u32::from(sum[30])
        } else {
            u32::from(sum[a]) << 16 | u32::from(sum[b]) << 8 | u32::from(sum[c])
        };
        for digit in group {
            *digit = DIGITS[(bits & 63) as usize];
            bits >>= 6;
        }
        (a, b, c) = (c + 1, a + 1, b + 1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_crypt() {
        // `openssl passwd -5 -salt SALT PASSWORD`
        for (password, salt, expected) in [
            ("secret", "abcdefghijklmnop", "i7zHaTeYqXlesRXJ8dXj6o.MEFQdzfIJpJpcWAtszs6"),
            ("Hello world!", "saltstring", "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
        ] {
            assert_eq!(String::from_utf8_lossy(&sum(password.as_bytes(), salt.as_bytes(), 5000)), expected);
        }
    }
}
