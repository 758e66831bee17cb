//! Servers without Galera: a single one, a primary and its replica.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use fixture::Server;
use testbed::program::until;

use super::asking::get;
use super::check_dir::CheckDir;
use super::running::Running;
use super::{DOWN, SECRET};

#[test]
fn a_server_without_galera() {
    let server = Server::start(&[]);
    let check_dir = CheckDir::of(&server);
    server.sql(&format!("CREATE USER quiet@'%' IDENTIFIED BY '{SECRET}'"));
    let ended = check_dir.once_quietly(&[]);
    assert_eq!((ended.out.as_str(), ended.code), (DOWN, 1));
    let ended = check_dir.once_quietly(&["--style", "pyclustercheck"]);
    assert!(
        ended.out.ends_with("\r\n\r\nPercona XtraDB Cluster Node state could not be retrieved."),
        "{}",
        ended.out
    );
    assert!(ended.err.contains("is it a Galera node, and is wsrep_on set?"), "{}", ended.err);
    assert_eq!(check_dir.once_quietly(&["--role", "writer"]).code, 0);
    server.sql("SET GLOBAL read_only = ON");
    let said = check_dir.once_quietly(&["--role", "writer"]).with(1);
    assert!(said.contains("is read only"), "{said}");
}

/// A primary and its replica, each with the account that may see the replication.
fn pair() -> [Server; 2] {
    let pair = [1, 2].map(|id| Server::start(&["--log-bin=log", &format!("--server-id={id}")]));
    for server in &pair {
        server.sql(&format!(
            "SET sql_log_bin = 0; CREATE USER quiet@'%' IDENTIFIED BY '{SECRET}'; GRANT SLAVE MONITOR ON *.* TO quiet@'%'"
        ));
    }
    pair
}

#[test]
fn a_primary_and_its_replica() {
    let [primary, replica] = pair();
    let (of_primary, of_replica) = (CheckDir::of(&primary), CheckDir::of(&replica));
    let (primary_check, primary_http) = Running::check(&of_primary, &["--interval-ms", "50"]);
    let (replica_check, replica_http) = Running::check(&of_replica, &["--interval-ms", "50"]);
    let becomes = |http: SocketAddr, target: &str, code: &str, why: &str| {
        until(&format!("{target}: {code} {why}"), || {
            let said = get(http, target);
            (said.starts_with(&format!("HTTP/1.1 {code} ")) && said.contains(why)).then_some(())
        });
    };
    for http in [primary_http, replica_http] {
        becomes(http, "/writer", "200", "may take writes");
        becomes(http, "/replica", "503", "is not a replica: it has no source");
    }

    replica.sql("SET GLOBAL read_only = ON");
    let port = primary.address().port();
    replica.sql(&format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='app', MASTER_PASSWORD='secret', \
         MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1; START SLAVE"
    ));
    becomes(replica_http, "/writer", "503", "is read only");
    becomes(replica_http, "/replica?max_lag=2s", "200", "follows its source");
    let once = |more: &[&str]| of_replica.once_quietly(&[&["--role", "replica"], more].concat());
    once(&["--max-lag", "2s"]).with(0);

    // What cannot be applied makes it late; however late it is, both threads run.
    let table = "shop.t";
    primary.sql(&format!("CREATE TABLE {table} (id INT PRIMARY KEY)"));
    until("the table on the replica", || (replica.sql("SHOW TABLES IN shop LIKE 't'") == "t").then_some(()));
    let mut holder = Command::new("mariadb")
        .args(["--no-defaults", "-uroot", "--unbuffered"])
        .arg(format!("--socket={}", replica.socket().display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut words = holder.stdin.take().unwrap();
    writeln!(words, "LOCK TABLES {table} READ;").unwrap();
    until("the lock", || {
        let locks = replica.sql("SHOW OPEN TABLES IN shop LIKE 't'");
        locks.split('\t').nth(2).is_some_and(|in_use| in_use != "0").then_some(())
    });
    primary.sql(&format!("INSERT INTO {table} VALUES (1)"));
    becomes(replica_http, "/replica?max_lag=1s", "503", "and 1 s are allowed");
    becomes(replica_http, "/replica?max_lag=soon", "400", "max_lag must be a time");
    becomes(replica_http, "/replica?max_lag=3600s", "200", "follows its source");
    let said = once(&["--max-lag", "1s"]).with(1);
    assert!(said.contains("s behind 127.0.0.1:"), "{said}");
    drop(words);
    holder.wait().unwrap();
    becomes(replica_http, "/replica?max_lag=1s", "200", "follows its source");

    replica.sql("STOP SLAVE SQL_THREAD");
    becomes(replica_http, "/replica", "503", "is not applying what 127.0.0.1:");
    replica.sql("START SLAVE SQL_THREAD; STOP SLAVE IO_THREAD");
    becomes(replica_http, "/replica", "503", "is not fetching what 127.0.0.1:");
    replica.sql("START SLAVE IO_THREAD");
    becomes(replica_http, "/replica?max_lag=2s", "200", "follows its source");
    drop(primary);
    becomes(replica_http, "/replica", "503", "is not fetching what 127.0.0.1:");
    becomes(primary_http, "/writer", "503", "");
    primary_check.stop();
    replica_check.stop();
}
