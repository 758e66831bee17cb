//! Getting in, on a real MariaDB and against peers that misbehave.

use std::time::{Duration, Instant};

use crate::server::{LONG, Server, address, app, link_to};
use fixture::packet::{read_packet, write_packet};
use fixture::scripted::{Door, ScriptedNode};
use link::{Link, LinkError, Login, Secret, Unanswered};
use protocol::auth::{caching_sha2, clear, ed25519, native};
use protocol::capability::Caps;
use protocol::handshake::{AuthSwitch, Greeting};
use protocol::ok::{Change, OkPacket, put_err};
use tokio::net::TcpListener;

const SHORT: Duration = Duration::from_millis(200);

fn errno(found: Result<Link, LinkError>) -> u16 {
    match found {
        Err(LinkError::Rejected { errno, .. }) => errno,
        other => panic!("rejected by the server was expected, not {other:?}"),
    }
}

#[tokio::test]
async fn a_real_server_lets_in_and_keeps_out() {
    // Three connections and one for an account with SUPER; none of the accounts used for the flood has it.
    let server = Server::start(&["--max-connections=10"]);
    let address = address(&server);

    // by password, by what a proxy has learned, without any
    let link = link_to(&server).await;
    assert!(link.greeting.version.contains("MariaDB"), "{}", link.greeting.version);
    assert!(link.greeting.caps.has(Caps::PROGRESS), "MariaDB's upper capabilities: {:?}", link.greeting.caps);
    assert_eq!(link.login_ok.first(), Some(&0));
    let stage1 = Secret::Stage1(native::stage1(b"secret"));
    Link::connect(&address, &Login { secret: stage1, ..app() }, LONG).await.unwrap();
    Link::connect(&address, &Login::new("open", Secret::None), LONG).await.unwrap();
    Link::connect(&format!("localhost:{}", server.address().port()), &app(), LONG).await.unwrap();

    // a database, a collation above 255, attributes, session tracking from the first OK on
    let caps = Login::PLAIN | Caps::SESSION_TRACK | Caps::PROGRESS | Caps::CACHE_METADATA;
    let login = Login { database: Some(b"shop".to_vec()), charset: 2304, caps, ..app() };
    let mut link = Link::connect(&address, &login, LONG).await.unwrap();
    assert!(link.caps.has(Caps::CACHE_METADATA) && !link.caps.has(Caps::LONG_PASSWORD));
    let asked = "SELECT DATABASE(), @@collation_connection, \
                 (SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = 'program_name' LIMIT 1)";
    let rows = link.query(asked, LONG).await.unwrap();
    assert_eq!(rows.text(0, 0), Some("shop"));
    println!("collation 2304 at login gives {:?}", rows.text(0, 1));
    let ok = OkPacket::parse(&link.login_ok, link.caps).unwrap();
    println!("the login's OK tells: {:?}", ok.changes().collect::<Vec<_>>());
    assert!(ok.changes().any(|change| change == Ok(Change::Schema(b"shop"))));

    // refused: wrong password, unknown account, unknown database, an account of another plugin
    let wrong = Login { secret: Secret::Password("Secret".into()), ..app() };
    assert_eq!(errno(Link::connect(&address, &wrong, LONG).await), 1045);
    let nobody = Login { user: "nobody".into(), ..app() };
    assert_eq!(errno(Link::connect(&address, &nobody, LONG).await), 1045);
    let elsewhere = Login { database: Some(b"nowhere".to_vec()), ..app() };
    assert_eq!(errno(Link::connect(&address, &elsewhere, LONG).await), 1049);
    let rooted = Link::connect(&address, &Login { user: "rooted".into(), ..app() }, LONG).await;
    println!("an account with unix_socket over TCP: {rooted:?}");
    assert!(rooted.is_err());

    // full: the ERR comes in place of the greeting
    let mut held = Vec::new();
    let full = loop {
        match Link::connect(&address, &Login::new("open", Secret::None), LONG).await {
            Ok(link) => held.push(link),
            Err(error) => break error,
        }
        assert!(held.len() <= 20, "max_connections does not hold");
    };
    println!("too many connections: {full:?}");
    assert!(matches!(full, LinkError::Rejected { errno: 1040, .. }), "{full:?}");
}

#[tokio::test]
async fn nobody_listens() {
    let found = Link::connect(&format!("127.0.0.1:{}", fixture::free_port()), &app(), LONG).await;
    assert_eq!(found.unwrap_err(), LinkError::Refused);
}

