//! Logins under TLS, to a real server.

use std::time::Duration;

use fixture::Server;
use fixture::tls::Certificate;
use link::{Link, LinkError, Login, Secret, ServerTls};

const LONG: Duration = Duration::from_secs(20);

/// What a client needs that trusts it alone.
fn trusting(certificate: &Certificate) -> Option<ServerTls> {
    Some(ServerTls::trusting(certificate.pem().as_bytes()).unwrap())
}

#[tokio::test]
async fn a_server_under_tls_is_logged_in_to_once_it_has_proved_itself() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::of("127.0.0.1");
    let [shown, key] = certificate.server_options(dir.path());
    let server = Server::start(&[&shown, &key]);
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
    for wrong in [Certificate::of("127.0.0.1"), Certificate::of("other")] {
        let strange = Link::connect(&address, &login(trusting(&wrong)), LONG).await.unwrap_err();
        assert!(matches!(&strange, LinkError::Tls(why) if why.contains("certificate")), "{strange}");
    }
    let any = ServerTls::with_any_certificate().unwrap();
    let link = Link::connect(&address, &login(Some(any)), LONG).await.unwrap();
    assert!(link.stream.tls_in_use().unwrap().starts_with("TLSv1.3 "));
}

/// The right authority, and a certificate for somebody else.
#[tokio::test]
async fn a_certificate_of_another_host_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::of("db1.example");
    let [shown, key] = certificate.server_options(dir.path());
    let server = Server::start(&[&shown, &key]);
    let login = Login { tls: trusting(&certificate), ..Login::new("app", Secret::Password("secret".into())) };
    let refused = Link::connect(&server.address().to_string(), &login, LONG).await.unwrap_err();
    assert!(matches!(&refused, LinkError::Tls(why) if why.contains("not valid for name")), "{refused}");
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
