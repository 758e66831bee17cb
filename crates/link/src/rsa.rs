//! Shows a password to a server over a plain way, for `caching_sha2_password`: encrypted for the RSA key that the server has shown.
//!
//! Who listens learns nothing; who stands between could show a key of his own, as he could show any certificate where none is looked at.

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use protocol::auth::{caching_sha2, clear};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

/// The password for the challenge `salt`, encrypted for a key in PEM. `None`: that is no key of 2048 to 8192 bits, or the password is too long for it.
pub fn encrypted(password: &[u8], salt: &[u8; 20], key_pem: &[u8]) -> Option<Vec<u8>> {
    let key = SubjectPublicKeyInfoDer::from_pem_slice(key_pem).ok()?;
    let key = OaepPublicEncryptingKey::new(PublicEncryptingKey::from_der(&key).ok()?).ok()?;
    let mut plain = clear::reply(password);
    caching_sha2::mask_password(&mut plain, salt);
    let mut room = vec![0; key.ciphertext_size()];
    let len = key.encrypt(&OAEP_SHA1_MGF1SHA1, &plain, &mut room, None).ok()?.len();
    room.truncate(len);
    Some(room)
}
