//! All kinds do the same, as far as their kernels do: TCP, unix sockets, and TCP under each version of TLS.

use std::time::Instant;

use fixture::tls::Certificate;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// A server that proves itself by a certificate of its own, and a client that trusts it.
fn configs(version: &'static SupportedProtocolVersion) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let certificate = Certificate::of(NAME);
    (certificate.server(&[version]), certificate.client(&[version]))
}

const NAME: &str = "db1.test";

async fn tcp_pair() -> (Transport, Transport) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near.into(), far.into())
}

/// The near end is the client.
async fn tls_pair(version: &'static SupportedProtocolVersion) -> (Transport, Transport) {
    let (mut near, mut far) = tcp_pair().await;
    let (server, client) = configs(version);
    let mut nothing = Buffer::default();
    let (accepted, connected) = tokio::join!(
        far.accept_tls(server, &mut nothing),
        near.connect_tls(client, ServerName::try_from(NAME).unwrap())
    );
    accepted.unwrap();
    connected.unwrap();
    (near, far)
}

/// Two ends of a connection of each kind.
async fn pairs() -> Vec<(Transport, Transport)> {
    let (left, right) = UnixStream::pair().unwrap();
    vec![tcp_pair().await, (left.into(), right.into()), tls_pair(&TLS12).await, tls_pair(&TLS13).await]
}

fn is_tcp(transport: &Transport) -> bool {
    matches!(transport.socket, Socket::Tcp(_))
}

#[tokio::test]
async fn bytes_go_both_ways() {
    for (mut near, mut far) in pairs().await {
        near.write_all(b"to").await.unwrap();
        assert_eq!(far.try_write(b"fro").unwrap(), 3);
        let mut room = [0; 3];
        far.read_exact(&mut room[..2]).await.unwrap();
        assert_eq!(&room[..2], b"to");
        timeout(LONG, near.readable()).await.unwrap().unwrap();
        near.read_exact(&mut room).await.unwrap();
        assert_eq!(&room, b"fro");
        assert!(!near.has_hung_up() && !far.has_hung_up());
    }
}

#[tokio::test]
async fn an_end_is_seen_behind_bytes_that_wait() {
    for (mut near, mut far) in pairs().await {
        far.write_all(b"last words").await.unwrap();
        timeout(LONG, near.readable()).await.unwrap().unwrap();
        assert!(!near.has_hung_up());
        assert!(timeout(Duration::from_millis(20), near.until_hung_up()).await.is_err());
        drop(far);
        timeout(LONG, near.until_hung_up()).await.expect("the end is seen");
        assert!(near.has_hung_up());
        let mut said = Vec::new();
        near.read_to_end(&mut said).await.unwrap();
        assert_eq!(said, b"last words");
    }
}

