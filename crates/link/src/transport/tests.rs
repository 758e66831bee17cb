//! Both kinds do the same, as far as their kernels do.

use std::time::Instant;

use fixture::wait::until_async;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Two ends of a connection of each kind.
async fn pairs() -> Vec<(Transport, Transport)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let (left, right) = UnixStream::pair().unwrap();
    vec![(near.into(), far.into()), (left.into(), right.into())]
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
        until_async("the peer sees it", async || far.has_hung_up()).await;
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
        let is_tcp = matches!(near, Transport::Tcp(_));
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
        let is_tcp = matches!(near, Transport::Tcp(_));
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
