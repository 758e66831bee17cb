//! `understudy warmth`: how warm a standby is for the reads of a log, and what a failover to it would cost in disk reads.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use warmup::replay::figures::Figures;
use warmup::replay::target::{Refused, Target};
use warmup::replay::{self, Speed};
use warmup::warmth::{self, Meter, Replayed, Warmth};

use crate::streamer::StreamAccess;
use cli::duration::seconds;
use cli::exit::{CommandResult, Failure};
use cli::foreground::Signals;
use nodecheck::account::Account;

/// For `--help`.
const MORE: &str = "\
The standby runs what it is measured with: reads that surely change nothing, in READ ONLY sessions, as `understudy replay` does. That warms it. The \
forecast is for its state at the beginning. It takes the whole log of the active node: none that is sampled.

Exit codes: 0 the score is known; 1 it is not, or the standby or the log cannot be used; 2 wrong usage.";

/// How long is a file's window: until its end.
const NO_LIMIT: Duration = Duration::from_secs(7 * 86_400);

/// Shows how much of the active node's reads a standby would serve from memory, and the disk reads of a failover to it.
#[derive(Args)]
#[command(after_help = MORE)]
pub struct WarmthCommand {
    /// The active node's slow log: http://HOST:PORT or https://HOST:PORT, where `understudy slowlog serve` streams it; a FILE, all of it; or - for
    /// standard input
    #[arg(value_name = "SOURCE")]
    source: String,
    #[command(flatten)]
    access: StreamAccess,
    #[command(flatten)]
    account: Account,
    /// From a stream: how long to look, and so the time after a failover for which disk reads are forecast
    #[arg(long, value_name = "TIME", default_value_t = 120, value_parser = seconds(1..=3600))]
    window_s: u64,
    /// Replay one read in N on the standby meanwhile; 1 is all, and takes evictions of a small buffer pool into account [default: none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    replay_one_in: Option<u64>,
    /// With --replay-one-in: keep recorded times
    #[arg(long, requires = "replay_one_in")]
    recorded: bool,
    /// Keep so many distinct statements at most; beyond, the window's beginning counts for all of it
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    statements_max: u32,
    /// Leave out what this account ran; may be given several times
    #[arg(long, value_name = "NAME")]
    skip_user: Vec<String>,
    /// Use an account that may write
    #[arg(long)]
    writable_account: bool,
    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

type Source = Pin<Box<dyn AsyncRead + Send>>;

impl WarmthCommand {
    /// Measures once.
    pub fn run(self) -> CommandResult {
        let (place, login) = self.account.login()?;
        let target = Arc::new(Target { place, login, session_init: Vec::new() });
        let is_json = self.json;
        let warmth = cli::runtime::run(self.measure(target))?;
        if is_json {
            println!("{}", to_json(&warmth));
        } else {
            println!("{}", warmth.sentence());
        }
        Ok(if warmth.score.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn measure(self, target: Arc<Target>) -> Result<Warmth, Failure> {
        let mut signals = Signals::new()?;
        target.check(self.writable_account).await.map_err(|refused| match refused {
            Refused::Link { .. } => Failure::Failed(refused.to_string()),
            Refused::Writable { .. } => Failure::usage(refused),
        })?;
        let unanswered = |error| Failure::Failed(format!("the standby cannot be asked: {error}"));
        // No log has it; that of the active node should be the same.
        let sql_mode = target.sql_mode().await.map_err(unanswered)?;
        let (source, is_stream) = self.open().await?;
        let settings = warmth::Settings {
            window: if is_stream { Duration::from_secs(self.window_s) } else { NO_LIMIT },
            replayed: self.replay_one_in.map_or(Replayed::Nothing, Replayed::OneIn),
            is_live: is_stream || self.recorded,
            texts_max: self.statements_max as usize,
            skipped_users: self.skip_user.clone(),
            sql_mode: sql_mode.clone(),
            ..warmth::Settings::default()
        };
        let figures = Arc::new(Figures::default());
        let mut meter = Meter::new(Arc::clone(&target), settings, Arc::clone(&figures));
        let mut source = meter.tap().source(source);
        let replay = replay::Settings {
            speed: if self.recorded { Speed::Recorded(1.0) } else { Speed::AtOnce },
            skipped_users: self.skip_user.clone(),
            sql_mode,
            ..replay::Settings::default()
        };
        let is_replayed = self.replay_one_in.is_some();
        let ended = async move {
            let ended = if is_replayed {
                replay::replay(source, target, replay, figures).await
            } else {
                tokio::io::copy(&mut source, &mut tokio::io::sink()).await.map(|_| ())
            };
            if let Err(error) = ended {
                eprintln!("the log could not be read any further: {error}");
            }
        };
        tokio::select! {
            warmth = meter.window(ended) => warmth.map_err(unanswered),
            signal = signals.next() => Err(Failure::Failed(format!("ended by {signal} before anything was known"))),
        }
    }

    /// The log; and whether it goes on for ever.
    async fn open(&self) -> Result<(Source, bool), Failure> {
        if let Some(address) = self.access.address(&self.source)? {
            return Ok((Box::pin(self.access.open(address).await?), true));
        }
        if self.source == "-" {
            return Ok((Box::pin(tokio::io::stdin()), false));
        }
        let path = PathBuf::from(&self.source);
        let file = tokio::fs::File::open(&path).await;
        let file =
            file.map_err(|e| Failure::usage(format!("the slow log {} cannot be read: {e}", path.display())))?;
        Ok((Box::pin(file), false))
    }
}

/// What is not known is null.
fn to_json(warmth: &Warmth) -> Value {
    json!({
        "score": warmth.score.map(|score| score.share),
        "score_low": warmth.score.map(|score| score.low),
        "score_high": warmth.score.map(|score| score.high),
        "score_statements": warmth.score.map(|score| score.statements),
        "score_is_coarse": warmth.score.map(|score| score.is_coarse),
        "unjudged": warmth.unjudged,
        "active_score": warmth.active_score,
        "forecast_disk_reads": warmth.forecast.map(|forecast| forecast.disk_reads),
        "forecast_low": warmth.forecast.map(|forecast| forecast.low),
        "forecast_high": warmth.forecast.map(|forecast| forecast.high),
        "forecast_method": warmth.forecast.map(|forecast| forecast.method.name()),
        "forecast_own_reads": warmth.forecast.map(|forecast| forecast.own_reads),
        "forecast_reads": warmth.forecast.map(|forecast| forecast.reads),
        "run_share": warmth.forecast.map(|forecast| forecast.run_share),
        "completed_share": warmth.forecast.map(|forecast| forecast.completed_share),
        "window_s": warmth.window.as_secs_f64(),
        "why_unknown": warmth.why_unknown,
    })
}
