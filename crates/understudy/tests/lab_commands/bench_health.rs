//! `understudy lab bench health` through the program: which files it writes and what is in them, and that every way in which a
//! request can end is counted by its name. Conditions, never speeds: the machine that runs this may be busy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use serde_json::Value;
use testbed::program::{self, Ended, understudy};

const BODY: &str = "Percona XtraDB Cluster Node is not synced.";

/// Serves connections until the test ends.
fn server(serve: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Reads one request's head; nothing when the client has gone.
fn head(stream: &mut TcpStream) -> Option<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(())
}

fn answer(mut stream: TcpStream, status: &str, length: usize) {
    if head(&mut stream).is_some() {
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{BODY}"
        );
    }
}

/// Runs a short closed loop against each address, with files in `dir`, and ends well.
fn measure(through: &[SocketAddr], more: &[&str], dir: &Path) -> Value {
    measure_until(0, through, more, dir).0
}

/// The same, ending with this code: the result, and what was said.
fn measure_until(code: i32, through: &[SocketAddr], more: &[&str], dir: &Path) -> (Value, String) {
    let json = dir.join("result.json");
    let mut args = vec!["lab", "bench", "health", "--run-s", "0.5", "--interval-s", "0.1"];
    let through: Vec<String> = through.iter().map(ToString::to_string).collect();
    for address in &through {
        args.extend(["--through", address]);
    }
    args.extend(more);
    args.extend(["--out-dir", dir.to_str().unwrap()]);
    let said = understudy(&args).with(code);
    (serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap(), said)
}

/// The only outcome that was counted, of the one who was measured as number `index`.
fn only(result: &Value, index: usize) -> (String, u64) {
    let outcomes = &result["loads"][0]["measured"][index]["outcomes"];
    let names = ["good", "unavailable", "other", "timeouts", "transport", "wrong"];
    let seen: Vec<(String, u64)> = names
        .iter()
        .map(|name| ((*name).to_owned(), outcomes[*name].as_u64().unwrap()))
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(seen.len(), 1, "{outcomes}");
    seen[0].clone()
}

#[test]
fn every_end_has_its_own_count() {
    let dir = tempfile::tempdir().unwrap();
    let refused = SocketAddr::from(([127, 0, 0, 1], fixture::free_port()));
    let cases: [(SocketAddr, &str, &str); 8] = [
        (
            server(|stream| answer(stream, "503 Service Unavailable", BODY.len())),
            "unavailable",
            "HTTP Error 503",
        ),
        (server(|stream| answer(stream, "200 OK", BODY.len())), "good", ""),
        (server(|stream| answer(stream, "404 Not Found", BODY.len())), "other", "HTTP Error 404"),
        // Says nothing, and stays.
        (server(|mut stream| drop(stream.read_to_end(&mut Vec::new()))), "timeouts", "timed out"),
        // Closes without an answer, with the request unread: a reset.
        (server(|stream| drop(stream.peek(&mut [0]))), "transport", "Connection reset by peer"),
        // Closes in good order without an answer.
        (
            server(|mut stream| {
                head(&mut stream);
            }),
            "transport",
            "closed without an answer",
        ),
        // Promises more than it sends.
        (server(|stream| answer(stream, "200 OK", BODY.len() + 1)), "wrong", "wrong bytes"),
        (refused, "transport", "Connection refused"),
    ];
    let addresses: Vec<SocketAddr> = cases.iter().map(|(address, _, _)| *address).collect();
    let (result, said) = measure_until(1, &addresses, &["--threads", "4", "--timeout-s", "0.3"], dir.path());
    for (index, (address, name, error)) in cases.iter().enumerate() {
        let (seen, count) = only(&result, index);
        assert_eq!(seen, *name, "{address}");
        let rows = std::fs::read_to_string(dir.path().join(format!("own/{address}/results.csv"))).unwrap();
        let rows: Vec<&str> = rows.lines().collect();
        let with_error = rows.iter().filter(|row| row.split(',').nth(5).unwrap().contains(error)).count();
        assert_eq!((rows.len() as u64, with_error as u64), (count, count), "{name}");
    }
    // The exit code has its reasons: answers that were wrong, and servers that gave none. A 503 is none.
    for (address, name, _) in &cases {
        let what = match *name {
            "other" | "wrong" => "wrong answers",
            "timeouts" | "transport" => "gave no answer",
            _ => {
                assert!(!said.contains(&format!("{address} gave")), "{said}");
                continue;
            }
        };
        let sentences = said.split("; ").filter(|part| part.contains(&address.to_string()));
        assert!(sentences.into_iter().any(|part| part.contains(what)), "{address}: {what}: {said}");
    }
    // What fails at once could have been tried without end; what times out could not.
    let timeouts = only(&result, 3).1;
    assert!((4..=12).contains(&timeouts), "4 threads, 0.3 s each, 0.5 s: {timeouts}");
}

