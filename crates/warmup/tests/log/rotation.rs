//! A log that is written fast and rotated in every way there is, streamed over HTTP to a reader that stays and to one that breaks off and resumes at
//! random: each reads what was written, exactly and in order.
//!
//! `ROTATION_SECONDS` makes it longer. A rotation begins when both readers are behind the one before.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fixture::wait::until;
use slowlog::{Command, Dialect, Event, Schema, Writer};
use warmup::stream;

/// Longer than anything here takes on an overloaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two rotations.
const BETWEEN: Duration = Duration::from_millis(250);
/// Rotated files that are not compressed.
const PLAIN: u64 = 16;
/// Events a second, at most: so that readers of a busy machine's test keep up.
const RATE: u64 = 20_000;

/// What a server does: it has the log open, and opens it anew when told.
struct Server {
    path: PathBuf,
    file: File,
    writer: Writer,
    written: u64,
}

impl Server {
    fn open(path: &Path) -> File {
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    fn start(path: &Path) -> Server {
        let mut server = Server {
            path: path.to_owned(),
            file: Self::open(path),
            writer: Writer::new(Dialect::MariaDb),
            written: 0,
        };
        server.banner();
        server
    }

    fn banner(&mut self) {
        let mut text = Vec::new();
        self.writer.banner(&mut text);
        self.file.write_all(&text).unwrap();
    }

    /// FLUSH SLOW LOGS
    fn flush(&mut self) {
        self.file = Self::open(&self.path);
        self.banner();
    }

    /// One statement after another, each in one write, as servers do.
    fn run(&mut self, statements: u64) {
        for _ in 0..statements {
            let sql = format!("SELECT {} AS n {}", self.written, "x".repeat((self.written % 97) as usize));
            let entry = Event {
                end_us: 1_795_348_800_000_000 + self.written * 50,
                query_time_us: 40,
                user: b"app",
                account: b"app",
                host: b"localhost",
                connection: Some(self.written % 16),
                schema: Schema::Own(b"shop"),
                command: Command::Statement(sql.as_bytes()),
                ..Event::default()
            };
            let mut text = Vec::new();
            self.writer.write(&entry, &mut text);
            self.file.write_all(&text).unwrap();
            self.written += 1;
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Rotation {
    /// Renamed; the server goes on in the old file until FLUSH SLOW LOGS.
    RenameThenFlush,
    /// Renamed, and opened anew at once.
    RenameAndReopen,
    /// Copied and emptied, and nothing is written between.
    CopyTruncate,
    /// Renamed three times in a row, some events in each file.
    InARow,
    /// Renamed, and what is old is compressed.
    Compress,
}

const ROTATIONS: [Rotation; 5] = [
    Rotation::RenameThenFlush,
    Rotation::RenameAndReopen,
    Rotation::CopyTruncate,
    Rotation::InARow,
    Rotation::Compress,
];

fn numbered(log: &Path, number: u64) -> PathBuf {
    PathBuf::from(format!("{}.{number}", log.display()))
}

/// `log.1` becomes `log.2` and so on, as logrotate does it.
fn shift(log: &Path) {
    let mut last = 1;
    while numbered(log, last).exists() {
        last += 1;
    }
    for number in (1..last).rev() {
        fs::rename(numbered(log, number), numbered(log, number + 1)).unwrap();
    }
}

fn rotate(kind: Rotation, log: &Path, server: &Mutex<Server>) {
    shift(log);
    match kind {
        Rotation::RenameThenFlush => {
            fs::rename(log, numbered(log, 1)).unwrap();
            // Other statements end meanwhile.
            server.lock().unwrap().run(200);
            server.lock().unwrap().flush();
        }
        Rotation::RenameAndReopen | Rotation::Compress => {
            let mut server = server.lock().unwrap();
            fs::rename(log, numbered(log, 1)).unwrap();
            server.flush();
        }
        Rotation::CopyTruncate => {
            let _stopped = server.lock().unwrap();
            fs::copy(log, numbered(log, 1)).unwrap();
            OpenOptions::new().write(true).open(log).unwrap().set_len(0).unwrap();
        }
        Rotation::InARow => {
            for time in 0..3 {
                if time > 0 {
                    shift(log);
                }
                let mut server = server.lock().unwrap();
                fs::rename(log, numbered(log, 1)).unwrap();
                server.flush();
                server.run(20);
            }
        }
    }
}

/// What old files become: no reader can go on in them any more.
fn compress(log: &Path) {
    let mut number = PLAIN + 1;
    while numbered(log, number).exists() {
        let plain = numbered(log, number);
        fs::write(format!("{}.gz", plain.display()), b"\x1f\x8bcompressed").unwrap();
        fs::remove_file(plain).unwrap();
        number += 1;
    }
}

/// One reader's stream, from its head's end on.
fn get(address: SocketAddr, query: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // HTTP/1.0: the answer's bytes are the log's bytes, until the connection ends.
    write!(stream, "GET /slow?{query} HTTP/1.0\r\n\r\n").unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.contains(" 200 "), "{query}: {line}");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
    }
    stream
}

/// A reader, which counts what comes next.
struct Client {
    address: SocketAddr,
    /// The next number that has to come.
    next: Arc<AtomicU64>,
    /// Where to go on, and what comes then.
    place: Option<(String, u64)>,
    /// A place that was told in the head at hand: it holds behind that event.
    resume_at: Option<String>,
    resumed: u64,
}

impl Client {
    /// Reads until this number came, or until `breaks` says that it is time to break off.
    fn read(
        &mut self,
        stream: &mut impl Read,
        last: &AtomicU64,
        mut breaks: impl FnMut(bool) -> bool,
    ) -> bool {
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the stream ended at {:?}", self.next);
            assert!(!line.starts_with("# Understudy_dropped_bytes"), "{line} before {:?}", self.next);
            if let Some(place) = line.strip_prefix("# Understudy_place: ") {
                self.resume_at = Some(place.trim().to_owned());
            }
            let Some(rest) = line.strip_prefix("SELECT ") else { continue };
            let number: u64 = rest.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(
                number,
                self.next.load(SeqCst),
                "after {} resumptions, place {:?}",
                self.resumed,
                self.place
            );
            self.next.store(number + 1, SeqCst);
            if let Some(place) = self.resume_at.take() {
                self.place = Some((place, number + 1));
            }
            if number + 1 == last.load(SeqCst) {
                return true;
            }
            if breaks(self.place.is_some()) {
                return false;
            }
        }
    }

    /// One that never leaves.
    fn stays(mut self, last: &AtomicU64) {
        let mut stream = get(self.address, "from=start");
        assert!(self.read(&mut stream, last, |_| false));
    }

    /// One that breaks off now and then, and resumes where it was told that it may.
    fn resumes(mut self, last: &AtomicU64) -> u64 {
        let mut random = 7_u64;
        let mut stream = get(self.address, "from=start");
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let until = Instant::now() + Duration::from_millis(1_050 + (random >> 33) % 500);
            if self.read(&mut stream, last, |may| may && Instant::now() > until) {
                return self.resumed;
            }
            let (place, next) = self.place.take().unwrap();
            self.next.store(next, SeqCst);
            self.resume_at = None;
            self.resumed += 1;
            stream = get(self.address, &format!("resume={place}"));
        }
    }
}

