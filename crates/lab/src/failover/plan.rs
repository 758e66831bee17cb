//! The command lines of `lab failover` and `lab demo`, which measure the cells of the seed's table.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;

use super::case::{Case, Scope};
use super::front::External;
use super::progress::Progress;
use super::result::Who;
use super::understudy::Knobs;
use super::{Baseline, Driver};
use crate::experiment::{Cluster, ClusterArgs, Output};
use crate::load::arrivals::Arrivals;
use crate::load::second::Tell;
use crate::load::session::Protocol;
use crate::output::positive;
use crate::stage::{ADVISED_EVS, Stage, StagePlan};

/// Measures on a real cluster: graceful, semi-graceful, non-graceful (the seed's nine cells), frozen, vanished x active, passive, all
#[derive(Debug, clap::Args)]
pub struct FailoverPlan {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Run the nodes on a server of another version than the machine's MariaDB, one that `scripts/servers.sh` unpacks: mariadb-11.8, mysql-9.7
    #[arg(long, value_name = "NAME", conflicts_with = "stage")]
    pub server: Option<String>,
    /// Only these rows [default: all five]
    #[arg(long = "case", value_name = "CASES", value_enum, value_delimiter = ',')]
    pub only_cases: Vec<Case>,
    /// Only these columns [default: all three; of replication, active (the primary) and passive (a replica)]
    #[arg(long = "scope", value_name = "SCOPES", value_enum, value_delimiter = ',')]
    pub only_scopes: Vec<Scope>,
    /// How often to measure each cell
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// Transactions a second of each client
    #[arg(long, default_value_t = 30.0, value_parser = positive)]
    pub rate: f64,
    /// Threads of each client
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub threads: u32,
    /// How transactions arrive
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Arrivals,
    /// How statements are sent
    #[arg(long, value_enum, default_value = "prepared")]
    pub protocol: Protocol,
    /// What generates the load
    #[arg(long, value_enum, default_value = "builtin")]
    pub driver: Driver,
    /// Seconds without a fault before the fault
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub warm_s: f64,
    /// Seconds observed from the fault on [default: 8, and 16 for freeze and vanish]
    #[arg(long, value_parser = positive)]
    pub after_s: Option<f64>,
    /// The same seed gives the same load [default: from the clock; the report names it]
    #[arg(long, default_value_t = seconds_since_1970(), hide_default_value = true)]
    pub seed: u64,
    /// Print sysbench's lines, one a second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1), value_name = "1")]
    pub report_interval: Option<u32>,
    /// Measure the proxy at this address instead of Understudy; needs --stage
    #[arg(long, value_name = "HOST:PORT", requires = "stage", conflicts_with = "baseline")]
    pub through: Option<String>,
    /// Command that takes a node out of the proxy of --through; run by sh with NODE and ADDRESS set
    #[arg(long, value_name = "CMD", requires = "through")]
    pub graceful_command: Option<String>,
    /// Command that lets the node take traffic again
    #[arg(long, value_name = "CMD", requires = "through")]
    pub restore_command: Option<String>,
    /// Also measure this, in the same run; several separated by commas
    #[arg(id = "baseline", long, value_name = "BASELINE", value_enum, value_delimiter = ',')]
    pub baselines: Vec<Baseline>,
    /// How often to measure each cell of a baseline [default: as often as the others]
    #[arg(long, requires = "baseline", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub baseline_repetitions: Option<u32>,
    /// Measure only the baseline
    #[arg(long, requires = "baseline")]
    pub baseline_only: bool,
    /// A fresh cluster for each cell, not only for each proxy and writers setting
    #[arg(long, conflicts_with = "stage")]
    pub fresh_cells: bool,
    #[command(flatten)]
    pub knobs: Knobs,
    /// Run the nodes with the recommended evs settings
    #[arg(long, conflicts_with = "stage")]
    pub advised: bool,
    /// One more wsrep_provider_option for the nodes, such as evs.suspect_timeout=PT2S; may be repeated
    #[arg(long = "galera-option", value_name = "NAME=VALUE", conflicts_with = "stage")]
    pub galera_options: Vec<String>,
    /// Use this running stage (lab up) instead of starting one
    #[arg(long, value_name = "NAME")]
    pub stage: Option<String>,
    #[command(flatten)]
    pub output: Output,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Three nodes, Understudy in front, both clients, the active node killed: the table and the plot, in about half a minute
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// File for the report
    #[arg(long, value_name = "FILE", default_value = "demo.html")]
    pub html: PathBuf,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also measure this baseline, in the same run
    #[arg(long, value_enum, value_delimiter = ',')]
    pub baseline: Vec<Baseline>,
}

impl DemoArgs {
    /// The demo is one cell of the table.
    pub fn as_failover(&self) -> FailoverPlan {
        FailoverPlan {
            only_cases: vec![Case::NonGraceful],
            only_scopes: vec![Scope::Active],
            baselines: self.baseline.clone(),
            output: Output { json: self.json.clone(), out_dir: None },
            html: Some(self.html.clone()),
            ..FailoverPlan::default()
        }
    }
}

impl Default for FailoverPlan {
    /// The values of the command line without any option.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: FailoverPlan,
        }
        <Line as clap::Parser>::parse_from(["failover"]).args
    }
}

/// A different load in each run.
fn seconds_since_1970() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The cluster to measure on.
pub enum Ground {
    /// Fresh clusters, each started for a part of the run and ended after it.
    Own(StagePlan),
    /// A running stage that the lab neither starts nor ends.
    Attached(Box<Stage>),
}

