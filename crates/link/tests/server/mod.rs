//! Links to a real server, which `fixture` starts and ends.

#![allow(dead_code)] // each test file uses its part

use std::net::TcpListener;
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

/// A port that nobody listens on. (Somebody might, a moment later: the range is wide and the moment short.)
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its number").port()
}
