//! How a server proves its certificate to a client that trusts no authority for it: by what it stores of the account's password.
//!
//! MariaDB 11.4 and newer ("Zero-Configuration SSL"), as seen of 11.8.9. Behind a login under TLS, the OK packet's text is
//!
//! ```text
//!   0x01, then in upper-case hex:  SHA256(what is stored + salt + SHA256(the certificate, DER))
//! ```
//!
//! What is stored is SHA1(SHA1(password)) for mysql_native_password. The client, who knows the password, computes the same with the certificate
//! that it was shown: who stands between can show only another one.

use sha2::{Digest, Sha256};

/// SHA-256 of a certificate (DER).
pub type Fingerprint = [u8; 32];

/// The length of the text.
const LEN: usize = 1 + 2 * 32;

/// The fingerprint of a certificate.
pub fn fingerprint(certificate_der: &[u8]) -> Fingerprint {
    Sha256::digest(certificate_der).into()
}

/// The text of the OK packet that ends a login. `salt`: that of the challenge which the client has answered.
pub fn proof(stored: &[u8], salt: &[u8; 20], fingerprint: &Fingerprint) -> [u8; LEN] {
    let sum = Sha256::new().chain_update(stored).chain_update(salt).chain_update(fingerprint).finalize();
    let mut text = [1; LEN];
    for (digits, byte) in text[1..].chunks_exact_mut(2).zip(sum) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        digits.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    text
}
