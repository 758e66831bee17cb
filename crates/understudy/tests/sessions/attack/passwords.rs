//! Guesses at a password: after a few wrong ones the address is not listened to any more, and everybody else is let in all the while.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use fixture::packet::read_packet;
use lab::stage::account::{APP_PASSWORD, APP_USER};
use protocol::auth::native;
use protocol::capability::Caps;
use protocol::handshake::{Greeting, LoginRequest};
use protocol::ok::ErrPacket;
use protocol::packet::put_packet;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::scene::{Scene, body, statement};

/// Wrong passwords at once, as many as once left the account open.
const GUESSES: usize = 30;
/// The default of `proxy.password_errors_max`.
const LOOKED_AT: usize = 20;
/// Where they come from.
const GUESSER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);
/// The code and the sentence for what is not looked at any more.
const TOO_MANY: u16 = 9120;
const ACCESS_DENIED: u16 = 1045;

async fn payload(stream: &mut TcpStream) -> Vec<u8> {
    read_packet(stream).await.unwrap().1
}

/// Tries to log in from `from`; the error's code and sentence, or `None` when it is let in.
async fn guess(mysql: SocketAddr, from: Ipv4Addr, password: String) -> Option<(u16, String)> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let mut stream = socket.connect(mysql).await.unwrap();
    let greeting = Greeting::parse(&payload(&mut stream).await).unwrap();
    let request = LoginRequest {
        caps: Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::PLUGIN_AUTH | Caps::TRANSACTIONS,
        max_packet: 1 << 24,
        charset: 45,
        user: APP_USER.into(),
        auth: native::reply(&native::stage1(password.as_bytes()), &greeting.salt).to_vec(),
        database: None,
        plugin: Some(native::PLUGIN.into()),
        attrs: vec![],
        zstd_level: 0,
    };
    let mut out = vec![];
    put_packet(&mut out, &mut 1, &request.encode());
    stream.write_all(&out).await.unwrap();
    let answer = payload(&mut stream).await;
    if answer[0] == 0 {
        return None;
    }
    let error = ErrPacket::parse(&answer).unwrap();
    Some((error.code, String::from_utf8_lossy(error.message).into_owned()))
}

/// Guesses from one address; a client of another one logs in meanwhile.
pub async fn guessed(scene: &Scene) {
    let began = Instant::now();
    let guesses: Vec<_> =
        (0..GUESSES).map(|n| tokio::spawn(guess(scene.mysql, GUESSER, format!("wrong-{n}")))).collect();
    let mut slowest = Duration::ZERO;
    while !guesses.iter().all(tokio::task::JoinHandle::is_finished) {
        slowest = slowest.max(statement(scene.mysql).await);
    }
    let mut codes = vec![];
    for guess in guesses {
        let (code, sentence) = guess.await.unwrap().expect("a wrong password is refused");
        // Told after how long to try again.
        assert!(code != TOO_MANY || sentence.contains(" s"), "{sentence}");
        codes.push(code);
    }
    let count = |wanted| codes.iter().filter(|code| **code == wanted).count();
    println!(
        "{GUESSES} wrong passwords: {} looked at, {} not, in {:?}; slowest login and statement from elsewhere {slowest:?}",
        count(ACCESS_DENIED),
        count(TOO_MANY),
        began.elapsed()
    );
    assert_eq!((count(ACCESS_DENIED), count(TOO_MANY)), (LOOKED_AT, GUESSES - LOOKED_AT));
    let right = guess(scene.mysql, GUESSER, APP_PASSWORD.into()).await;
    assert_eq!(right.map(|(code, _)| code), Some(TOO_MANY), "not even the right one is looked at");
    statement(scene.mysql).await;

    let refused = GUESSES - LOOKED_AT + 1;
    let metrics = body(scene.http, "/metrics");
    let is_counted = |line: &str| {
        line.starts_with("understudy_errors_total{")
            && line.contains(&format!("code=\"{TOO_MANY}\""))
            && line.ends_with(&format!(" {refused}"))
    };
    assert!(metrics.lines().any(is_counted), "{metrics}");
}
