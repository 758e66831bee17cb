use std::io::{Read, Write};
use std::net::TcpListener;

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::bench::health::answer::Trouble;
use crate::load::arrivals::Arrivals;

/// Serves `connections` connections, each by `serve`, then stops accepting.
fn server(
    connections: usize,
    serve: impl Fn(std::net::TcpStream) + Send + Sync + Clone + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for _ in 0..connections {
            let Ok((stream, _)) = listener.accept() else { return };
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn read_head(stream: &mut std::net::TcpStream) -> bool {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// What one turn of this length counted, how many requests were in flight, and how long it took.
fn drive(plan: Plan, address: SocketAddr, length: Duration) -> (Tally, Flight, Duration) {
    let record = Record::new(Duration::from_secs_f64(plan.run_s), Duration::from_secs(1), 1000).unwrap();
    let slots = plan.slots() as usize;
    let load = Load::new(plan, address, Expect::default(), record);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (load, turn) = runtime.block_on(load.turn(length)).unwrap();
    assert!(turn.took >= length && load.elapsed() == turn.took);
    assert_eq!(load.free.len(), slots);
    let flight = load.flight();
    let tally = load.into_tally().unwrap();
    assert_eq!(tally.in_flight, 0);
    (tally, flight, turn.took)
}

fn plan(threads: u16, keep: bool, mode: Mode) -> Plan {
    Plan { groups: 1, threads, keep, mode, timeout_s: 0.3, run_s: 0.2 }
}

const CLOSED: Mode = Mode::Closed { rampup_s: 0.0 };
const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno";

#[test]
fn kept_connections_are_kept_and_others_are_not() {
    for keep in [true, false] {
        let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = seen.clone();
        let address = server(100_000, move |mut stream| {
            count.fetch_add(1, Relaxed);
            while read_head(&mut stream) && stream.write_all(ANSWER).is_ok() {
                if !keep {
                    return;
                }
            }
        });
        let (tally, ..) = drive(plan(3, keep, CLOSED), address, Duration::from_millis(200));
        let counts = &tally.record.counts;
        assert!(counts.unavailable > 10 && counts.all() == counts.unavailable, "{counts:?}");
        let connections = seen.load(Relaxed) as u64;
        assert_eq!(connections, if keep { 3 } else { counts.all() });
    }
}

#[test]
fn failures_have_their_names() {
    let silent = server(100, |mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let counts = drive(plan(2, false, CLOSED), silent, Duration::from_millis(100)).0.record.counts;
    assert_eq!((counts.timeouts, counts.all()), (2, 2));

    let closing = server(100_000, |mut stream| {
        read_head(&mut stream);
    });
    let counts = drive(plan(1, false, CLOSED), closing, Duration::from_millis(50)).0.record.counts;
    assert_eq!(counts.troubles.get(&Trouble::Closed), Some(&counts.all()), "{counts:?}");

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let counts = drive(plan(1, false, CLOSED), closed, Duration::from_millis(20)).0.record.counts;
    assert_eq!(counts.troubles.get(&Trouble::Refused), Some(&counts.all()), "{counts:?}");

    let cut = server(100_000, |mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(&ANSWER[..ANSWER.len() - 1]);
    });
    let counts = drive(plan(1, false, CLOSED), cut, Duration::from_millis(50)).0.record.counts;
    assert!(counts.wrong > 0 && counts.wrong == counts.all(), "{counts:?}");
}

#[test]
fn in_the_open_loop_waiting_counts() {
    // One connection, 50 ms per response, 100 requests a second due: the queue grows, and so do the response times.
    let slow = server(1, |mut stream| {
        while read_head(&mut stream) {
            std::thread::sleep(Duration::from_millis(50));
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    });
    let mode = Mode::Open { rate: 100.0, arrivals: Arrivals::Uniform };
    let mut plan = plan(1, true, mode);
    plan.timeout_s = 10.0;
    let (tally, ..) = drive(plan, slow, Duration::from_millis(205));
    assert_eq!((tally.record.counts.unavailable, tally.record.counts.all()), (20, 20));
    // The last request was due after 0.2 s and ended after 20 x 50 ms.
    assert!(tally.record.max_s() > 0.7, "{}", tally.record.max_s());
}

#[test]
fn a_kept_connection_that_the_server_closes_is_made_anew() {
    let address = server(100_000, |mut stream| {
        for _ in 0..5 {
            if !read_head(&mut stream) || stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    });
    let (tally, ..) = drive(plan(1, true, CLOSED), address, Duration::from_millis(100));
    let counts = &tally.record.counts;
    assert!(counts.unavailable == counts.all() && tally.reconnects > 0, "{counts:?} {}", tally.reconnects);
}

#[test]
fn all_threads_are_in_flight_and_none_of_their_time_is_lost() {
    const THREADS: u16 = 64;
    // Each response takes 20 ms: nearly all of a thread's time is waiting, and its response times must contain it.
    let slow = || {
        server(100_000, |mut stream| {
            while read_head(&mut stream) {
                std::thread::sleep(Duration::from_millis(20));
                if stream.write_all(ANSWER).is_err() {
                    return;
                }
            }
        })
    };
    let (tally, flight, took) = drive(plan(THREADS, true, CLOSED), slow(), Duration::from_millis(500));
    let times = &tally.record.times_us;
    assert_eq!(flight.most, u32::from(THREADS));
    // Threads start over 100 ms, and stop over some more.
    assert!(flight.average > 0.7 * f64::from(THREADS), "{flight:?}");
    let counted_s = times.mean() * times.len() as f64 / 1e6;
    let in_all_s = took.as_secs_f64() * f64::from(THREADS);
    assert!(counted_s > 0.7 * in_all_s && counted_s <= 1.01 * in_all_s, "{counted_s} of {in_all_s}");
}

#[test]
fn a_burst_stands_before_its_first_request_is_sent() {
    // The server sends nothing until 30 connections are open: that happens only if the load does not wait for responses.
    let (all, seen) = (30, std::sync::Arc::new(std::sync::Barrier::new(30)));
    let address = server(10_000, move |mut stream| {
        seen.wait();
        if read_head(&mut stream) {
            let _ = stream.write_all(ANSWER);
        }
    });
    let mut plan = plan(30, false, Mode::Bursts { every_s: 0.1 });
    plan.timeout_s = 20.0;
    let (tally, flight, _) = drive(plan, address, Duration::from_millis(150));
    assert_eq!((tally.record.counts.unavailable, tally.record.counts.all()), (2 * all, 2 * all));
    assert_eq!(flight.most, 30);
}

#[test]
fn a_burst_that_is_held_up_by_the_one_before_counts_its_waiting() {
    let slow = server(1000, |mut stream| {
        if read_head(&mut stream) {
            std::thread::sleep(Duration::from_millis(150));
            let _ = stream.write_all(ANSWER);
        }
    });
    let mut plan = plan(3, false, Mode::Bursts { every_s: 0.1 });
    plan.timeout_s = 10.0;
    let (tally, flight, _) = drive(plan, slow, Duration::from_millis(190));
    // Due after 0.1 s, begun after 0.15 s, response after 0.3 s.
    assert_eq!((tally.record.counts.unavailable, tally.record.counts.all()), (6, 6));
    assert!(tally.record.max_s() >= 0.199, "{}", tally.record.max_s());
    assert!(flight.average <= 1.5, "{flight:?}");
}
