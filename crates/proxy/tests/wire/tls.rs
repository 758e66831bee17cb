//! Clients under TLS: the package's own client and ours are served as plain ones are, through a move and through results larger than all buffers;
//! and what is no TLS, or none where it must be, ends for that client alone.

use std::io::Write;
use std::time::Duration;

use fixture::Server;
use fixture::packet::{read_packet, write_packet};
use fixture::tls::Certificate;
use harness::{Bench, SECOND, cli, connect_under, one, routes, settings, shows, unpacked};
use link::{LinkError, ServerTls};
use protocol::capability::Caps;
use protocol::handshake::{Greeting, LoginRequest, SSL_REQUEST_LEN};
use proxy::{Settings, Stats};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use topology::routes::LaneState;

const SOON: Duration = Duration::from_secs(30);

fn certificate() -> Certificate {
    Certificate::of("127.0.0.1")
}

fn with(certificate: &Certificate, is_required: bool) -> Settings {
    Settings { tls: shows(certificate, is_required), ..settings() }
}

/// What a client needs that trusts it alone.
fn trusting(certificate: &Certificate) -> Option<ServerTls> {
    Some(ServerTls::trusting(certificate.pem().as_bytes()).unwrap())
}

fn bench(server: &Server, settings: Settings) -> Bench {
    Bench::new(settings, routes(1, &[(server, LaneState::Open, 1)]))
}

/// A file with these bytes.
fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn the_packages_client_has_tls_and_knows_whom_it_talks_to() {
    let server = Server::start(&[]);
    let shown = certificate();
    let bench = bench(&server, with(&shown, false));
    let authority = file(shown.pem().as_bytes());
    let path = authority.path().display().to_string();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let arguments =
            ["--ssl-verify-server-cert", &format!("--ssl-ca={path}"), &format!("--tls-version={version}")];
        let (is_well, said) = cli(&bench, &arguments, "\\s\nSELECT 6 * 7;\n");
        assert!(is_well && said.contains("Cipher in use is") && said.contains("\n42\n"), "{version}: {said}");
    }
    let other = file(certificate().pem().as_bytes());
    let arguments = ["--ssl-verify-server-cert", &format!("--ssl-ca={}", other.path().display())];
    let (is_well, said) = cli(&bench, &arguments, "SELECT 6 * 7;\n");
    assert!(!is_well && said.contains("certificate"), "another authority: {said}");
    let (is_well, said) = cli(&bench, &["--skip-ssl"], "\\s\nSELECT 6 * 7;\n");
    assert!(is_well && said.contains("Not in use") && said.contains("\n42\n"), "{said}");
}

