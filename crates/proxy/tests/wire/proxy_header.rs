//! PROXY headers: of a client's balancer, so that its own address counts; and for a node, so that it sees that address, too.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use fixture::{Server, free_port};
use harness::{Bench, SECOND, connect, one, routes, settings};
use link::{Link, LinkError, Login, ProxyHeader, Secret};
use proxy::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use topology::account::{Account, Accounts, Proof};
use topology::routes::{LaneState, Routes};

/// An address that is nobody's (RFC 5737).
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)), 4444);

fn listed(networks: &[&str]) -> Settings {
    let networks: Vec<_> = networks.iter().map(|network| network.parse().unwrap()).collect();
    Settings { proxy_header_from: networks.into(), login_timeout: 10 * SECOND, ..settings() }
}

async fn announced(address: &str, header: ProxyHeader, client: SocketAddr) -> Result<Link, LinkError> {
    let login = Login::new("app", Secret::Password("secret".into()));
    Link::connect(address, &Login { proxied: Some((header, client)), ..login }, 10 * SECOND).await
}

fn refused(found: Result<Link, LinkError>) -> (u16, String) {
    match found {
        Err(LinkError::Rejected { errno, message, .. }) => (errno, message),
        other => panic!("it is refused, not {other:?}"),
    }
}

/// Only from that network may the account log in.
fn only_from(routes: &Routes, pattern: &str) -> Arc<Routes> {
    let account = |account: &Account| Account { host: pattern.into(), ..account.clone() };
    let proofs: Vec<Proof> = routes.accounts.find("app", CLIENT.ip()).unwrap().proofs.clone();
    let known = Account { user: "app".into(), host: "%".into(), proofs, ..Account::default() };
    Arc::new(Routes { accounts: Arc::new(Accounts::new(vec![account(&known)])), ..routes.clone() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balancers_clients_are_known_by_their_own_addresses_and_the_node_sees_them() {
    let server = Server::start(&["--proxy-protocol-networks=127.0.0.1"]);
    let first = only_from(&routes(1, &[(&server, LaneState::Open, 1)]), "203.0.113.%");
    for node_header in [ProxyHeader::V1, ProxyHeader::V2] {
        let settings = Settings { node_proxy_header: Some(node_header), ..listed(&["127.0.0.0/8"]) };
        let bench = Bench::new(settings, first.clone());
        for header in [ProxyHeader::V1, ProxyHeader::V2] {
            let mut client = announced(&bench.address(), header, CLIENT).await.unwrap();
            assert_eq!(one(&mut client, "SELECT USER()").await, "app@203.0.113.7");
            if node_header == ProxyHeader::V2 {
                continue;
            }
            let (errno, said) =
                refused(announced(&bench.address(), header, ([198, 51, 100, 1], 1).into()).await);
            assert_eq!(errno, 1045);
            assert!(said.contains("'app'@'198.51.100.1'"), "{said}");
            let other = announced(&bench.address(), header, "[2001:db8::1]:1".parse().unwrap()).await;
            assert!(refused(other).1.contains("'app'@'2001:db8::1'"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_comes_from_listed_addresses_and_from_nobody_else() {
    let server = Server::start(&[]);
    let first = routes(1, &[(&server, LaneState::Open, 1)]);
    let bench = Bench::new(listed(&["10.1.0.0/16", "127.0.0.2/32"]), first.clone());
    for header in [ProxyHeader::V1, ProxyHeader::V2] {
        let (errno, said) = refused(announced(&bench.address(), header, CLIENT).await);
        assert_eq!(errno, 1835);
        assert!(said.contains("127.0.0.1, which listen.proxy_header_from does not list"), "{said}");
    }
    connect(&bench.address()).await.unwrap();

    let bench = Bench::new(listed(&["127.0.0.1/32"]), first);
    let long = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xFF\xFF"[..], &[0; 20]].concat();
    for (wrong, why) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "no PROXY header"),
        (b"PROXY TCP4 nonsense\r\n", "no PROXY header"),
        (&[b'P'; 200], "no PROXY header"),
        (&long, "65535 bytes of addresses"),
        (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0C123456789012", "no PROXY header"),
    ] {
        let mut stream = TcpStream::connect(bench.address()).await.unwrap();
        stream.write_all(wrong).await.unwrap();
        let mut said = vec![];
        let _ = stream.read_to_end(&mut said).await;
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains(why) && said.contains("from 127.0.0.1 begin with one"), "{said:?}");
    }
    // A balancer that speaks for itself, and one that does not know for whom it speaks.
    for own in [&b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"[..], b"PROXY UNKNOWN\r\n"] {
        let mut stream = TcpStream::connect(bench.address()).await.unwrap();
        stream.write_all(own).await.unwrap();
        let mut greeting = [0; 20];
        stream.read_exact(&mut greeting).await.unwrap();
        assert_eq!(greeting[4], 10, "a greeting");
    }
}

/// Ended by its process id.
struct Haproxy(Child);

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A real balancer, with both versions, before the proxy: the account may come from the client's address only.
#[tokio::test(flavor = "multi_thread")]
async fn haproxy_tells_where_its_clients_are() {
    let server = Server::start(&[]);
    let first = only_from(&routes(1, &[(&server, LaneState::Open, 1)]), "127.0.0.1");
    let bench = Bench::new(listed(&["127.0.0.3/32"]), first);
    let ports = [free_port(), free_port()];
    let dir = tempfile::tempdir().unwrap();
    let mut config =
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 1m\n timeout server 1m\n".to_owned();
    for (port, how) in ports.iter().zip(["send-proxy", "send-proxy-v2"]) {
        let to = bench.address();
        config +=
            &format!("listen on{port}\n bind 127.0.0.1:{port}\n server u {to} source 127.0.0.3 {how}\n");
    }
    let file = dir.path().join("haproxy.cfg");
    std::fs::write(&file, config).unwrap();
    let child =
        Command::new("haproxy").arg("-db").arg("-f").arg(&file).stderr(Stdio::null()).spawn().unwrap();
    let _haproxy = Haproxy(child);
    for port in ports {
        let listens = async || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok();
        drop(fixture::wait::until_async("HAProxy listens", listens).await);
        let mut client = connect(&format!("127.0.0.1:{port}")).await.unwrap();
        assert_eq!(one(&mut client, "SELECT 6 * 7").await, "42");
    }
}

/// A node that was not told to take headers, and a client on the proxy's own host, for whom none is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_no_headers_serves_only_who_has_none() {
    let server = Server::start(&[]);
    for header in [ProxyHeader::V1, ProxyHeader::V2] {
        let settings = Settings { node_proxy_header: Some(header), ..listed(&["127.0.0.1/32"]) };
        let settings = Settings { hold_time: SECOND, ..settings };
        let bench = Bench::new(settings, routes(1, &[(&server, LaneState::Open, 1)]));
        // The server says so (1130), or has ended the connection before that is read; then a statement waits for as long as one may.
        match announced(&bench.address(), header, CLIENT).await {
            Ok(mut client) => {
                let said = client.query("SELECT 1", 10 * SECOND).await.unwrap_err();
                assert!(matches!(said, LinkError::Rejected { .. }), "{said}");
            }
            found => assert!(refused(found).1.contains("Proxy header is not accepted")),
        }
        let mut own = announced(&bench.address(), header, ([127, 0, 0, 1], 9).into()).await.unwrap();
        assert_eq!(one(&mut own, "SELECT 6 * 7").await, "42");
    }
}
