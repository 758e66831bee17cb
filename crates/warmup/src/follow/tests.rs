//! Real files, written by a thread of their own and rotated beneath it in each way.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Cursor, Log, Read};

mod moments;

/// Longer than anything here takes on an overloaded machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// A server's way to write: appends numbered lines, and begins each new file with a line of its own.
struct Writer {
    path: PathBuf,
    file: Mutex<File>,
    next: AtomicU64,
    stop: AtomicBool,
}

impl Writer {
    fn new(path: &Path) -> Arc<Writer> {
        let file = Mutex::new(append(path));
        Arc::new(Writer {
            path: path.to_owned(),
            file,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })
    }

    fn line(&self) {
        let mut file = self.file.lock().unwrap();
        let number = self.next.fetch_add(1, SeqCst);
        file.write_all(format!("line {number}\n").as_bytes()).unwrap();
    }

    /// FLUSH SLOW LOGS.
    fn flush(&self) {
        let mut file = self.file.lock().unwrap();
        *file = append(&self.path);
        file.write_all(b"started\n").unwrap();
    }

    /// Waits until 100 lines more are written, and as long as two looks at the log take: rotations follow one another no faster.
    fn wait(&self) {
        let enough = self.written() + 100;
        let begin = Instant::now();
        while (self.written() < enough || begin.elapsed() < Duration::from_millis(40))
            && !self.stop.load(SeqCst)
        {
            std::thread::yield_now();
        }
    }

    fn written(&self) -> u64 {
        self.next.load(SeqCst)
    }

    fn run(self: &Arc<Writer>) -> std::thread::JoinHandle<()> {
        let writer = Arc::clone(self);
        std::thread::spawn(move || {
            let begin = Instant::now();
            while !writer.stop.load(SeqCst) && begin.elapsed() < DEADLINE {
                for _ in 0..20 {
                    writer.line();
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        })
    }
}

fn append(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

/// What copytruncate does behind its copy.
fn empty(path: &Path) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
}

/// How a file ends when the next one begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// It was renamed: with a whole line.
    Whole,
    /// It was copied while it was written: the copy may end where a line crosses a page, and nobody can know what the file had behind that.
    Copied,
}

/// Reads until line `last` was there; gives the numbers in the order read, and the bytes that were said to be lost.
async fn numbers(cursor: &mut Cursor, ends: Ends, until: impl Fn(&[u64]) -> bool) -> (Vec<u64>, u64) {
    let (mut numbers, mut lost, mut text) = (Vec::new(), 0, Vec::new());
    let mut bytes = vec![0; 1000];
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < DEADLINE, "read {} lines, the last {:?}", numbers.len(), numbers.last());
        match cursor.read(&mut bytes).unwrap() {
            Read::Bytes(read) => {
                text.extend_from_slice(&bytes[..read]);
                while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = text.drain(..=end).collect();
                    let line = String::from_utf8(line).unwrap();
                    match line.trim_end().strip_prefix("line ") {
                        Some(number) => numbers.push(number.parse().unwrap()),
                        None => assert_eq!(line, "started\n"),
                    }
                }
            }
            Read::Rotated { lost_bytes } => {
                lost += lost_bytes;
                let may_be_torn = ends == Ends::Copied || lost > 0;
                assert!(text.is_empty() || may_be_torn, "a file ended within a line: {text:?}");
                text.clear();
            }
            Read::End if until(&numbers) => return (numbers, lost),
            Read::End => {
                let _ = tokio::time::timeout(Duration::from_millis(100), cursor.changed()).await;
            }
        }
    }
}

