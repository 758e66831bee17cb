//! The identity of a client that has logged in.

use std::net::SocketAddr;

use session::charset;
use session::login::Credential;

/// The identity of a client that has logged in.
pub struct Identity {
    /// User name, as the server knows it.
    pub user: String,
    /// The same as the client sent it, in the character set of its login; `None`: in UTF-8.
    pub user_sent: Option<Vec<u8>>,
    /// The credential for logins to nodes as this client.
    pub credential: Credential,
    /// The schema in the login, as the server knows it. (As it was sent, if its character set is not known here.)
    pub schema: Option<Vec<u8>>,
    /// The same as it was sent.
    pub schema_sent: Option<Vec<u8>>,
    /// The character set number in the login.
    pub charset: u16,
    /// Where the client is.
    pub peer: SocketAddr,
    /// Connection attributes.
    pub attrs: Vec<u8>,
    /// The sequence number of the packet that ends the login.
    pub seq: u8,
}

/// A name in a login, in UTF-8, and as it was sent where that is something else. `collation`: the number in the login.
pub fn known_name(sent: Vec<u8>, collation: u16) -> (Vec<u8>, Option<Vec<u8>>) {
    match charset::name(&sent, collation) {
        Some(known) if known.as_bytes() != sent => {
            let known = known.into_owned().into_bytes();
            (known, Some(sent))
        }
        _ => (sent, None),
    }
}
