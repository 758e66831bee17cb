//! All kinds do the same, as far as their kernels do: TCP, unix sockets, TCP under each version of TLS, and each of them with compressed packets.

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
    vec![
        tcp_pair().await,
        (left.into(), right.into()),
        tls_pair(&TLS12).await,
        tls_pair(&TLS13).await,
        compressed(tcp_pair().await, Codec::Zlib),
        compressed(tcp_pair().await, ZSTD),
        compressed(tls_pair(&TLS13).await, ZSTD),
    ]
}

const ZSTD: Codec = Codec::Zstd { level: 3 };

fn compressed((mut near, mut far): (Transport, Transport), codec: Codec) -> (Transport, Transport) {
    near.compress(codec, None, &mut Buffer::default());
    far.compress(codec, None, &mut Buffer::default());
    (near, far)
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
        let block = noise(1 << 20);
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
        let block = noise(1 << 20);
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
        let block = noise(1 << 20);
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

/// Bytes that cannot be compressed.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Bytes that cannot be compressed, and as many that can.
fn mixed(len: usize) -> Vec<u8> {
    let mut bytes = noise(len / 2);
    bytes.extend((0..len - len / 2).map(|n| (n / 100) as u8));
    bytes
}

#[tokio::test]
async fn packets_of_any_size_come_as_they_went() {
    for (mut near, mut far) in pairs().await {
        for len in [1, 49, 50, 51, 65_535, 65_536, 65_537, 3 << 20] {
            let sent = mixed(len);
            let expected = sent.clone();
            let writing = tokio::spawn(async move {
                near.write_all(&sent).await.unwrap();
                near.finish_writing().await;
                near
            });
            let mut read = vec![0; len];
            timeout(LONG, far.read_exact(&mut read)).await.expect("all of it comes").unwrap();
            assert!(read == expected, "{len} bytes");
            near = writing.await.unwrap();
        }
    }
}

impl Transport {
    async fn finish_writing(&self) {
        poll_fn(|context| self.poll_send_all(context)).await.unwrap();
    }
}

/// A frame with this head.
fn frame(number: u8, plain: usize, bytes: &[u8]) -> Vec<u8> {
    [&compression::head(bytes.len(), number, plain)[..], bytes].concat()
}

fn packed(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    assert!(codec.pack(bytes, &mut out).unwrap());
    out
}

/// These bytes are what is read next.
async fn comes(end: &mut Transport, expected: &[u8]) {
    let mut read = vec![0; expected.len()];
    end.read_exact(&mut read).await.unwrap();
    assert_eq!(read, expected);
}

#[tokio::test]
async fn frames_are_numbered_from_the_command_on() {
    let (mut near, mut far) = compressed(tcp_pair().await, Codec::Zlib);
    near.compression = None;
    let word = [b'x'; 60];
    for command in [
        [frame(0, 0, b"com"), frame(1, 60, &packed(Codec::Zlib, &word))].concat(),
        [frame(0, 0, b"mand"), frame(1, 0, &[b'y'; 59])].concat(),
    ] {
        near.write_all(&command).await.unwrap();
        far.read_exact(&mut [0; 63]).await.unwrap();
        far.write_all(b"answer").await.unwrap();
        far.write_all(b"goes on").await.unwrap();
        comes(&mut near, &[frame(2, 0, b"answer"), frame(3, 0, b"goes on")].concat()).await;
    }
    // Two commands at once: the answer to the first is numbered as if the second had not come.
    near.write_all(&[frame(0, 0, b"one"), frame(0, 0, b"two")].concat()).await.unwrap();
    for command in [b"one", b"two"] {
        let mut read = [0; 3];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, command);
        far.write_all(b"an").await.unwrap();
        far.write_all(b"swer").await.unwrap();
        comes(&mut near, &[frame(1, 0, b"an"), frame(2, 0, b"swer")].concat()).await;
    }
}

#[tokio::test]
async fn a_frame_may_come_as_slowly_as_it_likes() {
    for codec in [Codec::Zlib, ZSTD] {
        let (mut near, mut far) = compressed(tcp_pair().await, codec);
        near.compression = None;
        let plain = mixed(2000);
        let frame = frame(0, 2000, &packed(codec, &plain));
        let reading = tokio::spawn(async move {
            let mut read = vec![0; 2000];
            far.read_exact(&mut read).await.map(|_| (read, far))
        });
        for byte in frame {
            near.write_all(&[byte]).await.unwrap();
            // Whoever reads is woken for each of them.
            tokio::task::yield_now().await;
        }
        let (read, _far) = timeout(LONG, reading).await.expect("all comes").unwrap().unwrap();
        assert!(read == plain);
    }
    // Asked again and again in the middle of one.
    let packed = packed(ZSTD, &mixed(2000));
    let mut received = Buffer::default();
    received.put(&frame(0, 2000, &packed)[..900]);
    let mut compression = Compression::new(ZSTD, &mut received, None);
    for _ in 0..40 {
        let mut room = [0; 4000];
        let mut room = ReadBuf::new(&mut room);
        let read =
            compression.poll_read(&mut Context::from_waker(Waker::noop()), &mut room, |_, _| Poll::Pending);
        assert!(!matches!(read, Poll::Ready(Err(_))), "{read:?}");
    }
}

