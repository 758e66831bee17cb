//! `understudy slowlog`: a slow log for others to read.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use warmup::stream::{self, Settings};

use super::foreground::{self, Signals};
use crate::exit::{Failure, Outcome};

/// Readers that are left when the program ends have so long to take what is on its way.
const GRACE: Duration = Duration::from_secs(1);
/// mysql_slowlogd's port; on this machine alone, unless somebody says otherwise: a slow log has what clients wrote and read.
const LISTEN: &str = "127.0.0.1:3307";

/// A slow log for others to read.
#[derive(Subcommand)]
pub enum Slowlog {
    /// Serve a slow log over HTTP while it grows, whole events only
    Serve(Serve),
}

/// GET /slow streams the log from its end on. ?rate_limit=N keeps one event in N, &by=session one connection in N; ?from=start begins at the
/// file's first byte; ?resume=PLACE goes on behind the place that an event's Understudy_place said. GET /metrics has figures.
#[derive(Args)]
pub struct Serve {
    /// The slow log; it need not be there yet
    #[arg(long, short = 'f', value_name = "FILE")]
    file: PathBuf,
    /// Answer here; may be given several times
    #[arg(long, value_name = "ADDR:PORT", default_value = LISTEN)]
    listen: Vec<String>,
    /// A reader that is further behind goes on at the log's end, and is told how many bytes it missed
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    behind_max_mb: u64,
}

impl Slowlog {
    /// Runs it.
    pub fn run(self) -> Outcome {
        match self {
            Slowlog::Serve(serve) => serve.run(),
        }
    }
}

impl Serve {
    /// Serves until told to stop.
    pub fn run(self) -> Outcome {
        foreground::log();
        let settings = Settings { log: self.file, behind_bytes_max: self.behind_max_mb << 20 };
        serve(settings, &self.listen, |_| {})
    }
}

/// Serves a log until a signal comes. `ready` is told the addresses once they are listened on.
pub fn serve(settings: Settings, listen: &[String], ready: impl FnOnce(&[std::net::SocketAddr])) -> Outcome {
    let file = settings.log.display().to_string();
    if settings.log.is_dir() {
        return Err(Failure::usage(format!("{file} is a directory; --file is the slow log itself")));
    }
    crate::runtime::start()?.block_on(async {
        let mut signals = Signals::new()?;
        let router = stream::router(settings).map_err(|e| Failure::Failed(e.to_string()))?;
        let server =
            web::server::serve(router, listen, &[], None).map_err(|e| Failure::Failed(e.to_string()))?;
        for address in server.http() {
            tracing::info!("{file} is streamed at http://{address}/slow");
        }
        ready(server.http());
        let signal = signals.next().await;
        tracing::info!("{signal}: stopping");
        server.shutdown(GRACE).await;
        Ok(ExitCode::SUCCESS)
    })
}
