//! The measured servers: real programs in the foreground, each a single process with its own configuration, on one core.
//!
//! Understudy is in the state of the seed's benchmark: its database's port refuses connections, and it probes again each second. nginx
//! and HAProxy send the same body from their configuration.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::answer::{AnswerClass, Expect, Seen, see};
use crate::failover::front::free_address;
use crate::peer;
use crate::stage::process::{Owned, ProcessParent};
use crate::wait;

/// The body that pyclustercheck sends when it cannot query its database.
pub const FAILED_BODY: &str = "Percona XtraDB Cluster Node state could not be retrieved.";
/// How long a server may take to send its first response.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// Listen backlog, for the servers that configure it.
const BACKLOG: u32 = 4096;
/// Connections that a configuration allows beyond those of the load.
const CONNECTIONS_SPARE: u64 = 512;
/// Keep-alive timeout: longer than the turns of the other contestants.
const IDLE_S: u32 = 300;

/// Which server responds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// `understudy check`.
    Understudy,
    /// nginx, `return 503`.
    Nginx,
    /// HAProxy, `http-request return status 503`.
    Haproxy,
    /// Whatever listens at this address.
    Through(SocketAddr),
}

impl Who {
    /// The name in output and in file names.
    pub fn name(&self) -> String {
        match self {
            Self::Understudy => "understudy".into(),
            Self::Nginx => "nginx".into(),
            Self::Haproxy => "haproxy".into(),
            Self::Through(address) => address.to_string(),
        }
    }
}

/// A running server. Dropping it ends its process.
pub struct Contestant {
    /// Which server it is.
    pub who: Who,
    /// Where it listens.
    pub address: SocketAddr,
    /// The expected responses.
    pub expect: Expect,
    /// The command line it was started with, for the report; empty for a server that the lab did not start.
    pub command: String,
    log: PathBuf,
    process: Option<Owned>,
    /// Understudy's database: a port that is bound, but on which nothing listens.
    _refusing: Option<TcpSocket>,
}

impl Contestant {
    /// Starts the server with its files in `dir`, pinned to processor `core` if one is given, for `connections` connections at once, and
    /// waits until it responds.
    ///
    /// # Errors
    /// When the program is missing (names its package) or does not respond (with the end of its log).
    pub async fn start(
        who: Who,
        dir: &Path,
        process_parent: &ProcessParent,
        core: Option<usize>,
        connections: u64,
    ) -> anyhow::Result<Self> {
        let expect = Expect { good: None, unavailable: vec![FAILED_BODY.to_owned()] };
        if let Who::Through(address) = who {
            let (log, expect) = (PathBuf::new(), Expect::default());
            return Ok(Self {
                who,
                address,
                expect,
                command: String::new(),
                log,
                process: None,
                _refusing: None,
            });
        }
        let dir = dir.join(who.name());
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let address = free_address()?;
        let mut refusing = None;
        let (program, args) = match who {
            Who::Nginx => (found("nginx")?, nginx(&dir, address, connections + CONNECTIONS_SPARE)?),
            Who::Haproxy => (found("haproxy")?, haproxy(&dir, address, connections + CONNECTIONS_SPARE)?),
            Who::Understudy | Who::Through(_) => {
                let socket = TcpSocket::new_v4()?;
                socket.bind(([127, 0, 0, 1], 0).into()).context("no free port")?;
                let args = understudy(&dir, address, socket.local_addr()?.port())?;
                refusing = Some(socket);
                (program()?, args)
            }
        };
        let log = dir.join("output.log");
        let (process, command) = spawn(&program, &args, &log, process_parent, core)
            .with_context(|| format!("is the package {} installed?", who.name()))?;
        let mut contestant =
            Self { who, address, expect, command, log, process: Some(process), _refusing: refusing };
        contestant.wait_ready().await?;
        Ok(contestant)
    }

    /// The process ID, if the lab started the server.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Owned::id)
    }

    /// Fails when its process has exited by itself.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        match self.process.as_mut().map(Owned::try_wait).transpose()?.flatten() {
            Some(status) => bail!("{} has ended by itself ({status}){}", self.who.name(), self.last_words()),
            None => Ok(()),
        }
    }

    async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let mut said = String::new();
        let answers = async || {
            self.still_runs()?;
            match ask(self.address, &self.expect).await {
                Ok(outcome) if outcome.is_answer() => return Ok(true),
                Ok(outcome) => said = format!("{outcome:?}"),
                Err(error) => said = error.to_string(),
            }
            Ok(false)
        };
        if !wait::holds(READY_WITHIN, Duration::from_millis(20), answers).await? {
            bail!("{} does not answer as it should: {said}{}", self.who.name(), self.last_words());
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
        if last.is_empty() { String::new() } else { format!("; its last words:\n  {last}") }
    }
}

