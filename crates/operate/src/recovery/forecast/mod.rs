//! `understudy recovery forecast`: for each node, how long it may be away, and what it needs when it stays away longer.
//!
//! From a running `understudy serve`, which watches all the time, when there is one and nothing is asked for that only the servers can tell; else from the servers.

mod page;
pub(super) mod read;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use api::Status;
use clap::Args;
use measure::recovery::WriteRate;
use protocol::gtid::{Family, Position};
use topology::galera::position::is_uuid;
use topology::kind::Kind;

use self::page::Page;
use self::read::NodeRecovery;
use cli::duration::seconds;
use cli::exit::{CommandResult, Failure};
use client::Server;
use doctor::asked::{NodeFacts, answered};
use doctor::windows::{Cluster, Kept, Known, Outlook, Summary, notes};
use settings::{self, Settings};

/// For how long the rate of writes is measured, when nothing else is said; seconds.
const WINDOW_S: u64 = 5;
/// A running server answers within this.
const SERVED_WITHIN: Duration = Duration::from_secs(5);

/// For `--help`.
const MORE: &str = "\
Galera: each member keeps the newest writesets in its gcache. A node that returns is sent what it missed from there (IST); when no member has all of
it any more, it needs a full copy (SST). Replication: what a replica missed is in its source's binary logs, until those are deleted.

Where `understudy serve` runs, its figures are shown, of the last minutes; with --window-s or --position the servers are asked. Only reads.

Exit codes: 0 every node could return without a full copy, at once and after --away-min; 1 one could not, or did not answer; 2 wrong usage or configuration.";

