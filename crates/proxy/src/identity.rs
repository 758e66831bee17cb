//! The identity of a client that has logged in.

use session::login::Credential;

/// The identity of a client that has logged in.
pub struct Identity {
    /// User name.
    pub user: String,
    /// The credential for logins to nodes as this client.
    pub credential: Credential,
    /// The schema in the login.
    pub schema: Option<Vec<u8>>,
    /// The character set number in the login.
    pub charset: u16,
    /// Connection attributes.
    pub attrs: Vec<u8>,
    /// The sequence number of the packet that ends the login.
    pub seq: u8,
}