#[test]
fn the_files_are_those_of_multi_mechanize() {
    let dir = tempfile::tempdir().unwrap();
    let address = server(|stream| answer(stream, "503 Service Unavailable", BODY.len()));
    let result = measure(&[address], &["--groups", "2", "--threads", "3", "--rampup-s", "0.2"], dir.path());
    let measured = &result["loads"][0]["measured"][0];
    let count = measured["transactions"].as_u64().unwrap();
    assert_eq!(measured["csv_each"], 1);

    let cell = dir.path().join(format!("own/{address}"));
    let rows = std::fs::read_to_string(cell.join("results.csv")).unwrap();
    assert_eq!(rows.lines().count() as u64, count);
    let mut groups = std::collections::BTreeSet::new();
    for (index, row) in rows.lines().enumerate() {
        let columns: Vec<&str> = row.split(',').collect();
        assert_eq!(columns.len(), 7, "{row}");
        assert_eq!(columns[0].parse(), Ok(index + 1));
        assert!(
            columns[1].parse::<f64>().unwrap() < 2.0 && columns[1].rsplit('.').next().unwrap().len() == 3,
            "{row}"
        );
        assert!(columns[2].parse::<u64>().unwrap() > 1_700_000_000, "{row}");
        groups.insert(columns[3].to_owned());
        let took: f64 = columns[4].parse().unwrap();
        assert!((0.0..2.0).contains(&took), "{row}");
        assert_eq!(columns[5], "HTTP Error 503: Service Unavailable");
        assert!(columns[6].starts_with("{'Cluster_check_latency': ") && columns[6].ends_with('}'), "{row}");
    }
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), ["user_group-1", "user_group-2"]);

    let table = std::fs::read_to_string(dir.path().join("table.txt")).unwrap();
    assert!(table.contains("ListenOverflows +") && table.contains("2 x 3 threads"), "{table}");

    // The series holds every answer, and the quantiles are in order.
    let series = measured["intervals"].as_array().unwrap();
    let in_series: u64 = series.iter().map(|interval| interval["answers"].as_u64().unwrap()).sum();
    assert_eq!((in_series, series.len()), (count, 5));
    let quantiles = ["p50_s", "p80_s", "p90_s", "p95_s", "p99_s", "p999_s", "max_s"];
    let values: Vec<f64> = quantiles.iter().map(|name| measured[*name].as_f64().unwrap()).collect();
    assert!(values.is_sorted() && values[0] > 0.0, "{values:?}");
}