#[tokio::test]
async fn a_socket_that_nobody_has_or_whose_queue_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let place = link::Endpoint::Unix(path.clone());
    let asked = async |patience| Link::connect_to(&place, &app(), patience).await.map(drop);
    assert_eq!(asked(LONG).await.unwrap_err(), LinkError::NoSocket);
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(0).unwrap();
    // The kernel's queue has room for one more than it was told; then nobody gets in before somebody was taken out.
    let _first = std::os::unix::net::UnixStream::connect(&path).unwrap();
    assert_eq!(asked(SHORT).await.unwrap_err(), LinkError::TimedOut { after: SHORT });
    // The first, and then the one that waited: it is let in, and nobody speaks to it.
    let takes = {
        let listener = listener.try_clone().unwrap();
        tokio::task::spawn_blocking(move || (0..2).for_each(|_| drop(listener.accept().unwrap())))
    };
    let found = asked(LONG).await;
    takes.await.unwrap();
    assert!(matches!(found, Err(LinkError::Closed | LinkError::Reset)), "{found:?}");
    drop(listener);
    assert_eq!(
        asked(LONG).await.unwrap_err(),
        LinkError::NoSocket,
        "the file is there, and nobody behind it"
    );
}

#[tokio::test]
async fn no_such_host() {
    let found = Link::connect("no-such-host.invalid:3306", &app(), LONG).await.unwrap_err();
    assert!(
        matches!(&found, LinkError::Unreachable(why) if why.contains("no-such-host.invalid")),
        "{found:?}"
    );
    assert!(Link::connect("no port at all", &app(), LONG).await.is_err());
}

#[tokio::test]
async fn a_silent_listener_is_given_up_in_time() {
    let silent = ScriptedNode::behind(Door::Silent, Login::PLAIN, |_| vec![]).await;
    let begun = Instant::now();
    let found = Link::connect(&silent.address().to_string(), &app(), SHORT).await;
    assert_eq!(found.unwrap_err(), LinkError::TimedOut { after: SHORT });
    assert!(begun.elapsed() >= SHORT && begun.elapsed() < LONG / 2);
}

/// A peer that says these packets, each after a packet of ours (but for the first), and then closes.
async fn talker(packets: Vec<Vec<u8>>) -> (ScriptedNode, String) {
    let node = ScriptedNode::behind(Door::Talks(packets), Login::PLAIN, |_| vec![]).await;
    let address = node.address().to_string();
    (node, address)
}

fn greeting(plugin: &str) -> Vec<u8> {
    let caps = Login::PLAIN;
    Greeting {
        version: "8.4.0".into(),
        connection_id: 7,
        salt: *b"abcdefghijklmnopqrst",
        caps,
        charset: 45,
        status: 2,
        plugin: plugin.into(),
    }
    .encode()
}

#[tokio::test]
async fn a_switch_of_plugins_is_followed_to_the_native_one() {
    let ok = vec![0, 0, 0, 2, 0, 0, 0];
    let switch = AuthSwitch::to(native::PLUGIN, b"tsrqponmlkjihgfedcba").encode();
    let (_peer, address) = talker(vec![greeting("caching_sha2_password"), switch, ok]).await;
    let link = Link::connect(&address, &app(), LONG).await.unwrap();
    assert_eq!((link.greeting.connection_id, link.status), (7, 2));
}

#[tokio::test]
async fn a_plugin_we_do_not_speak_is_named() {
    let switch = AuthSwitch { plugin: "auth_gssapi_client".into(), data: b"Password: \0".to_vec() }.encode();
    let (_peer, address) = talker(vec![greeting("auth_gssapi_client"), switch]).await;
    let found = Link::connect(&address, &app(), LONG).await.unwrap_err();
    assert_eq!(found, LinkError::Unanswered(Unanswered::NotSpoken { plugin: "auth_gssapi_client".into() }));
}

