//! Accounts that change while their sessions stand: whoever is moved to another server then has to log in there again, which fails, and is
//! told why. The server itself says only "Access denied".

use std::net::SocketAddr;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, OptsBuilder};
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, status_when, writer};

/// Three accounts: each changes in its own way, its session is moved, and what it is told is the truth. The primary is the same afterwards.
pub async fn changed(scene: &Scene, serving: &Serving) {
    let before = writer(&status_when(serving, "all are well", is_well));
    for user in ["renewed", "encrypted", "dropped", "same"] {
        let sql = format!("CREATE USER {user}@'%' IDENTIFIED BY 'old'");
        scene.stage.run_in(&before, &sql).await.unwrap();
    }
    let mut sessions = Vec::new();
    for user in ["renewed", "encrypted", "dropped", "same"] {
        let mut session = connect(scene.through(), user, "old").await.unwrap();
        assert_eq!(session.query_first::<u8, _>("SELECT 1").await.unwrap(), Some(1));
        sessions.push((user, session));
    }
    sessions[0].1.query_drop("SET PASSWORD = PASSWORD('new')").await.unwrap();
    for sql in ["ALTER USER encrypted@'%' REQUIRE SSL", "DROP USER dropped@'%'"] {
        scene.stage.run_in(&before, sql).await.unwrap();
    }
    for (user, session) in &mut sessions {
        // As on a server without a proxy, what stands goes on.
        assert_eq!(session.query_first::<u8, _>("SELECT 1").await.unwrap(), Some(1), "{user}");
    }
    let other = if before == "db1" { "db2" } else { "db1" };
    serving.ask(&["switchover", other]).with(0);
    for (user, session) in &mut sessions {
        let told = match session.query_first::<u8, _>("SELECT 1").await {
            Err(Error::Server(error)) => {
                assert_eq!(error.code, 1045, "{user}: {error}");
                error.message
            }
            Ok(row) => {
                assert_eq!((*user, row), ("same", Some(1)));
                continue;
            }
            Err(other) => panic!("{user}: {other}"),
        };
        println!("          {user}: {told}");
        let why = match *user {
            "renewed" => "the account's password was changed since this connection logged in",
            "encrypted" => "TLS must be used (REQUIRE SSL",
            "dropped" => "the account was dropped or renamed since this connection logged in",
            other => panic!("{other} did not change"),
        };
        assert!(told.contains("Access denied") && told.contains(why), "{user}: {told}");
        let is_of_grants = told.contains("give an account of this name the same password and rights");
        assert_eq!(is_of_grants, *user == "encrypted", "{user}: {told}");
    }
    // What the sentence says to do.
    let mut renewed = connect(scene.through(), "renewed", "new").await.unwrap();
    assert_eq!(renewed.query_first::<u8, _>("SELECT 1").await.unwrap(), Some(1));
    status_when(serving, "all are well", is_well);
    serving.ask(&["switchover", &before]).with(0);
    status_when(serving, "all are well", is_well);
}

async fn connect(address: SocketAddr, user: &str, password: &str) -> Result<Conn, Error> {
    let options = OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .prefer_socket(false)
        .user(Some(user))
        .pass(Some(password));
    Conn::new(options).await
}