/// Starts a server; also returns its command line for the report.
fn spawn(
    program: &str,
    args: &[String],
    log: &Path,
    process_parent: &ProcessParent,
    core: Option<usize>,
) -> anyhow::Result<(Owned, String)> {
    let mut command = match core {
        None => Command::new(program),
        Some(core) => {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", &core.to_string(), program]);
            command
        }
    };
    command.args(args);
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    // The report is for readers elsewhere: the paths of the program and of the run's files on this machine are of no use to them.
    let name = Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy());
    let mut said = words.join(" ").replace(program, &name);
    if let Some(dir) = log.parent() {
        said = said.replace(&dir.display().to_string(), "DIR");
    }
    Ok((process_parent.spawn(&command, Some(log))?, said))
}

/// The path of a peer.
fn found(program: &str) -> anyhow::Result<String> {
    Ok(peer::find(program)?.to_string_lossy().into_owned())
}

/// The path of Understudy: the measured program is the one that a user starts.
pub fn program() -> anyhow::Result<String> {
    let path = crate::program::understudy()?;
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

/// Sends one request on its own connection.
async fn ask(address: SocketAddr, expect: &Expect) -> anyhow::Result<AnswerClass> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(64 * 1024).read_to_end(&mut answer).await?;
        anyhow::Ok(match see(&answer, true, expect) {
            Seen::Whole { outcome, .. } => outcome,
            Seen::Part => AnswerClass::Wrong,
        })
    };
    tokio::time::timeout(Duration::from_secs(2), exchange).await.context("no answer within 2 s")?
}

/// Arguments for the load of the seed article: cache time 1 s, as a drop-in for the program that the article measured. They are independent
/// of this machine's configuration: its socket and files are in `dir`.
fn understudy(dir: &Path, address: SocketAddr, database: u16) -> anyhow::Result<Vec<String>> {
    let (address, database) = (address.to_string(), database.to_string());
    let options = write(dir, "empty.cnf", "")?;
    let path = |name: &str| dir.join(name).display().to_string();
    let (socket, disabled) = (path("check.sock"), path("disabled"));
    Ok(["check", "--listen", &address, "--host", "127.0.0.1", "--port", &database]
        .into_iter()
        .chain(["--defaults-file", &options, "--answer-socket", &socket, "--disabled-file", &disabled])
        .chain(["--style", "pyclustercheck", "--interval-ms", "1000", "--stale-ms", "2000"])
        .map(str::to_owned)
        .collect())
}

fn nginx(dir: &Path, address: SocketAddr, connections: u64) -> anyhow::Result<Vec<String>> {
    let path = |name: &str| format!("\"{}\"", dir.join(name).display());
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {};\n", path(kind)))
        .concat();
    // One worker and no master that could outlive this process: `master_process off` runs the worker's own loop.
    let text = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid {};\nerror_log {} warn;\n\
         events {{\n    use epoll;\n    worker_connections {connections};\n    multi_accept on;\n}}\n\
         http {{\n    access_log off;\n    server_tokens off;\n    default_type text/html;\n    keepalive_timeout {IDLE_S};\n    \
         keepalive_requests 1000000000;\n    reset_timedout_connection on;\n{temp}    server {{\n        \
         listen {address} backlog={BACKLOG};\n        location / {{ return 503 \"{FAILED_BODY}\"; }}\n    }}\n}}\n",
        path("nginx.pid"),
        path("error.log"),
    );
    let config = write(dir, "nginx.conf", &text)?;
    Ok(vec![
        "-p".into(),
        dir.display().to_string(),
        "-e".into(),
        dir.join("error.log").display().to_string(),
        "-c".into(),
        config,
    ])
}

fn haproxy(dir: &Path, address: SocketAddr, connections: u64) -> anyhow::Result<Vec<String>> {
    let text = format!(
        "global\n    nbthread 1\n    maxconn {connections}\n\ndefaults\n    mode http\n    timeout connect 5s\n    \
         timeout client {IDLE_S}s\n    timeout server 5s\n    timeout http-keep-alive {IDLE_S}s\n\n\
         frontend health\n    bind {address} backlog {BACKLOG}\n    \
         http-request return status 503 content-type text/html string \"{FAILED_BODY}\"\n"
    );
    Ok(vec!["-db".into(), "-f".into(), write(dir, "haproxy.cfg", &text)?])
}

fn write(dir: &Path, name: &str, text: &str) -> anyhow::Result<String> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}
