//! `understudy slowlog rotate`: a new slow log file, and the oldest ones removed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warmup::pool::Server;
use warmup::rotate::{self, RotateError, Rotated};

use cli::duration::{milliseconds, seconds};
use cli::exit::{CommandResult, Failure};
use nodecheck::account::Account;

/// For `--help`.
const MORE: &str = "\
slow.log becomes slow.log.1, slow.log.1 becomes slow.log.2, and so on; no statement waits meanwhile, and a streamer loses nothing. A run that was \
ended in the middle is gone on with by the next. The account needs RELOAD. Nothing else rotates this log: neither logrotate nor copytruncate.";

/// Begins a new slow log file by renaming and FLUSH SLOW LOGS. Runs on the server's machine, as root or as the server's user.
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Rotate {
    /// The slow log
    #[arg(long, short = 'f', value_name = "FILE")]
    file: PathBuf,
    /// So many rotated files stay
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    keep: u32,
    /// A file that goes is cut by so much at once, since some file systems stop while a large file is removed
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    step_mb: u64,
    /// Between two cuts
    #[arg(long, value_name = "TIME", default_value_t = 50, value_parser = milliseconds(0..=60_000))]
    pause_ms: u64,
    /// Wait so long for the server's new file
    #[arg(long, value_name = "TIME", default_value_t = 10, value_parser = seconds(1..=600))]
    wait_s: u64,
    /// Say which files would be renamed and removed; nothing is changed, and no statement is logged to prove that the server writes this file
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    account: Account,
}

impl Rotate {
    /// Rotates once.
    pub fn run(self) -> CommandResult {
        let (place, login) = self.account.login()?;
        let settings = rotate::Settings {
            log: self.file,
            keep_files: self.keep,
            step_bytes: self.step_mb << 20,
            pause: Duration::from_millis(self.pause_ms),
            wait_max: Duration::from_secs(self.wait_s),
        };
        let server = Server { place, login };
        let runtime = cli::runtime::start()?;
        let rotated = match self.dry_run {
            true => runtime.block_on(rotate::preview(&server, &settings)),
            false => runtime.block_on(rotate::rotate(&server, &settings)),
        };
        let rotated = rotated.map_err(|error| match error {
            RotateError::Log(_) | RotateError::Another { .. } => Failure::usage(error),
            _ => Failure::Failed(error.to_string()),
        })?;
        let text = if self.dry_run { preview(&rotated, &settings) } else { sentences(&rotated, &settings) };
        print!("{text}");
        Ok(ExitCode::SUCCESS)
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// What would be done.
fn preview(rotated: &Rotated, settings: &rotate::Settings) -> String {
    let log = settings.log.display();
    let mut text = "this would be done, and nothing was changed:\n".to_owned();
    text += &match &rotated.renamed {
        Some((to, bytes)) => format!(
            "{log} becomes {} ({:.1} MiB), and the server begins a new one\n",
            to.display(),
            mib(*bytes)
        ),
        None if settings.log.exists() => format!("{log} is empty: it stays\n"),
        None => format!(
            "{log} is not there: if a run that was ended had renamed it, the server begins a new one\n"
        ),
    };
    for path in &rotated.removed {
        text += &format!("{} is removed\n", path.display());
    }
    if rotated.removed_bytes > 0 {
        text += &format!("{:.1} MiB are freed\n", mib(rotated.removed_bytes));
    }
    text
}

fn sentences(rotated: &Rotated, settings: &rotate::Settings) -> String {
    let log = settings.log.display();
    let ms = rotated.flushed_in.as_secs_f64() * 1000.0;
    let mut text = match &rotated.renamed {
        Some((to, bytes)) => {
            format!(
                "{log} is {} now ({:.1} MiB); the server began a new one in {ms:.1} ms\n",
                to.display(),
                mib(*bytes)
            )
        }
        None if rotated.flushed_in > Duration::ZERO => {
            format!(
                "{log} had been renamed by a run that was ended; the server began a new one in {ms:.1} ms\n"
            )
        }
        None => format!("{log} is empty, or not there: nothing to rotate\n"),
    };
    for path in &rotated.removed {
        text += &format!("removed: {}\n", path.display());
    }
    if rotated.removed_bytes > 0 {
        text += &format!("{:.1} MiB freed\n", mib(rotated.removed_bytes));
    }
    text
}
