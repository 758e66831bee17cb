//! `lab up`: starts a cluster that runs until `lab down`, and prints how to reach it.

use std::process::ExitCode;

use anyhow::bail;

use crate::failover::progress::Progress;
use crate::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use crate::stage::replication::{REPLICATION_PASSWORD, REPLICATION_USER};
use crate::stage::{ADVISED_EVS, ClusterKind, Form, Stage, StagePlan};

/// The kinds of cluster
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Cluster {
    /// MariaDB Galera nodes
    Galera,
    /// A primary of MariaDB or MySQL, and replicas that follow it by GTID
    Replication,
}

/// Starts a real cluster on this machine; it runs until `lab down`
#[derive(Debug, clap::Args)]
pub struct UpArgs {
    /// Which kind of cluster
    #[arg(value_enum)]
    pub cluster: Cluster,
    /// How many Galera nodes [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub nodes: Option<u8>,
    /// How many replicas besides the primary [default: 2]
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub replicas: Option<u8>,
    /// Replication is semi-synchronous: a commit returns when a replica has received it
    #[arg(long)]
    pub semi_sync: bool,
    /// Run the nodes on a server of another version than the machine's MariaDB, one that `scripts/servers.sh` unpacks: mariadb-11.8, mysql-9.7
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Name of the stage
    #[arg(long, default_value = "lab")]
    pub name: String,
    /// One wsrep_provider_option for the nodes, such as evs.suspect_timeout=PT2S; may be repeated
    #[arg(long = "galera-option", value_name = "NAME=VALUE")]
    pub galera_options: Vec<String>,
    /// Run the nodes with the recommended evs settings: a silent node leaves after 0.6 s instead of 5 to 10
    #[arg(long)]
    pub advised: bool,
    /// One line for the nodes' my.cnf, such as max_connections=500; may be repeated
    #[arg(long = "server-option", value_name = "NAME=VALUE")]
    pub server_options: Vec<String>,
    /// Each node shows a certificate for its address; `lab status --json` says where that of its authority is
    #[arg(long)]
    pub tls: bool,
    /// Put each node's data on its own file system in memory, with this many megabytes, which `lab fault NODE disk-full` fills
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(100..=65536))]
    pub disk_mb: Option<u32>,
    /// Use loopback addresses even where network namespaces are possible
    #[arg(long)]
    pub loopback: bool,
}

impl UpArgs {
    fn kind(&self) -> anyhow::Result<ClusterKind> {
        let (kind, others, instead) = match self.cluster {
            Cluster::Galera => (
                ClusterKind::Galera,
                vec![("--replicas", self.replicas.is_some()), ("--semi-sync", self.semi_sync)],
                "for replication: a Galera cluster has --nodes",
            ),
            Cluster::Replication => (
                ClusterKind::Replication { semi_sync: self.semi_sync },
                vec![
                    ("--nodes", self.nodes.is_some()),
                    ("--advised", self.advised),
                    ("--galera-option", !self.galera_options.is_empty()),
                ],
                "for Galera: a primary has --replicas",
            ),
        };
        match others.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => bail!("{name} is {instead}"),
            None => Ok(kind),
        }
    }

    fn plan(&self) -> anyhow::Result<StagePlan> {
        let kind = self.kind()?;
        let nodes = match kind {
            ClusterKind::Galera => self.nodes.unwrap_or(3),
            ClusterKind::Replication { .. } => 1 + self.replicas.unwrap_or(2),
        };
        for option in &self.galera_options {
            if !option.contains('=') || option.contains(['"', '\n', ';']) {
                bail!("--galera-option {option:?} is not NAME=VALUE, such as evs.suspect_timeout=PT2S");
            }
        }
        if let Some(option) = self.server_options.iter().find(|option| option.contains('\n')) {
            bail!("--server-option {option:?} is more than one line");
        }
        let advised = self.advised.then(|| ADVISED_EVS.to_owned());
        Ok(StagePlan {
            kind,
            server: self.server.clone(),
            name: self.name.clone(),
            nodes,
            galera_options: advised
                .into_iter()
                .chain(self.galera_options.clone())
                .collect::<Vec<_>>()
                .join("; "),
            server_options: self.server_options.clone(),
            tls: self.tls,
            disk_mb: self.disk_mb,
            keep: true,
            form: if self.loopback { Form::Loopback } else { Form::Automatic },
        })
    }
}

