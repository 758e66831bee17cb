//! What a client is told before its first statement: the greeting and the OK of the login have the flags, the version and the character set that the
//! servers would give, and follow them when somebody changes them for all sessions to come.

use std::net::SocketAddr;
use std::time::Instant;

use fixture::client::{Client, ClientOptions};
use protocol::ok::status::{ANSI_QUOTES, AUTOCOMMIT, NO_BACKSLASH_ESCAPES};

use crate::{APPLICATION, PATIENCE, Scene};

/// The variables on every node, and the flags that a login begins with then.
const DEFAULTS: &[(&str, u16)] = &[
    ("autocommit = 0", 0),
    ("autocommit = 1, sql_mode = 'NO_BACKSLASH_ESCAPES'", AUTOCOMMIT | NO_BACKSLASH_ESCAPES),
    ("sql_mode = 'ANSI_QUOTES'", AUTOCOMMIT | ANSI_QUOTES),
    ("sql_mode = DEFAULT", AUTOCOMMIT),
];

async fn connect(address: SocketAddr) -> Client {
    let options = ClientOptions {
        user: APPLICATION.0.into(),
        password: APPLICATION.1.into(),
        database: None,
        ..ClientOptions::default()
    };
    Client::connect_as(address, &options).await.unwrap_or_else(|part| panic!("{part:?}"))
}

/// See the head of this file.
pub async fn all(scene: &Scene) {
    for (variables, flags) in DEFAULTS {
        for node in ["db1", "db2", "db3"] {
            scene.sql(node, &format!("SET GLOBAL {variables}")).await;
        }
        let direct = connect(scene.stage.node("db1").unwrap().address).await;
        assert_eq!(direct.greeting.status, *flags, "{variables}");
        let began = Instant::now();
        let through = loop {
            let through = connect(scene.mysql).await;
            // The login is the node's own, at once.
            assert_eq!(through.welcome, direct.welcome, "{variables}");
            if through.greeting.status == *flags {
                break through;
            }
            assert!(began.elapsed() < PATIENCE, "{variables}: still greeted with {}", through.greeting.status);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        let told = |client: &Client| (client.greeting.version.clone(), client.greeting.charset);
        assert_eq!(told(&through), told(&direct), "{variables}");
    }
}