#[tokio::test]
async fn a_server_that_asks_for_the_password_itself_over_a_plain_way_does_not_get_it() {
    let sha2 = AuthSwitch { plugin: caching_sha2::PLUGIN.into(), data: [b'x'; 21].to_vec() }.encode();
    let clear = AuthSwitch { plugin: clear::PLUGIN.into(), data: vec![] }.encode();
    for (packets, plugin) in [
        (vec![greeting(clear::PLUGIN), clear], clear::PLUGIN),
        (vec![greeting(native::PLUGIN), sha2, caching_sha2::FULL.to_vec()], caching_sha2::PLUGIN),
        (vec![greeting(caching_sha2::PLUGIN), caching_sha2::FULL.to_vec()], caching_sha2::PLUGIN),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heard = vec![];
            let mut seq = 0;
            for packet in packets {
                write_packet(&mut stream, seq, &packet).await.unwrap();
                let (head, payload) = read_packet(&mut stream).await.unwrap();
                seq = head.seq.wrapping_add(1);
                heard.extend(payload);
            }
            drop(stream);
            heard
        });
        let found = Link::connect(&address, &app(), LONG).await.unwrap_err();
        assert_eq!(found, LinkError::Unanswered(Unanswered::Withheld { plugin: plugin.into() }));
        assert!(found.to_string().contains("use TLS"), "{found}");
        let heard = server.await.unwrap();
        assert!(!heard.windows(6).any(|bytes| bytes == b"secret"), "{heard:?}");
    }
}

#[tokio::test]
async fn accounts_of_mariadbs_ed25519() {
    let server = Server::start(&["--plugin-load-add=auth_ed25519"]);
    let mut link = link_to(&server).await;
    for user in [
        "signs@'%' IDENTIFIED VIA ed25519 USING PASSWORD('secret')",
        "two@'%' IDENTIFIED VIA ed25519 USING PASSWORD('secret') OR mysql_native_password USING PASSWORD('secret')",
        "later@'%' IDENTIFIED VIA ed25519 USING PASSWORD('another') OR mysql_native_password USING PASSWORD('secret')",
    ] {
        link.query(&format!("CREATE USER {user}"), LONG).await.unwrap();
    }
    let stored =
        "SELECT JSON_VALUE(Priv, '$.authentication_string') FROM mysql.global_priv WHERE User = 'signs'";
    let rows = link.query(stored, LONG).await.unwrap();
    let key = ed25519::parse_stored(rows.text(0, 0).unwrap()).unwrap();
    assert_eq!(key, ed25519::public_key(b"secret"), "as the server stores it");

    let connected = async |user: &str, secret: Secret| {
        let login = Login { user: user.into(), secret, ..app() };
        Link::connect(&address(&server), &login, LONG).await.map(drop)
    };
    let password = || Secret::Password("secret".into());
    connected("signs", password()).await.unwrap();
    connected("two", password()).await.unwrap();
    connected("later", password()).await.unwrap();
    let wrong = connected("signs", Secret::Password("Secret".into())).await;
    assert!(matches!(wrong, Err(LinkError::Rejected { errno: 1045, .. })), "{wrong:?}");
    // A digest, as the proxy has it: enough where one of the account's plugins takes it.
    let digest = || Secret::Stage1(native::stage1(b"secret"));
    connected("two", digest()).await.unwrap();
    let signs = connected("signs", digest()).await.unwrap_err();
    assert_eq!(signs, LinkError::Unanswered(Unanswered::ForAnother { plugin: ed25519::PLUGIN.into() }));
    let unix = link::Endpoint::Unix(server.socket());
    let login = Login { user: "signs".into(), ..app() };
    Link::connect_to(&unix, &login, LONG).await.unwrap();
}

#[tokio::test]
async fn peers_that_speak_something_else() {
    let mut blocked = Vec::new();
    put_err(&mut blocked, 1129, b"HY000", "Host is blocked");
    for (packets, wanted) in [
        (vec![], LinkError::Closed),
        (vec![b"SSH-2.0-x".to_vec()], LinkError::Protocol(String::new())),
        (vec![greeting("x")], LinkError::Closed),
        (vec![greeting("x"), b"what?".to_vec()], LinkError::Protocol(String::new())),
        (vec![greeting("x"), vec![]], LinkError::Protocol(String::new())),
        (
            vec![blocked],
            LinkError::Rejected { errno: 1129, state: *b"HY000", message: "Host is blocked".into() },
        ),
    ] {
        let (_peer, address) = talker(packets).await;
        let found = Link::connect(&address, &app(), LONG).await.unwrap_err();
        let is_same = match (&found, &wanted) {
            // The peer closes with our login request unread: its kernel may reset.
            (LinkError::Reset, LinkError::Closed) => true,
            (LinkError::Protocol(_), LinkError::Protocol(_)) => true,
            (found, wanted) => found == wanted,
        };
        assert!(is_same, "{found:?}, not {wanted:?}");
    }
}
