//! Loads; whether the database is good does not matter.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fixture::free_port;
use testbed::program::{LONG, bin, until};

use super::asking::{code, get, response};
use super::check_dir::CheckDir;
use super::running::Running;
use super::{SOON, alone};

#[test]
fn many_clients_and_slow_ones() {
    let _alone = alone();
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let limit = rustix::process::Rlimit { current: hard, maximum: hard };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let check_dir = CheckDir::new(&format!("host=127.0.0.1\nport={}", free_port()));
    let (check, http) = Running::check(&check_dir, &[]);
    let connect = || {
        let stream = TcpStream::connect(http).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    };
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").unwrap()
    };

    // 1,000 at the same time.
    let mut streams: Vec<TcpStream> = (0..1000).map(|_| connect()).collect();
    let began = Instant::now();
    streams.iter_mut().for_each(ask);
    for stream in &mut streams {
        assert!(response(stream).starts_with("HTTP/1.1 503 "));
    }
    println!("1,000 connections, one request each: {:?}", began.elapsed());
    assert!(began.elapsed() < 3 * SOON, "{:?}", began.elapsed());
    drop(streams);

    // Slow readers: they ask and ask, and take nothing. Others are answered meanwhile, and they are not kept for ever.
    let mut slow: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    let flood = b"GET /status HTTP/1.1\r\nConnection: keep-alive\r\n\r\n".repeat(2000);
    for stream in &mut slow {
        stream.set_nonblocking(true).unwrap();
        // As much as goes.
        let _ = stream.write(&flood);
    }
    let began = Instant::now();
    assert_eq!(code(http), "503");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());

    // 10,000 that do nothing, less where this machine does not allow so many.
    let count = hard.map_or(10_000, |hard| hard.saturating_sub(1000).min(10_000)) as usize;
    let before = check.resident_bytes();
    let mut idle: Vec<TcpStream> = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = connect();
        ask(&mut stream);
        assert!(response(&mut stream).starts_with("HTTP/1.1 503 "));
        idle.push(stream);
    }
    let growth = check.resident_bytes().saturating_sub(before) / count as u64;
    println!("{count} idle connections: {growth} bytes each");
    assert!(growth < 8 * 1024, "{growth} bytes for each idle connection");
    let began = Instant::now();
    assert_eq!(code(http), "503");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let metrics = get(http, "/metrics");
    let open: usize = metrics
        .split("\nunderstudy_check_connections ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(open >= count, "{metrics}");
    drop((idle, slow));
    until("they are let go", || {
        get(http, "/metrics").contains("\nunderstudy_check_connections 1\n").then_some(())
    });
    check.stop();
}

/// Connections that are reset at once, in turn after nothing, half a request, and garbage.
#[test]
fn a_flood_of_no_requests_delays_nobody_and_takes_no_memory() {
    let _alone = alone();
    let check_dir = CheckDir::new(&format!("host=127.0.0.1\nport={}", free_port()));
    let (check, http) = Running::check(&check_dir, &[]);
    let pieces: [&[u8]; 3] = [b"", b"GET / HT", b"\x00\xff\x16\x03garbage"];
    let flood = move |count: usize| {
        for (number, piece) in pieces.into_iter().cycle().take(count).enumerate() {
            // The kernel lets some 4,000 connections wait to be accepted, and beyond those each waits a second, whoever listens.
            if number % 1000 == 999 {
                assert_eq!(code(http), "503");
            }
            let mut stream = TcpStream::connect(http).unwrap();
            // The server may have refused the piece before.
            let _ = stream.write_all(piece);
            // A reset, which leaves no port in TIME_WAIT.
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    };
    // What the first crowd takes, the program keeps for the next.
    flood(1000);
    let before = check.resident_bytes();
    let flooding = thread::spawn(move || flood(20_000));
    let (mut count, mut worst) = (0, Duration::ZERO);
    while !flooding.is_finished() {
        let began = Instant::now();
        assert_eq!(code(http), "503");
        (count, worst) = (count + 1, worst.max(began.elapsed()));
    }
    flooding.join().unwrap();
    println!("{count} answers beside 20,000 connections that were reset, worst {worst:?}");
    assert!(count > 10 && worst < SOON, "{count} {worst:?}");
    let growth = check.resident_bytes().saturating_sub(before);
    assert!(growth < 8 << 20, "{growth} bytes more than before");
    until("they are let go", || {
        get(http, "/metrics").contains("\nunderstudy_check_connections 1\n").then_some(())
    });
    check.stop();
}

#[test]
fn few_file_descriptors_and_many_clients() {
    let _alone = alone();
    let check_dir = CheckDir::new(&format!("host=127.0.0.1\nport={}", free_port()));
    let mut command = Command::new("setpriv");
    check_dir.furnish(&mut command).args([
        "--pdeathsig",
        "KILL",
        "prlimit",
        "--nofile=256:256",
        bin(),
        "check",
    ]);
    command.args(["--listen", "127.0.0.1:0", "--defaults-file"]).arg(check_dir.path("quiet.cnf"));
    let check = Running::start(&check_dir, command);
    assert!(check.log().contains("(256) suffices for about 156 connections"), "{}", check.log());
    let http = check.address("http://");
    // Twice as many as it has descriptors for, and all of them want to stay.
    let mut greedy: Vec<TcpStream> = (0..512).map(|_| TcpStream::connect(http).unwrap()).collect();
    for stream in &mut greedy {
        // Whoever is too many was answered and is gone.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n");
    }
    until("all those beyond have had their answers", || {
        let began = Instant::now();
        assert_eq!(code(http), "503");
        (began.elapsed() < SOON).then_some(())
    });
    for stream in &mut greedy {
        stream.set_read_timeout(Some(LONG)).unwrap();
        assert!(response(stream).starts_with("HTTP/1.1 503 "));
    }
    drop(greedy);
    check.stop();
}
