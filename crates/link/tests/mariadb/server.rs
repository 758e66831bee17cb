//! Links to a real server, which `fixture` starts and ends.

use std::time::Duration;

pub use fixture::Server;
use link::{Link, Login, Secret};

/// Long enough for anything on a busy machine; what takes longer has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// The fixture's account that may do everything.
pub fn app() -> Login {
    Login::new("app", Secret::Password("secret".into()))
}

/// Where it listens, as a configuration would have it.
pub fn address(server: &Server) -> String {
    server.address().to_string()
}

/// Logged in as [`app`].
pub async fn link_to(server: &Server) -> Link {
    Link::connect(&address(server), &app(), LONG).await.expect("a login as app")
}