#[tokio::test]
async fn an_end_without_words_is_seen_at_once() {
    for (near, far) in pairs().await {
        let waiting = tokio::spawn(async move { near.until_hung_up().await });
        tokio::task::yield_now().await;
        let began = Instant::now();
        drop(far);
        timeout(LONG, waiting).await.expect("the end is seen").unwrap();
        assert!(began.elapsed() < LOOK_EVERY, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn one_direction_can_be_closed() {
    for (mut near, mut far) in pairs().await {
        near.shutdown().await.unwrap();
        timeout(LONG, far.until_hung_up()).await.expect("the peer sees it");
        far.write_all(b"heard").await.unwrap();
        drop(far);
        let mut said = Vec::new();
        near.read_to_end(&mut said).await.unwrap();
        assert_eq!(said, b"heard");
    }
}

#[tokio::test]
async fn a_connection_is_cut_from_elsewhere() {
    for (mut near, mut far) in pairs().await {
        let cutter = near.cutter().unwrap();
        let reading = tokio::spawn(async move {
            let read = near.read(&mut [0; 8]).await;
            (read.unwrap(), near)
        });
        tokio::task::yield_now().await;
        std::thread::spawn(move || {
            cutter.cut();
            cutter.cut();
        })
        .join()
        .unwrap();
        let (read, mut near) = timeout(LONG, reading).await.expect("the reader is woken").unwrap();
        assert_eq!(read, 0);
        assert!(near.write_all(b"x").await.is_err());
        assert_eq!(timeout(LONG, far.read(&mut [0; 8])).await.expect("the peer is told").unwrap(), 0);
    }
}

#[tokio::test]
async fn what_was_not_sent_is_thrown_away_with_a_discarded_connection() {
    for (mut near, mut far) in pairs().await {
        let is_tcp = is_tcp(&near);
        let block = vec![7; 1 << 20];
        let mut taken = 0;
        while let Ok(n) = near.try_write(&block) {
            taken += n;
        }
        let cutter = near.cutter().unwrap();
        std::thread::spawn(move || {
            cutter.discard();
            cutter.discard();
        })
        .join()
        .unwrap();
        assert!(timeout(LONG, near.write_all(b"x")).await.expect("the writer is woken").is_err());
        assert!(!matches!(timeout(LONG, near.read(&mut [0; 8])).await.expect("the reader, too"), Ok(1..)));
        assert!(near.has_hung_up());
        let mut seen = vec![];
        let end = timeout(LONG, far.read_to_end(&mut seen)).await.expect("the peer is told");
        assert_eq!(end.is_err(), is_tcp, "{end:?}");
        assert_eq!(seen.len() < taken, is_tcp, "{} of {taken} bytes came", seen.len());
    }
}

#[tokio::test]
async fn a_reset_is_one_where_the_kernel_has_such() {
    for (near, mut far) in pairs().await {
        let is_tcp = is_tcp(&near);
        near.reset_on_close();
        drop(near);
        match timeout(LONG, far.read(&mut [0; 8])).await.expect("the peer is told") {
            Ok(read) => assert!(!is_tcp && read == 0),
            Err(error) => assert!(is_tcp && error.kind() == io::ErrorKind::ConnectionReset),
        }
        timeout(LONG, far.until_hung_up()).await.expect("the end is seen");
    }
}

#[tokio::test]
async fn a_full_connection_takes_nothing_at_once() {
    for (near, mut far) in pairs().await {
        let block = vec![7; 1 << 20];
        let mut sent = 0;
        let full = loop {
            match near.try_write(&block) {
                Ok(n) => sent += n,
                Err(error) => break error.kind(),
            }
            assert!(sent < 1 << 30);
        };
        assert_eq!(full, io::ErrorKind::WouldBlock);
        let reading = tokio::spawn(async move {
            let mut room = vec![0; sent];
            far.read_exact(&mut room).await.map(|_| far)
        });
        timeout(LONG, near.writable()).await.expect("there is room again").unwrap();
        timeout(LONG, reading).await.expect("all comes").unwrap().unwrap();
    }
}

/// Whether something can be read of the socket itself.
async fn has_ciphertext(transport: &Transport) {
    let has = poll_fn(|context| transport.socket.poll_has_bytes(context));
    assert!(timeout(LONG, has).await.expect("ciphertext comes"));
}

#[tokio::test]
async fn what_tls_says_for_itself_is_no_answer_and_no_end() {
    let (mut near, mut far) = tls_pair(&TLS13).await;
    assert!(near.tls_in_use().unwrap().starts_with("TLSv1.3 TLS13_"), "{:?}", near.tls_in_use());
    // The server has sent session tickets.
    has_ciphertext(&near).await;
    assert!(!near.has_something() && !near.has_hung_up());
    assert!(timeout(Duration::from_millis(20), near.readable()).await.is_err());
    far.tls.as_ref().unwrap().change_keys();
    assert_eq!(timeout(LONG, far.write(b"one")).await.unwrap().unwrap(), 3);
    assert_eq!(timeout(LONG, near.readable()).await.unwrap().ok(), Some(()));
    assert!(near.has_something());
    let mut room = [0; 3];
    near.read_exact(&mut room).await.unwrap();
    assert_eq!((&room, near.has_something()), (b"one", false));
    far.shutdown().await.unwrap();
    timeout(LONG, near.until_hung_up()).await.expect("its close_notify is an end");
    assert_eq!(near.read(&mut room).await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_no_tls_is_named() {
    let (mut near, mut far) = tcp_pair().await;
    near.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let (server, _) = configs(&TLS13);
    let error = far.accept_tls(server, &mut Buffer::default()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    let (mut near, mut far) = tcp_pair().await;
    let (server, client) = configs(&TLS13);
    let other = ServerName::try_from("db2.test").unwrap();
    let mut nothing = Buffer::default();
    let (_, refused) = tokio::join!(far.accept_tls(server, &mut nothing), near.connect_tls(client, other));
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("not valid for name") && said.contains("db2.test"), "{said}");
}

#[tokio::test]
async fn what_came_with_the_request_for_tls_is_part_of_it() {
    let (mut near, mut far) = tcp_pair().await;
    let (server, client) = configs(&TLS13);
    let accepting = async {
        let mut received = Buffer::default();
        received.fill(&mut far).await.unwrap();
        assert!(received.len() > 100);
        far.accept_tls(server, &mut received).await.unwrap();
        assert!(received.is_empty());
    };
    let (connected, ()) =
        tokio::join!(near.connect_tls(client, ServerName::try_from(NAME).unwrap()), accepting);
    connected.unwrap();
}

#[tokio::test]
async fn what_was_taken_is_sent_before_the_end() {
    // The server's end writes: a client that closes with unread session tickets makes that a reset.
    for (mut far, mut near) in [tls_pair(&TLS12).await, tls_pair(&TLS13).await] {
        let block = vec![7; 1 << 20];
        let mut taken = 0;
        while let Ok(n) = near.try_write(&block) {
            taken += n;
        }
        assert!(near.has_unsent());
        let reading = tokio::spawn(async move {
            let mut seen = vec![];
            far.read_to_end(&mut seen).await.map(|_| seen.len())
        });
        timeout(LONG, near.finish()).await.expect("it is read").unwrap();
        assert!(!near.has_unsent());
        drop(near);
        assert_eq!(timeout(LONG, reading).await.expect("it ends").unwrap().unwrap(), taken);
    }
}

/// A peer that reads, however slowly, is told from one that does not.
#[tokio::test]
async fn what_goes_of_earlier_bytes_is_seen() {
    let (mut far, near) = tls_pair(&TLS13).await;
    let block = vec![7; 1 << 20];
    // The kernel may move some to the peer's side a little later than it takes it.
    let full = async {
        loop {
            while near.try_write(&block).is_ok() {}
            let is_stuck = timeout(Duration::from_millis(20), near.writable()).await.is_err();
            if is_stuck
                && near.write_now(&block).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            {
                return;
            }
        }
    };
    timeout(LONG, full).await.expect("a peer that does not read stops it");
    let reading = tokio::spawn(async move {
        let mut room = vec![0; 8 << 20];
        while far.read(&mut room).await.unwrap() > 0 {}
    });
    loop {
        timeout(LONG, near.writable()).await.expect("something goes").unwrap();
        match near.write_now(&block) {
            Ok(0) => {}
            Ok(_) => break,
            Err(error) => panic!("something had gone, and {error}"),
        }
    }
    drop(near);
    timeout(LONG, reading).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn a_key_that_was_used_for_long_is_not_used_on() {
    let (near, _far) = tls_pair(&TLS12).await;
    let tls = near.tls.as_ref().unwrap();
    assert!(near.try_write(b"x").is_ok() && !near.is_worn());
    tls.set_records(tls::RECORDS_WORN);
    assert!(near.try_write(b"x").is_ok() && near.is_worn());
    tls.set_records(tls::RECORDS_MAX);
    assert!(near.try_write(b"x").is_err());
    let (near, _far) = tls_pair(&TLS13).await;
    near.tls.as_ref().unwrap().set_records(tls::RECORDS_MAX);
    assert!(near.try_write(b"x").is_ok(), "this version takes another key by itself");
}
