//! `understudy replay`: the reads of a slow log, run on another server.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::io::{AsyncRead, AsyncReadExt};
use warmup::input;
use warmup::replay::ending;
use warmup::replay::figures::Figures;
use warmup::replay::target::{Refused, Target};
use warmup::replay::{self, Sessions, Settings, Speed};

use crate::streamer::StreamAccess;
use cli::duration::{milliseconds, seconds};
use cli::exit::{CommandResult, Failure};
use cli::foreground::Signals;
use nodecheck::account::Account;

/// For `--help`.
const MORE: &str = "\
Nothing is written: only statements that surely change nothing are sent, each session is READ ONLY, and an account that may write is refused.

A signal ends it at once: what waits is not run, and what runs on the server is ended there.

Exit codes: 0 the source or a signal ended it; 1 the server or the source cannot be used, statements had errors, or a signal came before the first entry; 2 wrong usage.";

/// Replays a slow log's reads on a server, to warm it, with the parallelism in which they were recorded.
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Replay {
    /// The slow log: a FILE; http://HOST:PORT or https://HOST:PORT, where `understudy slowlog serve` streams it; - for standard input, which may be
    /// a stream that goes on
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    #[command(flatten)]
    access: StreamAccess,
    #[command(flatten)]
    account: Account,
    /// The schema that sessions begin in, where the log tells none
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
    /// Run by each session before anything else; may be given several times
    #[arg(long, value_name = "SQL")]
    session_init: Vec<String>,
    /// A pool of so many sessions instead of one for each recorded connection
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pool: Option<u32>,
    /// A recorded connection's session ends when it ran nothing for so long
    #[arg(long, value_name = "TIME", default_value_t = 60, value_parser = seconds(1..=86_400))]
    idle_max_s: u64,
    /// Keep recorded times, so many times as fast; without it, as fast as the server is
    #[arg(long, value_name = "FACTOR", num_args = 0..=1, default_missing_value = "1", value_parser = speed)]
    recorded: Option<f64>,
    /// Put statements into the order of their starts, as far as they are no further apart
    #[arg(long, value_name = "TIME", default_value_t = 1000, value_parser = milliseconds(0..=3_600_000))]
    order_window_ms: u64,
    /// Leave out statements that are so far behind what is read [default: none]
    #[arg(long, value_name = "TIME", value_parser = seconds(1..=86_400))]
    lag_max_s: Option<u64>,
    /// Statements that wait take so much memory at most
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=2_047))]
    waiting_max_mb: u64,
    /// Leave out what this account ran; may be given several times
    #[arg(long, value_name = "NAME")]
    skip_user: Vec<String>,
    /// The sql_mode with which recorded sessions began, where it gives backslashes or quotes another meaning
    #[arg(long, value_name = "MODES", default_value = "", value_parser = sql_mode)]
    sql_mode: String,
    /// Use an account that may write
    #[arg(long)]
    writable_account: bool,
}

