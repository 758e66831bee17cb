//! One Galera node, and all that is said of it.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use fixture::{Server, free_port};
use testbed::program::{LONG, until};

use super::answers::the_answers;
use super::asking::{get, response};
use super::check_dir::CheckDir;
use super::http::{roles, the_server};
use super::python::python;
use super::running::Running;
use super::settings::{a_password_read_again, exposed_secrets, sources_of_settings, what_goes_wrong};
use super::starters::through_xinetd_and_systemd;
use super::{DOWN, INTERVAL, SECRET, UP};

/// A cluster of one.
pub fn galera() -> (Server, Vec<String>) {
    let base = free_port();
    let options: Vec<String> = [
        "--wsrep-on=ON",
        "--wsrep-provider=/usr/lib/galera/libgalera_smm.so",
        "--wsrep-cluster-address=gcomm://",
        "--wsrep-node-address=127.0.0.1",
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!(
        "--wsrep-provider-options=gcache.size=1M;gmcast.listen_addr=tcp://127.0.0.1:{base};ist.recv_addr=tcp://127.0.0.1:{}",
        free_port()
    )])
    .collect();
    let server = Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>());
    synced(&server);
    // The seed's account, with its hash (of "password"), and one whose password is nowhere else.
    server.sql("GRANT USAGE ON *.* TO 'clustercheck'@'localhost' IDENTIFIED BY PASSWORD '*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19'");
    server.sql(&format!("CREATE USER quiet@'%' IDENTIFIED BY '{SECRET}'"));
    (server, options)
}

pub fn synced(server: &Server) {
    until("a synced node", || {
        server.sql("SHOW STATUS LIKE 'wsrep_local_state_comment'").ends_with("Synced").then_some(())
    });
}

#[test]
fn what_is_said_of_a_node_and_how() {
    let (server, _) = galera();
    let check_dir = CheckDir::of(&server);
    // Asking the database itself, then a running check.
    the_answers(&server, &check_dir);
    sources_of_settings(&check_dir);
    exposed_secrets(&check_dir);
    what_goes_wrong(&check_dir);
    a_password_read_again(&server, &check_dir);
    through_xinetd_and_systemd(&server, &check_dir);
    let (check, http) =
        Running::check(&check_dir, &["--agent", "127.0.0.1:0", "--interval-ms", "50", "--stale-ms", "1000"]);
    the_answers(&server, &check_dir);
    the_server(&server, &check_dir, http, check.address(""));
    roles(&check_dir, http);
    no_part_in_replication(&server, http);
    a_link_that_ends_alone(&server, http);
    python(&server, &check_dir);
    assert!(!check.log().contains(SECRET));
    let cmdline = fs::read_to_string(format!("/proc/{}/cmdline", check.child.id())).unwrap();
    assert!(!cmdline.contains(SECRET) && cmdline.contains("quiet.cnf"), "{cmdline}");
    check.stop();
    assert_eq!(fs::read_dir(check_dir.path("run")).unwrap().count(), 0, "no socket is left");
}

/// A member that keeps its writes to itself is not good for anything, and least of all for writes.
fn no_part_in_replication(server: &Server, http: SocketAddr) {
    server.sql("SET GLOBAL wsrep_on = OFF");
    until("a writer that does not replicate is none", || {
        get(http, "/writer").starts_with("HTTP/1.1 503 ").then_some(())
    });
    let status = get(http, "/status");
    assert!(status.contains("is it a Galera node, and is wsrep_on set?"), "{status}");
    assert_eq!(get(http, "/?donor=1"), DOWN);
    server.sql("SET GLOBAL wsrep_on = ON");
    until("it does again", || get(http, "/writer").starts_with("HTTP/1.1 200 ").then_some(()));
}

/// KILL and wait_timeout end a link and not the server: nobody is told that it has ended.
fn a_link_that_ends_alone(server: &Server, http: SocketAddr) {
    const KILLS: usize = 5;
    let ids =
        || server.sql("SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE user = 'quiet'");
    let stop = Arc::new(AtomicBool::new(false));
    let client = {
        let stop = stop.clone();
        thread::spawn(move || {
            let mut stream = TcpStream::connect(http).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            while !stop.load(Ordering::Relaxed) {
                stream.write_all(b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").unwrap();
                assert_eq!(response(&mut stream), UP.replace("close", "keep-alive"));
            }
        })
    };
    for _ in 0..KILLS {
        let id = ids();
        // Longer than an interval, or it is taken for a server that closes each link.
        let began = Instant::now();
        until("a link that has lasted", || (began.elapsed() > 4 * INTERVAL).then_some(()));
        server.sql(&format!("KILL {id}"));
        until("another link", || Some(ids()).filter(|now| *now != id && now != "NULL" && !now.contains(',')));
    }
    stop.store(true, Ordering::Relaxed);
    client.join().unwrap();
}
