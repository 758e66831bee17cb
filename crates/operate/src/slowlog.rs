//! `understudy slowlog`: a slow log for others to read.

mod rotate;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use warmup::pool;
use warmup::stream;
use web::certificate::{self, Pair, ServerConfig};
use web::key::ApiKey;

use cli::exit::{CommandResult, Failure};
use cli::foreground::{self, Signals};
use nodecheck::account::Account;

/// Readers that are left when the program ends have so long to take what is on its way.
const GRACE: Duration = Duration::from_secs(1);
/// mysql_slowlogd's port; on this machine alone, unless somebody says otherwise: a slow log has what clients wrote and read.
const LISTEN: &str = "127.0.0.1:3307";

/// A slow log for others to read.
#[derive(Subcommand)]
pub enum Slowlog {
    /// Serve a slow log over HTTP while it grows, whole events only
    Serve(Box<Serve>),
    /// Begin a new slow log file without a pause for the server, and remove the oldest ones
    Rotate(Box<rotate::Rotate>),
}

/// GET /slow streams the log from its end on. ?rate_limit=N keeps one event in N, &by=session one connection in N; ?from=start begins at the
/// file's first byte; ?resume=PLACE goes on behind the place that an event's Understudy_place said. GET /metrics has figures. With --pool, GET /pool
/// lets the server on this machine dump which pages are in its memory, for `understudy pool load`; the options for the server are for that alone.
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
    /// Answer only who shows the key in this file (Authorization: Bearer KEY)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Speak TLS, with this certificate (PEM, its chain behind it)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Answer whoever can reach the address, without a key, also beyond this machine
    #[arg(long)]
    open: bool,
    /// Also answer GET /pool, with the pages that the server on this machine has in memory
    #[arg(long)]
    pool: bool,
    #[command(flatten)]
    account: Account,
}

/// Where the streamer answers, and whom.
pub struct Door {
    /// The addresses, `host:port`.
    pub listen: Vec<String>,
    /// Who may ask; everybody without it.
    pub key: Option<ApiKey>,
    /// Plain HTTP without it.
    pub tls: Option<Arc<ServerConfig>>,
    /// The server whose buffer pool may be asked for.
    pub pool: Option<pool::Server>,
}

impl Slowlog {
    /// Runs it.
    pub fn run(self) -> CommandResult {
        match self {
            Slowlog::Serve(serve) => serve.run(),
            Slowlog::Rotate(rotate) => rotate.run(),
        }
    }
}

impl Serve {
    /// Serves until told to stop.
    pub fn run(self) -> CommandResult {
        foreground::log();
        let key = self.key_file.as_deref().map(ApiKey::read).transpose().map_err(Failure::usage)?;
        let pair = self.tls_cert.zip(self.tls_key).map(|(certificate, key)| Pair { certificate, key });
        let tls = pair
            .as_ref()
            .map(|pair| certificate::shown(pair, certificate::HTTP, None).map(|shown| shown.config))
            .transpose()
            .map_err(Failure::usage)?;
        if key.is_none()
            && !self.open
            && let Some(address) = self.listen.iter().find(|address| listen::is_local(address) != Some(true))
        {
            return Err(Failure::usage(format!(
                "--listen {address} can be reached from elsewhere, and a slow log shows what clients write and read: give a key (--key-file FILE; make \
                 one with: head -c 20 /dev/urandom | od -An -tx1 | tr -d ' \\n' > FILE), or say --open"
            )));
        }
        let pool = match self.pool {
            true => Some(self.account.login().map(|(place, login)| pool::Server { place, login })?),
            false => None,
        };
        let settings = stream::Settings { log: self.file, behind_bytes_max: self.behind_max_mb << 20 };
        serve(settings, Door { listen: self.listen, key, tls, pool }, |_| {})
    }
}

/// Serves a log until a signal comes. `ready` is told the addresses once they are listened on.
pub fn serve(settings: stream::Settings, door: Door, ready: impl FnOnce(&[SocketAddr])) -> CommandResult {
    let file = settings.log.display().to_string();
    if let Some(sentence) = warmup::input::unusable_log(&settings.log) {
        return Err(Failure::usage(sentence));
    }
    cli::runtime::start()?.block_on(async {
        let mut signals = Signals::of_service()?;
        let mut router = stream::router(settings).map_err(|e| Failure::Failed(e.to_string()))?;
        if let Some(server) = door.pool {
            router = router.merge(pool::router(server));
        }
        if let Some(key) = door.key {
            router = web::bearer::guarded(router, key);
        }
        let is_secure = door.tls.is_some();
        let (plain, secure) = if is_secure { (Vec::new(), door.listen) } else { (door.listen, Vec::new()) };
        let server = web::server::serve(router, &plain, &secure, door.tls, web::ConnectionLimits::default())
            .map_err(|e| Failure::Failed(e.to_string()))?;
        let (scheme, addresses) = if is_secure { ("https", server.https()) } else { ("http", server.http()) };
        for address in addresses {
            tracing::info!("{file} is streamed at {scheme}://{address}/slow");
        }
        ready(addresses);
        let signal = signals.next().await;
        tracing::info!("{signal}: stopping");
        server.shutdown(GRACE).await;
        Ok(ExitCode::SUCCESS)
    })
}