/// How long may each node be away, at the present rate of writes, before it needs a full copy?
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Forecast {
    /// The configuration [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ask the servers, and measure the rate of writes for so long [default: 5, where no `understudy serve` runs]
    #[arg(long, value_name = "TIME", value_parser = seconds(1..=3600))]
    window_s: Option<u64>,
    /// Judge an absence of so many minutes, and say which gcache.size, or retention of binary logs, it needs
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    away_min: Option<u64>,
    /// Up to where a node that does not answer has everything. Galera: `UUID:SEQNO` or `SEQNO`, as in its grastate.dat or by mariadbd --wsrep-recover; -1 when it has none. Replication: its GTIDs
    #[arg(long, value_name = "NODE=POSITION")]
    position: Vec<String>,
    /// A full copy moves so many megabytes a second [default: as the last one that the running `understudy serve` saw, else 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    copy_mb_per_s: Option<u64>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Forecast {
    /// Asks, computes, prints.
    pub fn run(self) -> CommandResult {
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        let positions = positions(&self.position, &settings)?;
        let is_for_servers = self.window_s.is_some() || !positions.is_empty();
        let served = if is_for_servers { None } else { self.served(&settings) };
        let is_served = served.is_some();
        let (summary, rows) = match served {
            Some(served) => served,
            None => {
                let cluster = self.ask(&settings, &positions)?;
                (cluster.summary(), cluster.outlooks())
            }
        };
        let page = Page {
            kind: settings.kind,
            summary,
            rows,
            is_served,
            away: self.away_min.map(|minutes| Duration::from_secs(minutes * 60)),
            copy_bytes_per_s: self.copy_mb_per_s.map(|mb| mb as f64 * 1e6),
        };
        if self.json {
            println!("{:#}", page.json());
        } else {
            print!("{}", page.text());
        }
        Ok(if page.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// What a running server of this configuration knows; nothing when there is none, or it has not looked yet.
    fn served(&self, settings: &Settings) -> Option<(Summary, Vec<Outlook>)> {
        let client = Server::of_config(self.config.clone()).client().ok()?;
        let status: Status = client.get_within("status", SERVED_WITHIN).ok()?.read().ok()?;
        let rows = status.nodes.into_iter().map(|node| node.recovery).collect::<Option<Vec<Outlook>>>()?;
        let is_ours = rows.iter().map(|row| &row.node).eq(settings.nodes.iter().map(|node| &node.name));
        is_ours.then_some((status.recovery?, rows))
    }

    /// The same from the servers.
    fn ask(&self, settings: &Settings, positions: &BTreeMap<String, At>) -> Result<Cluster, Failure> {
        let login = settings.monitor_login().map_err(Failure::usage)?;
        let window = Duration::from_secs(self.window_s.unwrap_or(WINDOW_S));
        let nodes = cli::runtime::start()?.block_on(read::all(settings, &login, window));
        let writes = WriteRate::highest(answered(&nodes).map(|(_, said)| said.writes));
        // The largest figure: a server that was just started does not know all of its tablespaces.
        let data_bytes = answered(&nodes).filter_map(|(_, said)| said.keeps.data_bytes).max();
        let notes = notes(answered(&nodes).map(|(name, said)| (name, &said.keeps)));
        Ok(Cluster {
            kind: settings.kind,
            writes: writes.unwrap_or(WriteRate { bytes_per_s: 0.0, transactions_per_s: 0.0 }),
            measured: window,
            busiest: None,
            data_bytes,
            copied_bytes_per_s: None,
            notes,
            nodes: nodes.into_iter().map(|node| known(node, positions, settings.kind)).collect(),
        })
    }
}

/// What is known of a node.
fn known(node: NodeFacts<NodeRecovery>, positions: &BTreeMap<String, At>, kind: Kind) -> Known {
    let name = node.name;
    match node.said {
        Ok(said) => Known {
            why: format!("does not tell its position; --position {name}=... does"),
            name,
            state: said.state,
            is_there: said.is_there,
            is_unasked: false,
            lasted: None,
            is_remembered: false,
            kept: said.kept,
        },
        Err(why) => {
            let word = if kind == Kind::Galera { "SEQNO" } else { "GTIDS" };
            let kept = match (kind, positions.get(&name)) {
                (Kind::Galera, at) => Kept::Galera {
                    position: at.and_then(At::seqno),
                    history: at.and_then(At::history),
                    missed_bytes: None,
                    donor: None,
                    may_donate: false,
                },
                (Kind::Replication, at) => Kept::Replication {
                    position: at.and_then(At::gtids),
                    binlogs: None,
                    is_primary: false,
                    missed_bytes: 0,
                },
            };
            let why = format!("{why}; --position {name}={word} tells what it has");
            let state = "no answer".to_owned();
            Known {
                name,
                state,
                is_there: false,
                is_unasked: false,
                lasted: None,
                is_remembered: false,
                why,
                kept,
            }
        }
    }
}

/// Up to where a node has everything, as it was said on the command line.
enum At {
    /// With the history that it is of, where that was said.
    Seqno(Option<String>, i64),
    Gtids(Position),
}

impl At {
    fn parse(kind: Kind, text: &str) -> Option<Self> {
        let gtids = |family| Position::parse(family, text).ok();
        match kind {
            Kind::Galera => {
                let (history, seqno) =
                    text.rsplit_once(':').map_or((None, text), |(uuid, seqno)| (Some(uuid), seqno));
                let seqno = seqno.trim().parse().ok().filter(|seqno| *seqno >= -1)?;
                if history.is_some_and(|uuid| !is_uuid(uuid.trim())) {
                    return None;
                }
                Some(Self::Seqno(history.map(|uuid| uuid.trim().to_owned()), seqno))
            }
            Kind::Replication => gtids(Family::MariaDb).or_else(|| gtids(Family::MySql)).map(Self::Gtids),
        }
    }

    fn seqno(&self) -> Option<i64> {
        if let Self::Seqno(_, seqno) = self { Some(*seqno) } else { None }
    }

    fn history(&self) -> Option<String> {
        if let Self::Seqno(history, _) = self { history.clone() } else { None }
    }

    fn gtids(&self) -> Option<Position> {
        if let Self::Gtids(gtids) = self { Some(gtids.clone()) } else { None }
    }
}

/// `NODE=POSITION`, each.
fn positions(said: &[String], settings: &Settings) -> Result<BTreeMap<String, At>, Failure> {
    let mut positions = BTreeMap::new();
    for one in said {
        let parsed =
            one.split_once('=').and_then(|(node, text)| Some((node, At::parse(settings.kind, text)?)));
        let Some((node, at)) = parsed else {
            let wanted = match settings.kind {
                Kind::Galera => "NODE=SEQNO, with a whole number from -1, or NODE=UUID:SEQNO",
                Kind::Replication => "NODE=GTIDS, as the server writes them",
            };
            return Err(Failure::usage(format!("--position {one}: write {wanted}")));
        };
        if !settings.nodes.iter().any(|known| known.name == node) {
            let file = settings.file.display();
            return Err(Failure::usage(format!("--position {one}: {file} has no node {node}")));
        }
        positions.insert(node.to_owned(), at);
    }
    Ok(positions)
}
