//! Logins under TLS, to a real server.

use std::time::Duration;

use fixture::Server;
use fixture::tls::Certificate;
use link::{Link, LinkError, Login, Secret, ServerTls};

const LONG: Duration = Duration::from_secs(20);

/// What a client needs that trusts it alone.
fn trusting(certificate: &Certificate) -> Option<ServerTls> {
    Some(ServerTls(certificate.client(rustls::ALL_VERSIONS)))
}

#[tokio::test]
async fn a_server_under_tls_is_logged_in_to_once_it_has_proved_itself() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::of("127.0.0.1");
    let (certificate_file, key_file) = (dir.path().join("crt"), dir.path().join("key"));
    std::fs::write(&certificate_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, certificate.key_pem()).unwrap();
    let server = Server::start(&[
        &format!("--ssl-cert={}", certificate_file.display()),
        &format!("--ssl-key={}", key_file.display()),
    ]);
    server
        .sql("CREATE USER tls@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('secret') REQUIRE SSL");
    let address = server.address().to_string();
    let login = |tls| Login { tls, ..Login::new("tls", Secret::Password("secret".into())) };

    let mut link = Link::connect(&address, &login(trusting(&certificate)), LONG).await.unwrap();
    assert!(link.stream.tls_in_use().unwrap().starts_with("TLSv1.3 TLS13_"));
    let version = link.query("SHOW STATUS LIKE 'Ssl_version'", LONG).await.unwrap();
    assert_eq!(version.text(0, 1), Some("TLSv1.3"));
    let large = link.query("SELECT REPEAT('x', 3000000)", LONG).await.unwrap();
    assert_eq!(large.text(0, 0).map(str::len), Some(3_000_000));

    let plain = Link::connect(&address, &login(None), LONG).await.unwrap_err();
    assert!(matches!(plain, LinkError::Rejected { errno: 1045, .. }), "{plain}");
    let other = trusting(&Certificate::of("127.0.0.1"));
    let strange = Link::connect(&address, &login(other), LONG).await.unwrap_err();
    assert!(matches!(&strange, LinkError::Tls(why) if why.contains("certificate")), "{strange}");
}

#[tokio::test]
async fn a_server_without_tls_is_told_neither_name_nor_password() {
    let server = Server::start(&["--skip-ssl"]);
    let tls = trusting(&Certificate::of("127.0.0.1"));
    let login = Login { tls, ..Login::new("app", Secret::Password("secret".into())) };
    let refused = Link::connect(&server.address().to_string(), &login, LONG).await.unwrap_err();
    assert!(matches!(&refused, LinkError::Tls(why) if why.contains("offers none")), "{refused}");
    let link = Link::connect_to(&link::Endpoint::Unix(server.socket()), &login, LONG).await.unwrap();
    assert_eq!(link.stream.tls_in_use(), None);
}