/// What the seed's servers suffered from must show: a short backlog drops connections, and each waits 1, 3, 7 ... s for its next try.
#[test]
fn a_short_backlog_shows() {
    const THREADS: &str = "20";
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(5).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    std::thread::spawn(move || {
        let listener = TcpListener::from(listener);
        for stream in listener.incoming().flatten() {
            // One client at a time, and each takes its time: that is the server that is wanted here.
            std::thread::sleep(std::time::Duration::from_millis(30));
            answer(stream, "200 OK", BODY.len());
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let result = measure(&[address], &["--threads", THREADS, "--timeout-s", "2.5"], dir.path());
    let seen = &result["loads"][0]["measured"][0];
    assert!(seen["drops"]["listen_overflows"].as_u64().unwrap() > 0, "{}", seen["drops"]);
    assert!(seen["drops"]["syn_retransmits"].as_u64().unwrap() > 0, "{}", seen["drops"]);
    assert!(seen["max_s"].as_f64().unwrap() >= 1.0, "{}", seen["max_s"]);
    assert!(seen["outcomes"]["good"].as_u64().unwrap() > 0, "{}", seen["outcomes"]);
    assert_eq!(seen["in_flight"]["most"].to_string(), THREADS);
}

/// 1,000 threads with a new connection for each request are 1,000 at once, however fast the server is: no thread waits in the generator
/// without its clock. (Once it did, and 22 were in flight.)
#[test]
fn a_thousand_are_at_the_server_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let more =
        ["--cell", "close,burst", "--server", "understudy", "--rampup-s", "0.001", "--timeout-s", "30"];
    let result = measure(&[], &more, dir.path());
    let seen = |load: usize| &result["loads"][load]["measured"][0];
    let number = |load: usize, name: &str| seen(load)[name].as_f64().unwrap();
    let flight = |load: usize, name: &str| seen(load)["in_flight"][name].as_f64().unwrap();
    assert_eq!(seen(0)["in_flight"]["most"], 1000);
    assert!(flight(0, "average") > 500.0, "{}", seen(0)["in_flight"]);
    // The time of 1,000 threads is in the response times: answers a second x average.
    let counted = number(0, "answers_per_s") * number(0, "average_s");
    assert!((500.0..=1010.0).contains(&counted), "{counted}");
    // Each burst's connections stood before its first request.
    assert!(flight(1, "most") > 900.0, "{}", seen(1)["in_flight"]);
    assert_eq!(seen(1)["transactions"], 2000, "one burst at the start, one after 0.25 s");
    let goals = |load: usize| result["loads"][load]["goals"].as_array().unwrap();
    let goal =
        goals(1).iter().find(|goal| goal["goal"].as_str().unwrap().contains("no answer above")).unwrap();
    assert!(goal["goal"].as_str().unwrap().starts_with("at 1,000 connections "), "{goal}");
}

/// Threads that are not there yet are no connections: the goal is not met, and not missed, but not measured.
#[test]
fn a_goal_without_its_connections_is_not_measured() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--cell", "keep", "--server", "understudy", "--rampup-s", "0.5"];
    let result = measure(&[], &more, dir.path());
    let goals = result["loads"][0]["goals"].as_array().unwrap();
    assert!(!goals.is_empty() && goals.iter().all(|goal| goal["judgement"] == "not-measured"), "{goals:?}");
    let table = std::fs::read_to_string(dir.path().join("table.txt")).unwrap();
    assert!(table.contains("NOT MEASURED: at 1,000 connections no answer above 50.0 ms"), "{table}");
}

/// Understudy, nginx and HAProxy, as the seed's first load, for a moment: all of them answer 503 and nothing else.
#[test]
fn the_three_servers_answer_alike() {
    let dir = tempfile::tempdir().unwrap();
    let result = measure(&[], &["--cell", "a,keep", "--server", "understudy,nginx,haproxy"], dir.path());
    for load in result["loads"].as_array().unwrap() {
        let names: Vec<&Value> = load["measured"].as_array().unwrap().iter().map(|one| &one["who"]).collect();
        assert_eq!(names, ["understudy", "nginx", "haproxy"]);
        for one in load["measured"].as_array().unwrap() {
            let outcomes = &one["outcomes"];
            let valid = outcomes["unavailable"].as_u64().unwrap();
            assert!(valid > 0, "{one}");
            for wrong in ["good", "other", "wrong"] {
                assert_eq!(outcomes[wrong], 0, "{}: {outcomes}", one["who"]);
            }
            assert!(one["drops"]["listen_overflows"].is_u64() && one["cpu_s"].is_f64(), "{one}");
        }
    }
    let archived = &result["loads"][0]["archived"];
    assert!(archived["source"].as_str().unwrap().contains("github.com/Oneiroi/clustercheck"), "{archived}");
    assert_eq!(archived["runs"][1]["max_s"], 63.368);
    assert_eq!(result["loads"][1]["archived"], Value::Null);
    let understudy = result["conditions"]["commands"]["understudy"].as_str().unwrap();
    assert!(
        understudy.contains("check --listen 127.0.0.1:") && understudy.contains("--style pyclustercheck")
    );
}

#[test]
fn wrong_usage_is_a_sentence() {
    let said = |args: &[&str]| -> Ended {
        let all: Vec<&str> = ["lab", "bench", "health"].iter().chain(args).copied().collect();
        understudy(&all)
    };
    said(&["--run-s", "0"]).with(2);
    said(&["--like-the-seed", "--run-s", "5"]).with(2);
    said(&["--cell", "a", "--threads", "5"]).with(2);
    said(&["--through", "nowhere"]).with(2);
    let long = said(&["--run-s", "5", "--rampup-s", "6"]).with(1);
    assert!(long.contains("some threads would never start"), "{long}");
    let few = "ulimit -n 400; exec \"$0\" lab bench health --threads 1000 --run-s 1";
    let many = program::run(std::process::Command::new("sh").args(["-c", few, program::bin()])).with(1);
    assert!(many.contains("raise `ulimit -Hn`"), "{many}");
}
