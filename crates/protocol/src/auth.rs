//! How an account proves itself: the bytes of each authentication plugin, on the client's side and on the server's. No I/O.
//!
//! ```text
//!   mysql_native_password   native.rs         a challenge, one answer
//!   caching_sha2_password   caching_sha2.rs   a challenge, one answer; the password itself where the server does not know the account's digest
//!                           stored_sha2.rs    what the server stores of it, of which one form is sha_crypt.rs
//!   client_ed25519          ed25519.rs        a challenge, a signature (MariaDB)
//!   parsec                  parsec.rs         a challenge, the account's salt, a signature (MariaDB)
//!   mysql_clear_password    clear.rs          the password itself
//! ```

pub mod caching_sha2;
pub mod clear;
pub mod ed25519;
pub mod native;
pub mod parsec;
pub mod password;
pub mod sha_crypt;
pub mod stored_sha2;

/// What a challenge hides, and what it hid.
fn xor<const N: usize>(value: &[u8; N], mask: &[u8; N]) -> [u8; N] {
    std::array::from_fn(|at| value[at] ^ mask[at])
}