/// The client of MariaDB 11.8 with its defaults, which trusts no authority for a self-signed certificate: the account's password proves it.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_looks_at_certificates_is_convinced_by_the_password() {
    let server = Server::start(&[]);
    // The client looks at no certificate of 127.0.0.1.
    let there = |tls| Settings { listen: vec!["127.0.0.2:0".into()], tls, ..settings() };
    let bench = bench(&server, there(shows(&certificate(), false)));
    let client = |bench: &Bench| {
        let done = std::process::Command::new(unpacked("mariadb-11.8").join("bin/mariadb"))
            .args(["--no-defaults", "-uapp", "-psecret", "-h127.0.0.2", "-e", "\\s"])
            .arg(format!("-P{}", bench.proxy.local_addresses()[0].port()))
            .output()
            .unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    };
    let said = client(&bench);
    assert!(said.contains("Cipher in use is TLS_AES") && said.contains("cert is OK"), "{said}");
    // Somebody who stands between has a certificate of his own, and can pass on no other proof than that of ours.
    let mut strange = shows(&certificate(), false).unwrap();
    strange.fingerprint = certificate().fingerprint();
    bench.proxy.apply(there(Some(strange)), SECOND);
    let said = client(&bench);
    assert!(said.contains("ERROR 2026") && !said.contains("Cipher in use"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_must_use_tls_and_does_not_is_told_as_by_a_server() {
    let server = Server::start(&[]);
    let shown = certificate();
    let bench = bench(&server, with(&shown, true));
    let (is_well, through) = cli(&bench, &["--skip-ssl"], "SELECT 1;\n");
    assert!(!is_well);
    let number = |said: &str| said.split_inclusive("): ").next().unwrap().to_owned();
    assert_eq!(number(&through), "ERROR 3159 (08004): ", "{through}");
    let (is_well, said) = cli(&bench, &["--ssl"], "SELECT 6 * 7;\n");
    assert!(is_well && said.contains("42"), "{said}");
    let refusals =
        |stats: &Stats| stats.errors.iter().find(|error| error.code == 3159).map(|error| error.count);
    bench.shows(refusals, Some(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_under_tls_moves_as_a_plain_one_does() {
    let (one_server, other) = (Server::start(&[]), Server::start(&[]));
    let shown = certificate();
    let first = routes(1, &[(&one_server, LaneState::Open, 1), (&other, LaneState::Shut, 1)]);
    let bench = Bench::new(with(&shown, true), first);
    let mut client = connect_under(&bench.address(), trusting(&shown)).await.unwrap();
    assert!(client.stream.tls_in_use().unwrap().starts_with("TLSv1.3"));
    one(&mut client, "SET @kept = 'it'").await;
    let before = one(&mut client, "SELECT @@port").await;
    bench.follow(routes(2, &[(&one_server, LaneState::Shut, 1), (&other, LaneState::Open, 2)])).await;
    assert_eq!(one(&mut client, "SELECT @kept").await, "it");
    assert_ne!(one(&mut client, "SELECT @@port").await, before);
}

/// To the nodes, whatever the client does.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_logged_in_to_under_tls_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let of_nodes = certificate();
    let [shown, key] = of_nodes.server_options(dir.path());
    let start = || Server::start(&[&shown, &key, "--require-secure-transport=ON"]);
    let (one_server, other) = (start(), start());
    let first = routes(1, &[(&one_server, LaneState::Open, 1), (&other, LaneState::Shut, 1)]);
    let under = |node_tls| Settings { node_tls, ..with(&certificate(), false) };
    let bench = Bench::new(under(trusting(&of_nodes)), first);
    let in_use =
        "SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_version'";
    let mut plain = connect_under(&bench.address(), None).await.unwrap();
    assert_eq!(one(&mut plain, in_use).await, "TLSv1.3");
    let before = one(&mut plain, "SELECT @@port").await;
    bench.follow(routes(2, &[(&one_server, LaneState::Shut, 1), (&other, LaneState::Open, 2)])).await;
    assert_ne!(one(&mut plain, "SELECT @@port").await, before);
    assert_eq!(one(&mut plain, in_use).await, "TLSv1.3", "it has moved as it came");

    let refused = async |node_tls| {
        bench.proxy.apply(under(node_tls), SECOND);
        connect_under(&bench.address(), None).await.unwrap_err().to_string()
    };
    let said = refused(trusting(&certificate())).await;
    assert!(
        said.contains("no TLS to this server") && said.contains("certificate"),
        "another authority: {said}"
    );
    let said = refused(None).await;
    assert!(
        said.contains("1045") && said.contains("cluster.tls is"),
        "the node's own words, and ours: {said}"
    );
    assert_eq!(one(&mut plain, in_use).await, "TLSv1.3", "who is there stays");
}

/// Results and files that are larger than every buffer on the way, and a client that is slow to read.
#[tokio::test(flavor = "multi_thread")]
async fn large_results_and_files_come_whole() {
    let server = Server::start(&[]);
    let shown = certificate();
    let bench = bench(&server, with(&shown, false));
    let query = "SELECT seq, REPEAT(MD5(seq), 2000) FROM seq_1_to_300;\n";
    let (is_well, plain) = cli(&bench, &["--skip-ssl"], query);
    assert!(is_well && plain.len() > 19_000_000);
    let (is_well, secured) = cli(&bench, &["--ssl", "--quick"], query);
    assert!(is_well && secured == plain, "{} bytes, not {}", secured.len(), plain.len());

    let text = |number: u64| format!("some text of row {number}");
    let mut rows = tempfile::NamedTempFile::new().unwrap();
    for number in 0..400_000 {
        writeln!(rows, "{number}\t{}", text(number)).unwrap();
    }
    let load = format!(
        "CREATE TABLE loaded (n INT, t TEXT);\nLOAD DATA LOCAL INFILE '{}' INTO TABLE loaded;\n\
         SELECT COUNT(*), SUM(n), SUM(LENGTH(t)) FROM loaded;\n",
        rows.path().display()
    );
    let (is_well, said) = cli(&bench, &["--ssl", "--local-infile=1"], &load);
    let texts: usize = (0..400_000).map(|number| text(number).len()).sum();
    let sum: u64 = (0..400_000).sum();
    assert!(is_well && said.contains(&format!("400000\t{sum}\t{texts}\n")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_late_gets_all_of_it() {
    let server = Server::start(&[]);
    let shown = certificate();
    let bench = bench(&server, with(&shown, true));
    let mut client = connect_under(&bench.address(), trusting(&shown)).await.unwrap();
    let statement = b"\x03SELECT REPEAT('x', 12000000)";
    let mut packet = vec![];
    protocol::packet::put_packet(&mut packet, &mut 0, statement);
    assert_eq!(client.stream.try_write(&packet).unwrap(), packet.len());
    // The proxy writes until nothing more goes, and waits.
    bench.shows(|stats| stats.busy.iter().any(|busy| busy.what.contains("has not read")), true).await;
    let mut bytes = vec![0; 12_000_000];
    timeout(SOON, client.stream.read_exact(&mut bytes)).await.expect("all comes").unwrap();
    while client.fill().await.unwrap() > 0 && !client.buffer.bytes().ends_with(&[2, 0]) {}
    assert!(bytes[1000..].iter().all(|byte| *byte == b'x'));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_certificates_are_for_new_clients() {
    let server = Server::start(&[]);
    let (first, second) = (certificate(), certificate());
    let bench = bench(&server, with(&first, true));
    let mut old = connect_under(&bench.address(), trusting(&first)).await.unwrap();
    bench.proxy.apply(with(&second, true), SECOND);
    assert_eq!(one(&mut old, "SELECT 1").await, "1");
    let refused = connect_under(&bench.address(), trusting(&first)).await.unwrap_err();
    assert!(matches!(&refused, LinkError::Tls(why) if why.contains("certificate")), "{refused}");
    let mut new = connect_under(&bench.address(), trusting(&second)).await.unwrap();
    assert_eq!((one(&mut old, "SELECT 2").await, one(&mut new, "SELECT 3").await), ("2".into(), "3".into()));
}

/// What comes in place of a client's part of the handshake.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_tls_ends_for_that_client_alone() {
    let server = Server::start(&[]);
    let shown = certificate();
    let bench = bench(&server, with(&shown, true));
    let mut good = connect_under(&bench.address(), trusting(&shown)).await.unwrap();
    let request = LoginRequest {
        caps: Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::SSL,
        max_packet: 1 << 24,
        charset: 45,
        user: b"app".to_vec(),
        auth: vec![],
        database: None,
        plugin: None,
        attrs: vec![],
        zstd_level: 0,
    }
    .encode();
    let noise: Vec<u8> = (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &noise, &request, &[0x16, 3, 1, 0xff, 0xff], &[]] {
        let mut stream = TcpStream::connect(bench.address()).await.unwrap();
        let (_, greeting) = read_packet(&mut stream).await.unwrap();
        assert!(Greeting::parse(&greeting).unwrap().caps.has(Caps::SSL));
        write_packet(&mut stream, 1, &request[..SSL_REQUEST_LEN]).await.unwrap();
        // It may be gone before all is written.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, garbage).await;
        let mut said = vec![];
        // The login's time limit ends a handshake that stalls.
        let _ = timeout(SOON, stream.read_to_end(&mut said)).await.expect("it ends");
        assert_eq!(one(&mut good, "SELECT 1").await, "1");
    }
    bench.shows(|stats| stats.clients, 1).await;
    let plain = connect_under(&bench.address(), None).await.unwrap_err();
    assert!(matches!(plain, LinkError::Rejected { errno: 3159, .. }), "{plain}");
}
