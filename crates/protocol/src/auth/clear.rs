//! The password itself, as `mysql_clear_password`, `sha256_password`, the full authentication of `caching_sha2_password`, and `dialog` send it: with a
//! NUL behind it. Only for a way that nobody can listen on.

use zeroize::Zeroizing;

/// The plugin's name on the wire.
pub const PLUGIN: &str = "mysql_clear_password";
/// MariaDB's plugin by which a server asks one question after another; `pam` asks for the password first.
pub const DIALOG: &str = "dialog";
/// MariaDB's plugin `pam` in the account table: its clients are asked by one of the two above (`pam_use_cleartext_plugin`).
pub const PAM: &str = "pam";
/// MySQL's plugin that takes the password itself under TLS, and encrypted for its RSA key otherwise.
pub const SHA256: &str = "sha256_password";
/// Its client's payload: it has no TLS and asks for the key.
pub const SHA256_KEY_WANTED: [u8; 1] = [1];

/// The payload that shows the password. Empty with a password that has a NUL in it, which no server could read.
pub fn reply(password: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(password.len() + 1));
    if !password.contains(&0) {
        out.extend_from_slice(password);
    }
    out.push(0);
    out
}

/// The password in such a payload; `None` where the NUL is missing or not the last byte.
pub fn password_in(payload: &[u8]) -> Option<&[u8]> {
    let (last, password) = payload.split_last()?;
    (*last == 0 && !password.contains(&0)).then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_read_back() {
        for password in [&b""[..], b"secret", "πασ".as_bytes()] {
            assert_eq!(password_in(&reply(password)), Some(password));
        }
        assert_eq!(*reply(b"a\0b"), b"\0");
        for bad in [&b""[..], b"secret", b"a\0b\0", b"a\0b"] {
            assert_eq!(password_in(bad), None, "{bad:?}");
        }
    }
}