impl FailoverPlan {
    /// Rows of the table.
    pub fn cases(&self) -> &[Case] {
        if self.only_cases.is_empty() { &Case::ALL } else { &self.only_cases }
    }

    /// Columns of the table.
    pub fn scopes(&self) -> &[Scope] {
        if self.only_scopes.is_empty() { Scope::of(self.cluster.kind()) } else { &self.only_scopes }
    }

    /// Repetitions of each cell of this proxy.
    pub fn repetitions_of(&self, who: &Who) -> u32 {
        let theirs = self.baseline_repetitions.filter(|_| who.is_baseline());
        theirs.unwrap_or(self.repetitions)
    }

    /// Whether to measure Understudy.
    pub fn measures_understudy(&self) -> bool {
        !self.baseline_only && self.through.is_none()
    }

    /// An external proxy to measure instead of Understudy.
    pub fn external(&self) -> Option<External> {
        self.through.as_ref().map(|address| External {
            address: address.clone(),
            graceful: self.graceful_command.clone(),
            restore: self.restore_command.clone(),
        })
    }

    /// How long a repetition is observed from the fault on, s.
    pub fn after_s(&self, case: Case) -> f64 {
        self.after_s.unwrap_or(match case {
            Case::Graceful | Case::SemiGraceful | Case::NonGraceful => 8.0,
            Case::Freeze | Case::Vanish => 16.0,
        })
    }

    /// Receives sysbench's lines, if they are to be printed.
    pub fn tell(&self, progress: &Progress) -> Option<Tell> {
        let progress = progress.clone();
        self.report_interval.map(|_| Arc::new(move |line: &str| progress.line(line)) as Tell)
    }

    /// Rejects options that contradict each other.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let is_galera = self.cluster.cluster == Cluster::Galera;
        if is_galera && self.cluster.asynchronous {
            bail!(
                "--asynchronous is for --cluster replication: a Galera commit is always certified by the group"
            );
        }
        if !is_galera
            && (self.advised
                || !self.galera_options.is_empty()
                || self.knobs.evict.is_some()
                || self.knobs.silent.is_some())
        {
            bail!("--advised, --galera-option, --evict and --silent are for --cluster galera");
        }
        if is_galera && self.baselines.contains(&Baseline::Mha) {
            bail!(
                "--baseline mha is for --cluster replication: MHA makes a replica the primary, and Galera has none"
            );
        }
        if !is_galera && self.baselines.contains(&Baseline::Haproxy) {
            bail!(
                "--baseline haproxy is for --cluster galera: a load balancer does not make a replica the primary. haproxy-agent follows \
                 an Understudy that does"
            );
        }
        if self.server.is_some() && self.baselines.contains(&Baseline::Mha) {
            bail!("--baseline mha runs on the machine's MariaDB only: leave --server out");
        }
        let is_mysql = self.server.as_deref().is_some_and(|name| name.starts_with("mysql"));
        if is_mysql && self.driver == Driver::Builtin && self.protocol == Protocol::Prepared {
            bail!("MySQL does not prepare BEGIN: say --protocol text");
        }
        if is_mysql && self.cases().iter().any(|case| matches!(case, Case::Freeze | Case::Vanish)) {
            bail!(
                "freeze and vanish leave transactions that no replica has, and `understudy errant`, by which the lab goes on, is for MariaDB \
                 only: say --case graceful,semi-graceful,non-graceful"
            );
        }
        for option in &self.galera_options {
            if !option.contains('=') || option.contains(['"', '\n']) {
                bail!("--galera-option {option:?} is not NAME=VALUE, such as evs.suspect_timeout=PT2S");
            }
        }
        Ok(())
    }

    /// wsrep_provider_options of the stage; empty: Galera's own.
    pub fn galera_options(&self) -> String {
        let advised = self.advised.then(|| ADVISED_EVS.to_owned());
        advised.into_iter().chain(self.galera_options.clone()).collect::<Vec<_>>().join("; ")
    }

    /// The given running stage, or fresh ones.
    pub(super) fn ground(&self) -> anyhow::Result<Ground> {
        let kind = self.cluster.kind();
        let Some(name) = &self.stage else {
            return Ok(Ground::Own(StagePlan {
                name: format!("fo{}", std::process::id()),
                kind,
                server: self.server.clone(),
                galera_options: self.galera_options(),
                ..StagePlan::default()
            }));
        };
        let stage = Stage::attach(name)?;
        if stage.kind().name() != kind.name() {
            bail!("stage {name} is of the kind {0}: say --cluster {0}", stage.kind().name());
        }
        Ok(Ground::Attached(Box::new(stage)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    #[test]
    fn silent_faults_are_watched_longer_and_the_bar_counts_all_proxies() {
        let plan =
            FailoverPlan { baselines: vec![Baseline::Haproxy], repetitions: 3, ..FailoverPlan::default() };
        assert!(plan.after_s(Case::Vanish) > plan.after_s(Case::NonGraceful));
        assert_eq!(plan.steps(), 5 * 3 * (3 + 3));
    }

    #[test]
    fn a_baseline_has_its_own_number_of_repetitions() {
        let plan = FailoverPlan { repetitions: 3, baseline_repetitions: Some(1), ..FailoverPlan::default() };
        assert_eq!([Who::Mha, Who::Understudy].map(|who| plan.repetitions_of(&who)), [1, 3]);
    }
}
