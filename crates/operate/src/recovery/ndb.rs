//! `understudy recovery ndb`: restarts of an NDB Cluster's nodes, out of its logs.
//!
//! Reads files, and where asked a server's `ndbinfo.restart_info`; changes nothing but by `--enable-logging` and `--dump-7099`, which go through
//! ndb_mgm and say their risk first.

mod json;
mod live;
mod mgm;
mod report;

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use ndb::advice::{Load, Rhythm};
use ndb::restart::Story;
use ndb::restart_info::{Row, Table};
use ndb::{ClusterLog, Moment, NodeLog, OwnStart, Window, Wrong};

use cli::duration::seconds;
use cli::exit::{CommandResult, Failure};

/// Read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// For `--help`.
const MORE: &str = "\
Checkpoints are in the cluster log only after ALL CLUSTERLOG CHECKPOINT=8, the parts of a restart after NODERESTART=15: --mgm HOST --enable-logging sets both.

Exit codes: 0 done; 1 ndb_mgm or the server failed; 2 wrong usage, or an input that is no such log.";

/// Shows the restarts of an NDB Cluster's nodes by phases, where their data came from, and what the rule of three checkpoints says.
#[derive(Args)]
#[command(after_help = MORE)]
#[command(group = ArgGroup::new("work").args(["log", "ndbinfo", "enable_logging", "dump_7099", "write_rate_bytes_s"]).multiple(true).required(true))]
pub struct Ndb {
    /// The management server's cluster log (ndb_NODE_cluster.log), of 4.1 to 9.x
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// A data node's own log (ndb_NODE_out.log); may be given several times
    #[arg(long, value_name = "FILE", requires = "log")]
    node_log: Vec<PathBuf>,
    /// ndbinfo.restart_info: a FILE as `mysql --batch` prints it, or a server, mysql://HOST or mysql://USER@HOST:PORT
    #[arg(long, value_name = "FILE|DSN")]
    ndbinfo: Option<String>,
    /// For a server: a file whose first line is the password [else UNDERSTUDY_PASSWORD, else an option file's]
    #[arg(long, value_name = "FILE", requires = "ndbinfo")]
    password_file: Option<PathBuf>,
    /// Only what is not earlier, as the log writes times
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Moment>,
    /// Only what is not later
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Moment>,
    /// Use a log that is cut off, or whose times go backwards, as far as that can be done
    #[arg(long)]
    allow_damaged: bool,
    /// The present TimeBetweenLocalCheckpoints, for the advice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=31))]
    setting: Option<u32>,
    /// For the advice: bytes written to a node's redo log each second [default: from --setting and the log]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    write_rate_bytes_s: Option<u64>,
    /// For the advice: how long a checkpoint takes [default: the median of the log]
    #[arg(long, value_name = "TIME", value_parser = seconds(0..=1_000_000))]
    checkpoint_s: Option<u64>,
    /// For the advice: from a node's failure until its data is complete [default: the longest of the log]
    #[arg(long, value_name = "TIME", value_parser = seconds(0..=10_000_000))]
    needed_s: Option<u64>,
    /// For programs: one JSON object to this file, - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    mgm: mgm::Mgm,
}

fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text)
        .ok_or_else(|| "a time looks like 2026-11-21T11:30:16Z or '2007-03-07 10:00:00'".to_owned())
}

/// All that was read.
struct Findings {
    story: Option<Story>,
    own: Vec<OwnStart>,
    rows: Vec<Row>,
    advice: Option<Advice>,
}

/// What the advice is made of.
struct Advice {
    load: Load,
    setting: Option<u32>,
    /// The write rate is not what somebody said, but computed from the setting and the distance of checkpoints.
    is_rate_from_log: bool,
}