#[tokio::test]
async fn frames_that_lie_about_their_lengths_are_refused() {
    for codec in [Codec::Zlib, ZSTD] {
        let packed = packed(codec, &[b'x'; 1000]);
        let longer = frame(0, 1000, &[&packed[..], b"more"].concat());
        for (lie, words) in [
            (frame(0, 999, &packed), "more than its head says"),
            (frame(0, 1, &packed), "more than its head says"),
            (frame(0, 1001, &packed), "less than its head says"),
            (frame(0, 0xFF_FFFF, &packed), "less than its head says"),
            (longer, "more than its head says"),
            (frame(0, 1000, &packed[..packed.len() - 5]), "less than its head says"),
            (frame(0, 5, b""), "less than its head says"),
            (frame(0, 1000, &[0xAB; 40]), ""),
        ] {
            let (mut near, mut far) = compressed(tcp_pair().await, codec);
            far.compression = None;
            far.write_all(&lie).await.unwrap();
            drop(far);
            let mut read = vec![];
            let error = near.read_to_end(&mut read).await.unwrap_err();
            assert!(error.kind() == io::ErrorKind::InvalidData, "{error}");
            assert!(error.to_string().contains(words), "{error}, not {words}");
            assert!(read.len() <= 1000);
        }
        let (mut near, mut far) = compressed(tcp_pair().await, codec);
        far.compression = None;
        far.write_all(&frame(0, 1000, &packed)[..20]).await.unwrap();
        drop(far);
        let cut = near.read_to_end(&mut vec![]).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }
}

/// All plain bytes of `frames`, or the error behind them; nothing more comes.
fn unpacked(codec: Codec, frames: &[u8]) -> io::Result<Vec<u8>> {
    let mut received = Buffer::default();
    received.put(frames);
    let mut compression = Compression::new(codec, &mut received, None);
    let mut plain = vec![];
    loop {
        let mut room = [0; 1000];
        let mut room = ReadBuf::new(&mut room);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(read) = compression.poll_read(&mut context, &mut room, |_, _| Poll::Ready(Ok(())))
        else {
            panic!("it waits for nothing");
        };
        read?;
        if room.filled().is_empty() {
            return Ok(plain);
        }
        plain.extend_from_slice(room.filled());
    }
}

#[test]
fn no_frame_gives_more_than_its_head_says_however_it_was_changed() {
    for codec in [Codec::Zlib, ZSTD] {
        let plain = mixed(3000);
        let first = frame(0, 3000, &packed(codec, &plain));
        let frames = [&first[..], &frame(1, 0, &plain[..70])].concat();
        assert!(unpacked(codec, &frames).unwrap() == [&plain[..], &plain[..70]].concat());
        let chance = noise(20_000);
        for change in chance.chunks_exact(4) {
            let mut frames = frames.clone();
            let at = usize::from(change[0]) << 8 | usize::from(change[1]);
            let at = if change[3] < 128 { at % 40 } else { at % frames.len() };
            frames[at] ^= change[2];
            frames.truncate(frames.len() - usize::from(change[3]) % 3);
            // Where both heads are as they were, all of both comes, or an error.
            let is_inside = (7..first.len()).contains(&at) && frames.len() == first.len() + 7 + 70;
            if let Ok(plain) = unpacked(codec, &frames)
                && is_inside
            {
                assert_eq!(plain.len(), 3070);
            }
        }
    }
}

/// A server numbers the packets of its answer after the frames of the command, of which there may be many; a client sees them behind its own packet.
#[tokio::test]
async fn an_answer_is_numbered_behind_its_command() {
    let packet =
        |number: u8, payload: &[u8]| [&payload.len().to_le_bytes()[..3], &[number], payload].concat();
    let (mut near, mut far) = tcp_pair().await;
    near.compress(Codec::Zlib, Some(Side::Client), &mut Buffer::default());
    far.compress(Codec::Zlib, Some(Side::Server), &mut Buffer::default());
    for (command, packets) in [(vec![7; 200_000], 1), (vec![8; 1], 1)] {
        near.begin_command();
        let sent = packet(0, &command);
        let long = vec![9; 70_000];
        let answer = [packet(5, b"one"), packet(6, b""), packet(7, &long)].concat();
        let (_, received) = tokio::join!(near.write_all(&sent), async {
            let mut received = vec![0; sent.len()];
            far.read_exact(&mut received).await.unwrap();
            far.write_all(&answer).await.unwrap();
            far.flush().await.unwrap();
            received
        });
        assert!(received == sent);
        let mut seen = vec![0; answer.len()];
        near.read_exact(&mut seen).await.unwrap();
        let expected = [packet(packets, b"one"), packet(packets + 1, b""), packet(packets + 2, &long)];
        assert!(seen == expected.concat(), "{:?}", &seen[..12]);
    }
}