/// Runs the command.
pub async fn run(args: &UpArgs) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let progress = Progress::new(u64::from(plan.nodes));
    let begin = std::time::Instant::now();
    let stage = Stage::up_telling(plan, |line| progress.now(line)).await;
    progress.end();
    let stage = stage?;
    println!("{}", introduction(&stage, begin.elapsed().as_secs_f64(), args.advised));
    Ok(ExitCode::SUCCESS)
}

fn introduction(stage: &Stage, seconds: f64, advised: bool) -> String {
    use std::fmt::Write;
    let mut text = format!("stage {}: {} after {seconds:.1} s\n\n", stage.name(), what_is_up(stage));
    for node in stage.nodes() {
        let place = node.namespace.as_ref().map_or_else(String::new, |name| format!("   namespace {name}"));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {}  {}{place}", node.name, node.address);
    }
    let first =
        stage.nodes().first().map_or_else(|| "127.0.0.1".to_owned(), |node| node.address.ip().to_string());
    let socket = stage.nodes().first().map(|node| node.socket.display().to_string()).unwrap_or_default();
    let replication = match stage.kind() {
        ClusterKind::Galera => String::new(),
        ClusterKind::Replication { .. } => {
            format!("replication  {REPLICATION_USER} / {REPLICATION_PASSWORD}\n  ")
        }
    };
    let (host, name, client) = (stage.host_address(), stage.name(), stage.client().display());
    let name = if name == "lab" { String::new() } else { format!(" --name {name}") };
    let _ = write!(
        text,
        "\n  this side's address (a proxy listens here)  {host}\n  \
         application  {APP_USER} / {APP_PASSWORD}, schema {APP_SCHEMA}:  {client} -h {first} -u {APP_USER} -p{APP_PASSWORD} {APP_SCHEMA}\n  \
         monitor      {MONITOR_USER} / {MONITOR_PASSWORD}\n  \
         {replication}root         no password, by socket only:  {client} -u root -S {socket}\n  \
         server       {}\n  \
         settings     {}{}\n\n\
         `understudy lab status{name}`, `understudy lab fault db1 kill{name}`, `understudy lab down{name}`",
        stage.server(),
        stage.settings(),
        if advised { "; the advised evs settings" } else { "" },
    );
    text
}

/// `3 Galera nodes, Synced`, `a primary and 2 replicas, semi-synchronous`.
fn what_is_up(stage: &Stage) -> String {
    let count = stage.nodes().len();
    match stage.kind() {
        ClusterKind::Galera => format!("{count} Galera nodes, Synced"),
        ClusterKind::Replication { semi_sync } => {
            let replicas = match count {
                1 => "no replica".to_owned(),
                2 => "1 replica".to_owned(),
                _ => format!("{} replicas", count - 1),
            };
            format!(
                "a primary and {replicas}, replicating{}",
                if semi_sync { " semi-synchronously" } else { "" }
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        up: UpArgs,
    }

    fn plan(line: &str) -> Result<StagePlan, String> {
        let line =
            Line::try_parse_from(format!("up {line}").split(' ')).map_err(|error| error.to_string())?;
        line.up.plan().map_err(|error| error.to_string())
    }

    #[test]
    fn each_kind_has_its_own_number_of_nodes() {
        let given = |line| plan(line).map(|plan| (plan.kind, plan.nodes));
        let replication = |semi_sync| ClusterKind::Replication { semi_sync };
        assert_eq!(given("galera"), Ok((ClusterKind::Galera, 3)));
        assert_eq!(given("galera --nodes 5"), Ok((ClusterKind::Galera, 5)));
        assert_eq!(given("replication"), Ok((replication(false), 3)));
        assert_eq!(given("replication --semi-sync --replicas 4"), Ok((replication(true), 5)));
        assert_eq!(given("replication --replicas 0"), Ok((replication(false), 1)));
        assert!(given("replication --replicas 5").is_err() && given("galera --nodes 0").is_err());
    }

    #[test]
    fn what_is_of_the_other_kind_is_refused() {
        for (line, error) in [
            ("galera --replicas 2", "--replicas is for replication: a Galera cluster has --nodes"),
            ("galera --semi-sync", "--semi-sync is for replication: a Galera cluster has --nodes"),
            ("replication --nodes 3", "--nodes is for Galera: a primary has --replicas"),
            ("replication --advised", "--advised is for Galera: a primary has --replicas"),
            ("replication --galera-option a=b", "--galera-option is for Galera: a primary has --replicas"),
        ] {
            assert_eq!(plan(line).unwrap_err(), error, "{line}");
        }
    }
}