impl Replay {
    /// Runs it.
    pub fn run(self) -> CommandResult {
        let (place, mut login) = self.account.login()?;
        let skipped_users = self.skip_user;
        login.database = self.schema.map(String::into_bytes);
        let target = Target { place, login, session_init: self.session_init };
        let mut settings = Settings {
            sessions: match self.pool {
                Some(sessions) => Sessions::Pool(sessions as usize),
                None => Sessions::PerConnection { idle_max: Duration::from_secs(self.idle_max_s) },
            },
            speed: self.recorded.map_or(Speed::AtOnce, Speed::Recorded),
            order_window: Duration::from_millis(self.order_window_ms),
            lag_max: self.lag_max_s.map(Duration::from_secs),
            waiting_bytes_max: (self.waiting_max_mb << 20) as usize,
            skipped_users,
            sql_mode: self.sql_mode,
            ..Settings::default()
        };
        let address = match self.source.to_str() {
            Some(url) => self.access.address(url)?.map(str::to_owned),
            None => None,
        };
        let source = match address {
            Some(address) => {
                // Whatever the streamer's server is: what a replay runs must not come back as something to replay.
                settings.skipped_users.push(target.login.user.clone());
                Source::Streamer(address, self.access)
            }
            None if self.source.as_os_str() == "-" => Source::Stdin,
            None => Source::File(self.source),
        };
        let name = source.name();
        let played = play(source, target, settings, self.writable_account)?;
        print!("{}", played.summary());
        played.found_entries(&name)?;
        Ok(if played.figures.errors().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Where a log comes from.
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file, from its beginning to its end.
    File(PathBuf),
    /// What is streamed at this address (`host:port`), from now on.
    Streamer(String, StreamAccess),
}

impl Source {
    /// For sentences.
    pub fn name(&self) -> String {
        match self {
            Source::Stdin => "standard input".to_owned(),
            Source::File(path) => path.display().to_string(),
            Source::Streamer(address, _) => format!("the stream of {address}"),
        }
    }
}

/// A replay that has ended.
pub struct Played {
    /// What came of it.
    pub figures: Arc<Figures>,
    /// How long it took.
    pub spent: Duration,
}

/// Replays `source` on `target` until it ends or a signal comes.
pub fn play(source: Source, target: Target, settings: Settings, may_write: bool) -> Result<Played, Failure> {
    cli::runtime::run(async {
        let mut signals = Signals::new()?;
        // A source that is quiet may take for ever: a signal ends the wait, too.
        let reader = tokio::select! {
            opened = opened(&source, &target, may_write) => opened?,
            signal = signals.next() => {
                return Err(Failure::Failed(format!("ended by {signal} before anything was replayed")));
            }
        };
        let (figures, target) = (Arc::new(Figures::default()), Arc::new(target));
        let begin = Instant::now();
        let replay = replay::replay(reader, Arc::clone(&target), settings, Arc::clone(&figures));
        let ended = tokio::select! {
            ended = replay => Some(ended),
            signal = signals.next() => {
                eprintln!("{signal}: ending; what waits is not run, and what runs on the server is ended there");
                None
            }
            never = tell(Arc::clone(&figures)) => match never {},
        };
        match ended {
            Some(ended) => ended
                .map_err(|e| Failure::Failed(format!("the slow log could not be read any further: {e}")))?,
            None => {
                // With the replay its sessions were dropped.
                if let Err(error) = ending::end(&target, &figures).await {
                    eprintln!("the server could not be asked what still runs there: {error}");
                }
            }
        }
        Ok(Played { figures, spent: begin.elapsed() })
    })
}

/// The source, once it is known to be a slow log, and the server to be one that may be replayed on.
async fn opened(
    source: &Source,
    target: &Target,
    may_write: bool,
) -> Result<impl AsyncRead + Unpin + use<>, Failure> {
    let reader: Pin<Box<dyn AsyncRead>> = match source {
        Source::Stdin => Box::pin(tokio::io::stdin()),
        Source::File(path) => {
            let opened = tokio::fs::File::open(path).await;
            Box::pin(opened.map_err(|e| Failure::usage(input::unreadable(path, &e)))?)
        }
        Source::Streamer(address, access) => Box::pin(access.open(address).await?),
    };
    let reader = looked_at(reader, &source.name()).await?;
    target.check(may_write).await.map_err(|refused| match refused {
        Refused::Link { .. } => Failure::Failed(refused.to_string()),
        Refused::Writable { .. } => Failure::usage(refused),
    })?;
    Ok(reader)
}

/// The reader again, once its first bytes were seen not to be of something else. Of a stream they are waited for as long as it takes: a quiet server
/// has written nothing yet.
async fn looked_at(
    mut reader: Pin<Box<dyn AsyncRead>>,
    name: &str,
) -> Result<impl AsyncRead + Unpin + use<>, Failure> {
    let mut first = Vec::new();
    let read = (&mut reader).take(input::LOOKED_AT_BYTES as u64).read_to_end(&mut first).await;
    read.map_err(|e| Failure::usage(input::unreadable(std::path::Path::new(name), &e)))?;
    match input::foreign(name, &first) {
        Some(sentence) => Err(Failure::usage(sentence)),
        None => Ok(std::io::Cursor::new(first).chain(reader)),
    }
}

/// A line each second, for a person.
async fn tell(figures: Arc<Figures>) -> std::convert::Infallible {
    if !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let executed = figures.executed.load(Relaxed);
        let errors: u64 = figures.errors().values().sum();
        eprint!(
            "\r{executed} run, {}/s, {} sessions, {} waiting, lag {:.1} s, {errors} errors \x1b[K",
            executed - before,
            figures.sessions.load(Relaxed),
            figures.waiting.load(Relaxed),
            figures.lag().as_secs_f64(),
        );
        before = executed;
    }
}

impl Played {
    /// An error if the source `name` has bytes, and not one entry.
    pub fn found_entries(&self, name: &str) -> Result<(), Failure> {
        let counts = self.figures.log().counts;
        if counts.events + counts.too_long + counts.heads > 0 || counts.unparsed_bytes == 0 {
            return Ok(());
        }
        Err(Failure::Failed(format!(
            "not one entry of a slow log was found in {name}: entries begin with lines such as `# User@Host:` and `# Query_time:`; where the \
             slow log is says SELECT @@datadir, @@slow_query_log_file"
        )))
    }

    fn summary(&self) -> String {
        let mut lines = vec![format!(
            "{} statements in {:.1} s, {:.0} a second",
            self.figures.executed.load(Relaxed),
            self.spent.as_secs_f64(),
            self.figures.executed.load(Relaxed) as f64 / self.spent.as_secs_f64().max(0.001)
        )];
        lines.extend(self.figures.account());
        lines.join("\n") + "\n"
    }
}

/// Modes that a replay may set, comma-separated.
fn sql_mode(text: &str) -> Result<String, String> {
    match protocol::statement::Modes::of(text) {
        Some(_) => Ok(text.to_owned()),
        None => {
            Err("only modes that change what a read means, such as NO_BACKSLASH_ESCAPES,ANSI_QUOTES".into())
        }
    }
}

fn speed(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
        .ok_or_else(|| "it must be a number above 0, such as 1 or 2.5".into())
}
