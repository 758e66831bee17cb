//! Orders to an NDB Cluster through its own client, ndb_mgm: run as a program with arguments, never through a shell.

use std::process::{Output, Stdio};
use std::time::Duration;

use clap::Args;
use tokio::process::Command;
use tokio::time::timeout;

use cli::exit::Failure;

const PROGRAM: &str = "ndb_mgm";
/// For one order; ndb_mgm itself tries for a long time to reach a management server that is not there.
const ORDER_MAX: Duration = Duration::from_secs(30);
/// ndb_mgm prints these to the lines of an order that a node has carried out.
const LOGGING_DONE: &str = "OK!";
const DUMP_DONE: &str = "Sending dump signal";

/// What is ordered.
#[derive(Args)]
pub struct Mgm {
    /// Management server to which --enable-logging and --dump-7099 go, HOST or HOST:PORT
    #[arg(id = "mgm", long = "mgm", value_name = "HOST")]
    host: Option<String>,
    /// Have checkpoints and the parts of restarts written to the cluster log from now on
    #[arg(long, requires = "mgm")]
    enable_logging: bool,
    /// Start a local checkpoint now, as after filling a database
    #[arg(long, requires = "mgm")]
    dump_7099: bool,
    /// Go on although a DUMP command is a risk
    #[arg(long)]
    accept_risk: bool,
}

/// One order, and how its answer looks when it was carried out.
struct Order {
    words: &'static str,
    risk: &'static str,
    done: &'static str,
}

const LOGGING: [Order; 2] = [
    Order {
        words: "ALL CLUSTERLOG CHECKPOINT=8",
        risk: "two lines more for each checkpoint, until the data nodes or the management server start again",
        done: LOGGING_DONE,
    },
    Order {
        words: "ALL CLUSTERLOG NODERESTART=15",
        risk: "some hundred lines more for each start of a data node, which a small cluster log rotates away sooner",
        done: LOGGING_DONE,
    },
];

const DUMP: Order = Order {
    words: "ALL DUMP 7099",
    risk: "DUMP commands are made for the developers of NDB and are not supported for use; this one starts a checkpoint at once, so all data nodes write to their disks, \
           as much as after any other start of a checkpoint. It leaves no line in any log but the checkpoint's own",
    done: DUMP_DONE,
};

impl Mgm {
    /// What can be refused beforehand.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Some(host) = &self.host else { return Ok(()) };
        if !self.enable_logging && !self.dump_7099 {
            return Err(Failure::usage(
                "--mgm: say what is to be ordered there, --enable-logging or --dump-7099",
            ));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:-_[],".contains(c);
        if host.is_empty() || host.starts_with('-') || !host.chars().all(is_plain) {
            return Err(Failure::usage(format!("--mgm {host:?} is no HOST or HOST:PORT")));
        }
        if self.dump_7099 && !self.accept_risk {
            return Err(Failure::usage(format!(
                "--dump-7099: {}. --accept-risk sends it nevertheless",
                DUMP.risk
            )));
        }
        Ok(())
    }

    /// Sends what is ordered, one after the other; ends with the first that fails.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let Some(host) = &self.host else { return Ok(()) };
        let logging = LOGGING.iter().filter(|_| self.enable_logging);
        let orders: Vec<&Order> = logging.chain(self.dump_7099.then_some(&DUMP)).collect();
        let runtime = cli::runtime::start()?;
        for order in orders {
            eprintln!("{host}: {}. What it costs: {}", order.words, order.risk);
            let output = runtime.block_on(send(host, order.words))?;
            judge(order, &output)?;
            eprintln!("{host}: {}: done", order.words);
        }
        Ok(())
    }
}

async fn send(host: &str, words: &str) -> Result<Output, Failure> {
    let mut command = Command::new(PROGRAM);
    command
        .arg(format!("--ndb-connectstring={host}"))
        .args(["-e", words])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    match timeout(ORDER_MAX, command.output()).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(e)) if e.kind() == std::io::ErrorKind::NotFound => Err(Failure::usage(format!(
            "{PROGRAM} is not on PATH: it comes with the management server of NDB Cluster; run this where it is installed, or give the order there: {words}"
        ))),
        Ok(Err(e)) => Err(Failure::Failed(format!("{PROGRAM} cannot be run: {e}"))),
        Err(_) => Err(Failure::Failed(format!(
            "{PROGRAM} did not end within {} s and was ended: whether {words} was carried out is not known",
            ORDER_MAX.as_secs()
        ))),
    }
}

/// `ndb_mgm -e` ends with 0 for most failures, so its words decide.
fn judge(order: &Order, output: &Output) -> Result<(), Failure> {
    let said =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let is_failed = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.contains("failed") || line.contains("error") || line.contains("unable to connect")
    };
    let is_done = said.contains(order.done) && !said.lines().any(is_failed);
    if output.status.success() && is_done {
        return Ok(());
    }
    let shown: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(5).collect();
    let shown = if shown.is_empty() { "nothing".to_owned() } else { shown.join(" / ") };
    Err(Failure::Failed(format!("{}: {PROGRAM} said {shown} ({})", order.words, output.status)))
}