fn rename_all(path: &Path) {
    for number in (1..60).rev() {
        let _ =
            fs::rename(format!("{}.{number}", path.display()), format!("{}.{}", path.display(), number + 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_is_read_once_and_in_order_through_renames() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slow.log");
    let writer = Writer::new(&path);
    let log = Log::watch(&path).unwrap();
    let mut cursor = log.at_start().unwrap();
    let thread = writer.run();
    let rotating = {
        let writer = Arc::clone(&writer);
        tokio::task::spawn_blocking(move || {
            for round in 0..30_u64 {
                writer.wait();
                rename_all(&writer.path);
                fs::rename(&writer.path, format!("{}.1", writer.path.display())).unwrap();
                if round % 3 == 0 {
                    // logrotate's `create`: the new file is there before the server writes it
                    append(&writer.path);
                    writer.line();
                }
                writer.flush();
            }
            writer.stop.store(true, SeqCst);
        })
    };
    let (read, lost) = numbers(&mut cursor, Ends::Whole, |read| {
        writer.stop.load(SeqCst) && thread.is_finished() && read.len() as u64 == writer.written()
    })
    .await;
    rotating.await.unwrap();
    assert_eq!(lost, 0);
    let wrong = read.iter().zip(0..).find(|(read, expected)| **read != *expected);
    assert_eq!((wrong, read.len() as u64), (None, writer.written()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_copytruncate_leaves_in_any_file_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slow.log");
    let writer = Writer::new(&path);
    let log = Log::watch(&path).unwrap();
    let mut cursor = log.at_start().unwrap();
    let thread = writer.run();
    let rotating = {
        let writer = Arc::clone(&writer);
        tokio::task::spawn_blocking(move || {
            for _ in 0..30 {
                writer.wait();
                rename_all(&writer.path);
                fs::copy(&writer.path, format!("{}.1", writer.path.display())).unwrap();
                empty(&writer.path);
            }
            // The last line is then behind the last cut; one that falls between a copy and its cut is nowhere.
            writer.wait();
            writer.stop.store(true, SeqCst);
        })
    };
    let (read, _) = numbers(&mut cursor, Ends::Copied, |read| {
        writer.stop.load(SeqCst) && thread.is_finished() && read.last() == Some(&(writer.written() - 1))
    })
    .await;
    rotating.await.unwrap();
    let mut kept = BTreeSet::new();
    for entry in fs::read_dir(directory.path()).unwrap() {
        for line in fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            // A copy may end within a line; the number is then another.
            kept.extend(line.strip_prefix("line ").and_then(|number| number.parse::<u64>().ok()));
        }
    }
    assert!(
        read.is_sorted() && read.iter().collect::<BTreeSet<_>>().len() == read.len(),
        "read twice, or out of order"
    );
    let missed: Vec<&u64> = kept.iter().filter(|number| read.binary_search(number).is_err()).collect();
    assert!(
        missed.is_empty(),
        "{} are in a file and were not read: {:?} to {:?}",
        missed.len(),
        missed.first(),
        missed.last()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_reads_all_the_same_and_says_how_far_it_is_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slow.log");
    let writer = Writer::new(&path);
    let log = Log::watch(&path).unwrap();
    let (mut slow, mut fast) = (log.at_end().unwrap(), log.at_end().unwrap());
    let mut bytes = 0;
    for _ in 0..5 {
        for _ in 0..10 {
            writer.line();
        }
        let (read, _) = numbers(&mut fast, Ends::Whole, |read| read.len() == 10).await;
        bytes += 10 * "line N\n".len() as u64 + if read[0] >= 10 { 10 } else { 0 };
        rename_all(&path);
        fs::rename(&path, path.with_extension("log.1")).unwrap();
        writer.flush();
        bytes += "started\n".len() as u64;
        // Removed files are read by whoever has not read them yet.
        let _ = fs::remove_file(path.with_extension("log.2"));
    }
    writer.line();
    bytes += "line NN\n".len() as u64;
    let _ = numbers(&mut fast, Ends::Whole, |read| read.len() == 1).await;
    assert_eq!((slow.behind_bytes(), fast.behind_bytes()), (bytes, 0));
    let (read, lost) = numbers(&mut slow, Ends::Whole, |read| read.len() == 51).await;
    assert_eq!((read, lost), ((0..51).collect(), 0));
    writer.line();
    assert_eq!(slow.skip_to_end(), "line NN\n".len() as u64);
    assert_eq!(slow.read(&mut [0; 10]).unwrap(), Read::End);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_found_again_after_rotations_of_both_kinds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slow.log");
    let writer = Writer::new(&path);
    for _ in 0..100 {
        writer.line();
    }
    let place = {
        let log = Log::watch(&path).unwrap();
        let mut cursor = log.at_start().unwrap();
        let _ = numbers(&mut cursor, Ends::Whole, |read| read.len() == 100).await;
        cursor.place()
    };
    for _ in 0..100 {
        writer.line();
    }
    fs::rename(&path, path.with_extension("log.1")).unwrap();
    writer.flush();
    for _ in 0..100 {
        writer.line();
    }
    // Both files are as old as the file system's clock can tell, so this one is written later for sure.
    let later = std::time::SystemTime::now() + Duration::from_secs(2);
    rename_all(&path);
    fs::copy(&path, path.with_extension("log.1")).unwrap();
    File::open(path.with_extension("log.1")).unwrap().set_modified(later).unwrap();
    empty(&path);
    for _ in 0..100 {
        writer.line();
    }
    let log = Log::watch(&path).unwrap();
    let mut cursor = log.at_place(place).unwrap().expect("the place is in slow.log.2");
    let (read, lost) = numbers(&mut cursor, Ends::Whole, |read| read.len() == 300).await;
    assert_eq!((read, lost), ((100..400).collect(), 0));
    let nowhere = super::LogPosition { offset: 50, checksum: 1 };
    assert!(log.at_place(nowhere).unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_not_there_yet_is_read_from_its_first_byte() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slow.log");
    let log = Log::watch(&path).unwrap();
    let refused = log.at_end().err().expect("it is not there").to_string();
    assert!(refused.contains("slow.log cannot be read: No such file"), "{refused}");
    let writer = Writer::new(&path);
    let mut cursor = log.at_end().unwrap();
    writer.line();
    let (read, _) = numbers(&mut cursor, Ends::Whole, |read| read.len() == 1).await;
    assert_eq!(read, [0]);
    assert!(Log::watch(Path::new("/nowhere/slow.log")).is_err());
}

/// What may happen to a log.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Rename,
    CopyTruncate,
    /// The watching task looks, and the reader reads all there is.
    Look,
}

/// Rotations of both kinds between two looks, in any order: nothing is missed, and nothing is read twice.
#[tokio::test]
async fn several_rotations_between_two_looks_lose_nothing() {
    for seed in 0..60_u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut steps = vec![Step::Look];
        for _ in 0..8 {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            steps.push(
                [Step::Write, Step::Write, Step::Rename, Step::CopyTruncate, Step::Look][(dice % 5) as usize],
            );
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("slow.log");
        let writer = Writer::new(&path);
        // This runtime has one thread, so its task looks only when this one waits, which it does not.
        let log = Log::watch(&path).unwrap();
        let mut cursor = log.at_start().unwrap();
        let mut read = Vec::new();
        for step in &steps {
            match step {
                Step::Write => writer.line(),
                Step::Rename => {
                    rename_all(&path);
                    fs::rename(&path, format!("{}.1", path.display())).unwrap();
                    writer.flush();
                }
                Step::CopyTruncate => {
                    rename_all(&path);
                    fs::copy(&path, format!("{}.1", path.display())).unwrap();
                    empty(&path);
                }
                Step::Look => read_all(&log, &mut cursor, &mut read),
            }
            // A tick of the file system's clock, by which files are put in order.
            std::thread::sleep(Duration::from_millis(5));
        }
        read_all(&log, &mut cursor, &mut read);
        let wanted: Vec<u64> = (0..writer.written()).collect();
        assert_eq!(read, wanted, "seed {seed}: {steps:?}");
        drop(log);
        // Its task is let go of.
        tokio::task::yield_now().await;
    }
}

/// Looks until nothing changes any more, and reads all there is.
fn read_all(log: &Log, cursor: &mut Cursor, numbers: &mut Vec<u64>) {
    assert_eq!(read_what_is_left(log, cursor, numbers), 0);
}

/// The same where bytes may be gone: the number of those.
fn read_what_is_left(log: &Log, cursor: &mut Cursor, numbers: &mut Vec<u64>) -> u64 {
    let mut all_lost_bytes = 0;
    let mut text = Vec::new();
    for _ in 0..10 {
        log.looked().unwrap();
        let mut bytes = vec![0; 1000];
        loop {
            match cursor.read(&mut bytes).unwrap() {
                Read::Bytes(read) => text.extend_from_slice(&bytes[..read]),
                Read::Rotated { lost_bytes } => all_lost_bytes += lost_bytes,
                Read::End => break,
            }
        }
    }
    let text = String::from_utf8(text).unwrap();
    numbers.extend(text.lines().filter_map(|line| line.strip_prefix("line ")?.parse::<u64>().ok()));
    all_lost_bytes
}