fn seconds() -> u64 {
    std::env::var("ROTATION_SECONDS").ok().map_or(8, |text| text.parse().unwrap())
}

#[test]
fn events_streamed_are_events_written_however_the_log_is_rotated() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("slow.log");
    let server = Arc::new(Mutex::new(Server::start(&log)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let address = runtime.block_on(async {
        let settings = stream::Settings { log: log.clone(), behind_bytes_max: 1 << 30 };
        let routes = stream::router(settings).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async { axum::serve(listener, routes).await });
        address
    });
    let last = Arc::new(AtomicU64::new(u64::MAX));
    let next = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let client = |next: &Arc<AtomicU64>| Client {
        address,
        next: Arc::clone(next),
        place: None,
        resume_at: None,
        resumed: 0,
    };
    let (stays, resumes) = (client(&next[0]), client(&next[1]));
    let end = Arc::clone(&last);
    let stays = std::thread::spawn(move || stays.stays(&end));
    let end = Arc::clone(&last);
    let resumes = std::thread::spawn(move || resumes.resumes(&end));

    let has_ended = Arc::new(AtomicBool::new(false));
    let (writing, ends) = (Arc::clone(&server), Arc::clone(&has_ended));
    let begin = Instant::now();
    let writer = std::thread::spawn(move || {
        while !ends.load(SeqCst) {
            let due = begin.elapsed().as_micros() as u64 * RATE / 1_000_000;
            let mut server = writing.lock().unwrap();
            let behind = due.saturating_sub(server.written).min(200);
            server.run(behind);
            drop(server);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut rotations = 0;
    while begin.elapsed() < Duration::from_secs(seconds()) {
        std::thread::sleep(BETWEEN);
        assert!(!stays.is_finished() && !resumes.is_finished(), "a reader failed");
        let kind = ROTATIONS[rotations % ROTATIONS.len()];
        rotate(kind, &log, &server);
        rotations += 1;
        // On a busy machine the log is looked at late: the next rotation of another kind waits until this one was seen. A place in a file that is
        // compressed is gone, too: readers have to be behind it.
        let now = server.lock().unwrap().written;
        until("both readers come behind the rotation", || {
            next.iter().all(|next| next.load(SeqCst) >= now) || stays.is_finished() || resumes.is_finished()
        });
        if matches!(kind, Rotation::Compress) {
            compress(&log);
        }
    }
    has_ended.store(true, SeqCst);
    writer.join().unwrap();
    let written = {
        let mut server = server.lock().unwrap();
        last.store(server.written + 1, SeqCst);
        server.run(1);
        server.written
    };
    stays.join().unwrap();
    let resumed = resumes.join().unwrap();
    assert!(
        rotations as u64 >= seconds() && resumed >= seconds() / 4,
        "{rotations} rotations, {resumed} resumptions"
    );
    println!("{written} events, {rotations} rotations, {resumed} resumptions");
}
