//! Who a client is, once it has logged in.

use session::login::Credential;

/// Who the client is, once it has logged in.
pub struct Identity {
    /// User name.
    pub user: String,
    /// How to log in to a node in its name.
    pub credential: Credential,
    /// Schema asked for at login.
    pub schema: Option<Vec<u8>>,
    /// Character set number asked for at login.
    pub charset: u16,
    /// Connection attributes.
    pub attrs: Vec<u8>,
    /// The sequence number of the packet that ends the login.
    pub seq: u8,
}
