//! Reads a log once: measures processor time and memory, and checks whether every entry was understood.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use protocol::statement::StatementKind;
use rustix::time::{ClockId, clock_gettime};
use slowlog::{Item, Limits, Reader, Start};

use super::make::Sums;

/// Bytes per read, as in the streamer and the replayer.
const PIECE_BYTES: usize = 256 << 10;

/// How far each entry is analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Parse its fields, times and names.
    Fields,
    /// Also classify the statement by scanning its complete text, as the proxy does.
    Kinds,
}

/// Results of one pass.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Pass {
    /// Bytes of the log.
    pub bytes: u64,
    /// Sums over the entries read.
    pub sums: Sums,
    /// Statements that are certain to only read; 0 if statements were not classified.
    pub reads: u64,
    /// Entries that were truncated or doubtful, and bytes that belong to no entry: should be 0.
    pub misunderstood: u64,
    /// Processor time (user and system) of the reading thread, s.
    pub cpu_s: f64,
    /// Elapsed time, s; on a busy machine it is longer.
    pub wall_s: f64,
    /// Resident memory of the whole process: before, maximum until an eighth of the log was read, maximum until its end; MiB. None where the
    /// kernel does not report it.
    pub memory_mib: Option<[f64; 3]>,
}

impl Pass {
    /// Megabytes (10^6 bytes) per second of processor time.
    pub fn mb_per_cpu_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.cpu_s
    }

    /// Megabytes per second of elapsed time.
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.wall_s
    }

    /// Entries per second of processor time.
    pub fn events_per_cpu_s(&self) -> f64 {
        self.sums.events as f64 / self.cpu_s
    }
}

/// Reads the whole log in this thread.
pub fn pass(path: &Path, depth: Depth) -> anyhow::Result<Pass> {
    let cannot = || format!("cannot read {}", path.display());
    let mut file = File::open(path).with_context(cannot)?;
    let bytes = file.metadata().with_context(cannot)?.len();
    // Resets the kernel's maximum (VmHWM).
    let memory = std::fs::write("/proc/self/clear_refs", "5").ok().and_then(|()| memory_mib("VmRSS:"));
    let (begin, cpu_begin) = (Instant::now(), thread_cpu_s());
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    let mut found = Found::default();
    let mut piece = vec![0; PIECE_BYTES];
    let mut read = 0;
    let mut at_an_eighth = None;
    loop {
        let length = file.read(&mut piece).with_context(cannot)?;
        if length == 0 {
            reader.finish();
        } else {
            reader.feed(&piece[..length]);
        }
        found.take(&mut reader, depth);
        read += length as u64;
        if at_an_eighth.is_none() && read >= bytes / 8 {
            at_an_eighth = memory_mib("VmHWM:");
        }
        if length == 0 {
            break;
        }
    }
    let (wall_s, cpu_s) = (begin.elapsed().as_secs_f64(), thread_cpu_s() - cpu_begin);
    let counts = reader.counts();
    let at_end = memory_mib("VmHWM:");
    Ok(Pass {
        bytes,
        sums: found.sums,
        reads: found.reads,
        misunderstood: counts.cut + counts.quoted + counts.unparsed_bytes,
        cpu_s,
        wall_s,
        memory_mib: memory.zip(at_an_eighth).zip(at_end).map(|((before, eighth), end)| [before, eighth, end]),
    })
}

#[derive(Default)]
struct Found {
    sums: Sums,
    reads: u64,
}

impl Found {
    fn take(&mut self, reader: &mut Reader, depth: Depth) {
        while let Some(item) = reader.next() {
            let Item::Event(event) = item else { continue };
            self.sums.add(&event);
            if depth == Depth::Kinds {
                self.reads += u64::from(event.kind() == Some(StatementKind::Read));
            }
        }
    }
}

fn thread_cpu_s() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The value of a line in /proc/self/status, in MiB.
fn memory_mib(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}
