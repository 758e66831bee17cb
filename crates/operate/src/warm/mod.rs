//! `understudy warm`: every standby of a cluster is replayed what the active node is asked.
//!
//! Who is active says a running `understudy serve` ([`served`]), or where the application is connected ([`connected`]). No answer, a hold, or
//! several writers mean that nobody is warmed. With `[warm]` in its configuration `understudy serve` does all this by itself.

mod connected;
pub mod served;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use link::{Endpoint, Login};
use tokio::sync::watch;
use warmup::replay::target::Target;
use warmup::replay::{self, Sessions};
use warmup::source::Sample;
use warmup::warmer::warming_table::WarmingTable;
use warmup::warmer::{LogMessage, Roles, Source, Warmer};

use crate::streamer::StreamAccess;
use cli::duration::seconds;
use cli::exit::{CommandResult, Failure};
use cli::foreground::{self, Signals};
use client::Server;

/// Between two looks at who is what.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The password of the account that reads.
const PASSWORD_ENV: &str = "UNDERSTUDY_PASSWORD";

/// For `--help`.
const MORE: &str = "\
Each node runs `understudy slowlog serve`, so that whichever is active can be streamed from. Stays in the foreground until SIGTERM or SIGINT.
A running `understudy serve` needs none of this: [warm] in its configuration does the same.";

/// Keeps the standbys of a cluster warm: replays on each what the active node's slow log says it was asked to read.
///
/// Who is active says a running `understudy serve`; with --application-user, where that account is connected: each node is asked four times a
/// second, and unless it is on exactly one, nobody is warmed.
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Warm {
    #[command(flatten)]
    server: Server,
    /// The active node is the one where this account is connected; no `understudy serve` is asked. --user needs PROCESS
    #[arg(long, value_name = "NAME")]
    application_user: Option<String>,
    /// With --application-user: a node; at least two of them [default: those of the configuration]
    #[arg(long, value_name = "HOST:PORT", requires = "application_user", conflicts_with_all = ["config", "api"])]
    node: Vec<String>,
    /// The port at which each node's slow log is streamed
    #[arg(long, value_name = "N", default_value_t = 3307, value_parser = clap::value_parser!(u16).range(1..))]
    stream_port: u16,
    #[command(flatten)]
    access: StreamAccess,
    /// The account that reads, the same on all nodes; its password is in UNDERSTUDY_PASSWORD
    #[arg(long, value_name = "NAME")]
    user: String,
    /// A pool of so many sessions instead of one for each recorded connection
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pool: Option<u32>,
    /// Replay only one recorded connection in so many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sample_one_in: u32,
    /// With --sample-one-in: one statement in so many instead
    #[arg(long)]
    sample_by_event: bool,
    /// Leave out statements that are so far behind what is read
    #[arg(long, value_name = "TIME", default_value_t = 60, value_parser = seconds(1..=86_400))]
    lag_max_s: u64,
    /// Leave out what this account ran, besides --user; may be given several times
    #[arg(long, value_name = "NAME")]
    skip_user: Vec<String>,
    /// Use an account that may write
    #[arg(long)]
    writable_account: bool,
}

impl Warm {
    /// Warms until told to stop.
    pub fn run(self) -> CommandResult {
        foreground::log();
        let mut skipped_users = self.skip_user;
        skipped_users.push(self.user.clone());
        let password = std::env::var(PASSWORD_ENV).unwrap_or_default();
        let login = Login::with_password(self.user.clone(), password);
        let settings = replay::Settings {
            sessions: match self.pool {
                Some(sessions) => Sessions::Pool(sessions as usize),
                None => replay::Settings::default().sessions,
            },
            lag_max: Some(Duration::from_secs(self.lag_max_s)),
            skipped_users,
            ..replay::Settings::default()
        };
        let sample = Sample { one_in: self.sample_one_in, by_session: !self.sample_by_event };
        let access = self.access.access()?;
        let target_login = login.clone();
        let warmer = Warmer {
            source: Source::SlowLog { port: self.stream_port, sample, access },
            target: Box::new(move |address| Target {
                place: Endpoint::Tcp(address.to_owned()),
                login: target_login.clone(),
                session_init: Vec::new(),
            }),
            settings,
            may_be_writable: self.writable_account,
            warming_table: WarmingTable::default(),
            tell: Box::new(|LogMessage { is_bad, text }| {
                if is_bad {
                    tracing::warn!("{text}");
                } else {
                    tracing::info!("{text}");
                }
            }),
        };
        let runtime = cli::runtime::start()?;
        let roles = match &self.application_user {
            None => served::follow(self.server.client()?, &runtime)?,
            Some(user) if *user == self.user => {
                return Err(Failure::usage(
                    "--application-user and --user are the same account: the replay's own connections would make every standby look active; \
                     replay with an account of its own",
                ));
            }
            Some(user) => {
                let nodes = if self.node.is_empty() { self.server.nodes()? } else { self.node };
                runtime.block_on(connected::follow(nodes, login, user))?
            }
        };
        let ended = runtime.block_on(until_signal(warmer, roles));
        // Whoever asks `understudy serve` may be waiting for it.
        runtime.shutdown_background();
        ended
    }
}

/// Warms until a signal comes. What the replays still run on the standbys is ended before this returns.
async fn until_signal(warmer: Warmer, mut roles: watch::Receiver<Roles>) -> CommandResult {
    let mut signals = Signals::of_service()?;
    let (sender, receiver) = watch::channel(roles.borrow_and_update().clone());
    let mut warming = tokio::spawn(warmer.run(receiver));
    let ended = loop {
        tokio::select! {
            changed = roles.changed() => match changed {
                Ok(()) => tell(&sender, roles.borrow_and_update().clone()),
                Err(_) => break Err(Failure::Failed("nobody says any more who is active".into())),
            },
            signal = signals.next() => {
                tracing::info!("{signal}: stopping");
                break Ok(ExitCode::SUCCESS);
            }
            _ = &mut warming => {
                return Err(Failure::Failed("warming ended with a defect of Understudy, which is told above; please report it".into()));
            }
        }
    };
    drop(sender);
    // It waits for each standby for a few seconds at most. A defect in it has been told.
    let _ = warming.await;
    ended
}

/// Tells when they are others.
fn tell(sender: &watch::Sender<Roles>, now: Roles) {
    sender.send_if_modified(|before| {
        let differs = *before != now;
        *before = now;
        differs
    });
}
