//! How fast slow logs of all servers are read, every entry decoded, and the same log by pt-query-digest in the same run.
//!
//! All times are processor time, since the machine may run other work: a throughput is megabytes (10^6 bytes) for each second of a processor.
//! The logs are read from a file in pieces, as the streamer and the replayer do, and what was read must be what was written.

#![expect(clippy::expect_used, reason = "a bench without its log has nothing to measure")]

mod make;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use protocol::statement::StatementKind;
use rustix::time::{ClockId, clock_gettime};
use slowlog::{Item, Limits, Reader, Start};

use make::{Form, Maker, Sums};

/// Bytes of each log.
const LOG_BYTES: usize = 64 << 20;
/// Bytes of the log that pt-query-digest reads, which takes it a second.
const DIGEST_BYTES: usize = 8 << 20;
/// Bytes per read, as in the streamer and the replayer.
const PIECE_BYTES: usize = 256 << 10;

/// How far each entry is analysed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Its fields, times and names are parsed.
    Fields,
    /// The kind of its statement is found, too, by a scan of the complete text, as the proxy does.
    Kinds,
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let dir = tempfile::tempdir().expect("no directory for the logs");
    let path = dir.path().join("slow.log");
    ours(&mut criterion, &path);
    pt_query_digest(&mut criterion, &path);
    criterion.final_summary();
}

fn ours(criterion: &mut Criterion, path: &Path) {
    let mut group = criterion.benchmark_group("slowlog");
    for form in Form::ALL {
        let (bytes, written) = write_log(form, LOG_BYTES, path);
        group.throughput(Throughput::BytesDecimal(bytes));
        for (name, depth) in [("fields", Depth::Fields), ("fields and kinds", Depth::Kinds)] {
            group.bench_function(BenchmarkId::new(name, form.name()), |bencher| {
                bencher.iter_custom(|iterations| {
                    let before = thread_cpu();
                    for _ in 0..iterations {
                        assert_eq!(read_log(path, depth), written, "{}", form.name());
                    }
                    thread_cpu().saturating_sub(before)
                });
            });
        }
    }
    group.finish();
}

/// Left out where it is not installed (apt-get install percona-toolkit).
fn pt_query_digest(criterion: &mut Criterion, path: &Path) {
    let mut command = Command::new("pt-query-digest");
    command.args(["--no-version-check", "--no-report"]).arg(path).stdin(Stdio::null()).stdout(Stdio::null());
    if Command::new("pt-query-digest").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("pt-query-digest is not installed");
        return;
    }
    let (bytes, _) = write_log(Form::MariaDb, DIGEST_BYTES, path);
    let mut group = criterion.benchmark_group("pt-query-digest --no-report");
    group.throughput(Throughput::BytesDecimal(bytes)).sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(1));
    group.bench_function(Form::MariaDb.name(), |bencher| {
        bencher.iter_custom(|iterations| {
            let before = children_cpu();
            for _ in 0..iterations {
                let status = command.status().expect("pt-query-digest does not run");
                assert!(status.success(), "pt-query-digest ended with {status}");
            }
            children_cpu().saturating_sub(before)
        });
    });
    group.finish();
}

/// The length of the log, and the sums of its entries.
fn write_log(form: Form, bytes: usize, path: &Path) -> (u64, Sums) {
    let mut maker = Maker::new(form);
    let mut log = Vec::with_capacity(bytes);
    maker.fill(&mut log, bytes);
    File::create(path).and_then(|mut file| file.write_all(&log)).expect("the log cannot be written");
    (log.len() as u64, maker.sums)
}

fn read_log(path: &Path, depth: Depth) -> Sums {
    let mut file = File::open(path).expect("the log cannot be read");
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    let mut piece = vec![0; PIECE_BYTES];
    let (mut sums, mut reads) = (Sums::default(), 0_u64);
    loop {
        let length = file.read(&mut piece).expect("the log cannot be read");
        match length {
            0 => reader.finish(),
            _ => reader.feed(&piece[..length]),
        }
        while let Some(item) = reader.next() {
            let Item::Event(event) = item else { continue };
            sums.add(&event);
            if depth == Depth::Kinds {
                reads += u64::from(event.kind() == Some(StatementKind::Read));
            }
        }
        if length == 0 {
            break;
        }
    }
    let counts = reader.counts();
    assert_eq!((counts.cut, counts.quoted, counts.unparsed_bytes), (0, 0, 0), "entries were not understood");
    assert_eq!(reads > 0, depth == Depth::Kinds, "{reads} statements that only read");
    sums
}

/// Processor time (user and system) of this thread.
fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// Processor time of all child processes that have exited: fields 16 and 17 of /proc/self/stat, in ticks.
fn children_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name may contain spaces.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks: f64 =
        behind.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Duration::from_secs_f64(ticks / rustix::param::clock_ticks_per_second() as f64)
}