impl Ndb {
    /// Does all that is asked for.
    pub fn run(self) -> CommandResult {
        // What is refused is refused before anything is changed.
        self.mgm.check()?;
        let window = Window { since: self.since, until: self.until, allow_damaged: self.allow_damaged };
        let story = self.log.as_deref().map(|path| story(path, window)).transpose()?;
        let mut own = Vec::new();
        for path in &self.node_log {
            own.extend(own_starts(path, window)?);
        }
        let rows = self.rows()?;
        let advice = self.advice(story.as_ref());
        if self.write_rate_bytes_s.is_some() && advice.is_none() {
            return Err(Failure::usage(
                "the advice needs how long a checkpoint takes and how long a node needs: the log does not show both; give --checkpoint-s and --needed-s",
            ));
        }
        let read = Findings { story, own, rows, advice };
        self.mgm.run()?;
        self.write(&read)?;
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, read: &Findings) -> Result<(), Failure> {
        let Some(path) = &self.json else {
            print!("{}", report::text(read));
            return Ok(());
        };
        let text = format!("{:#}\n", json::of(read));
        if path.as_os_str() == "-" {
            print!("{text}");
            return Ok(());
        }
        std::fs::write(path, text)
            .map_err(|e| Failure::Failed(format!("--json {} cannot be written: {e}", path.display())))?;
        print!("{}", report::text(read));
        Ok(())
    }

    fn rows(&self) -> Result<Vec<Row>, Failure> {
        let Some(from) = &self.ndbinfo else { return Ok(Vec::new()) };
        if from.starts_with("mysql://") {
            return live::rows(from, self.password_file.as_deref());
        }
        let mut table = Table::default();
        each_piece(Path::new(from), |piece| table.feed(piece))?;
        table.finish().map_err(|wrong| in_file(Path::new(from), &wrong))
    }

    /// What is known for an advice, from the command line before the log.
    fn advice(&self, story: Option<&Story>) -> Option<Advice> {
        let rhythm = story.map(|story| ndb::advice::rhythm(&story.checkpoints));
        let checkpoint_ms =
            self.checkpoint_s.map(|s| s * 1000).or_else(|| rhythm.and_then(|rhythm| rhythm.duration_ms))?;
        let needed_ms = self.needed_s.map(|s| s * 1000).or_else(|| longest_needed_ms(story?))?;
        let from_log = || write_rate(self.setting?, rhythm?);
        let write_bytes_s = self.write_rate_bytes_s.or_else(from_log)?;
        Some(Advice {
            load: Load { write_bytes_s, checkpoint_ms, needed_ms },
            setting: self.setting,
            is_rate_from_log: self.write_rate_bytes_s.is_none(),
        })
    }
}

/// From a failure until the data was complete.
fn longest_needed_ms(story: &Story) -> Option<u64> {
    let needed =
        story.restarts.iter().filter_map(|restart| Some(restart.wait_lcp?.since_us(restart.failed?) / 1000));
    needed.max().and_then(|ms| u64::try_from(ms).ok())
}

/// What must have been written for checkpoints to be this far apart; `None` where they follow each other as fast as they can, for then
/// their distance says nothing of what is written.
fn write_rate(setting: u32, rhythm: Rhythm) -> Option<u64> {
    let (spacing_ms, duration_ms) = (rhythm.spacing_ms?, rhythm.duration_ms?);
    let is_by_volume = spacing_ms > duration_ms.saturating_mul(2);
    is_by_volume.then(|| ndb::advice::trigger_bytes(setting).saturating_mul(1000) / spacing_ms.max(1))
}

fn story(path: &Path, window: Window) -> Result<Story, Failure> {
    let mut log = ClusterLog::new(window);
    each_piece(path, |piece| log.feed(piece))?;
    log.finish().map_err(|wrong| in_file(path, &wrong))
}

fn own_starts(path: &Path, window: Window) -> Result<Vec<OwnStart>, Failure> {
    let mut log = NodeLog::new(window);
    each_piece(path, |piece| log.feed(piece))?;
    let own = log.finish().map_err(|wrong| in_file(path, &wrong))?;
    for note in &own.notes {
        // Data nodes print lines without a time; nobody has to be told.
        if !matches!(note, ndb::Note::Continued(_) | ndb::Note::Headless(_)) {
            eprintln!("{}: {note}", path.display());
        }
    }
    Ok(own.starts)
}

fn in_file(path: &Path, wrong: &Wrong) -> Failure {
    Failure::usage(format!("{} {wrong}", path.display()))
}

/// Reads until the end, or until `each` returns that more would not help.
fn each_piece(path: &Path, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| Failure::usage(format!("{} cannot be read: {e}", path.display()));
    let mut file: Box<dyn Read> = if path.as_os_str() == "-" {
        if std::io::stdin().is_terminal() {
            return Err(Failure::usage("standard input is a terminal; a log is wanted there"));
        }
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).map_err(cannot)?)
    };
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(n) if each(piece.get(..n).unwrap_or_default()) => {}
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(cannot(e)),
        }
    }
}
