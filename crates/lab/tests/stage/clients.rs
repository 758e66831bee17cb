//! Connections to the servers of a stage.

use std::time::Duration;

use lab::stage::{Stage, account};
use mysql_async::{Conn, OptsBuilder};

/// Time limit for a login to a server that may just be returning.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects with the given account.
pub async fn client(stage: &Stage, node: &str, user: &str, password: &str) -> Conn {
    let address = stage.node(node).unwrap().address;
    let options = OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .user(Some(user))
        .pass(Some(password))
        .prefer_socket(false);
    tokio::time::timeout(PATIENCE, Conn::new(options)).await.expect("login takes too long").unwrap()
}

/// Connects as the application.
pub async fn application(stage: &Stage, node: &str) -> Conn {
    client(stage, node, account::APP_USER, account::APP_PASSWORD).await
}
