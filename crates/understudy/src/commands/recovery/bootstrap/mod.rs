//! `understudy recovery bootstrap`: which node of a cluster without a Primary component is the most advanced, and what is to be done.
//!
//! ```text
//!   settings ── ask every node ─┐
//!   --datadir (this host's disk) ├─ candidates ── topology::galera::bootstrap::decide ── page ──(--yes)── pc.bootstrap
//!   --position, --dead, --lost ──┘
//! ```
//!
//! Invariant: without --yes nothing is changed; with it, one statement on one node, and only when every other node is vouched for.

mod ask;
mod page;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use topology::galera::bootstrap::{Candidate, Decision, Disk, Word, decide};
use topology::galera::position::{Left, Position};
use topology::kind::Kind;

use self::page::Page;
use super::position::{self, Means, Unknown};
use crate::exit::{Failure, Outcome};
use crate::settings::{self, Settings};

/// For `--help`.
const MORE: &str = "\
Where nodes are left that answer, their component is made Primary (pc.bootstrap), with --yes. Where all are down, it prints what to run on each host.

What a stopped node has is read from its data directory on this host (--datadir), or is told (--position): run `understudy recovery position --datadir DIR` \
on its host. A node that is silent is not dead: look whether its process runs on its host, then say so with --dead.

Exit codes: 0 it is clear what to do, or it is done; 1 refused, with the reason and what lifts it; 2 wrong usage or configuration.";

/// Which node of a cluster without a Primary component is the most advanced, and how it goes on from there.
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Bootstrap {
    /// The configuration [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory of a stopped node, on this host
    #[arg(long, value_name = "NODE=DIR")]
    datadir: Vec<String>,
    /// Where a stopped node stands, as `understudy recovery position` or mariadbd --wsrep-recover says on its host
    #[arg(long, value_name = "NODE=UUID:SEQNO")]
    position: Vec<String>,
    /// You have seen on its host that this node's server does not run, and nobody starts it meanwhile
    #[arg(long, value_name = "NODE")]
    dead: Vec<String>,
    /// This node's server does not run, and its data is gone or of no use: what only it had is given up
    #[arg(long, value_name = "NODE")]
    lost: Vec<String>,
    #[command(flatten)]
    means: Means,
    /// Do it; without this nothing is changed
    #[arg(long)]
    yes: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Bootstrap {
    /// Asks, decides, prints; with --yes, orders.
    pub fn run(self) -> Outcome {
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        if settings.kind != Kind::Galera {
            let text = "recovery bootstrap is for Galera, and cluster.kind is \"replication\"";
            return Err(Failure::usage(settings.problem(&settings::table::CLUSTER_KIND, text)));
        }
        let told = self.told(&settings)?;
        let password = settings.password().map_err(Failure::usage)?;
        let runtime = crate::runtime::start()?;
        runtime.block_on(self.work(&settings, &told, &password))
    }

    async fn work(&self, settings: &Settings, told: &Told, password: &str) -> Outcome {
        let nodes: Vec<Candidate> = self.look(settings, told, password).await;
        let decision = decide(&nodes);
        let page = Page { nodes: &nodes, decision: &decision, datadirs: &told.datadirs };
        if self.json {
            println!("{:#}", page.json());
        } else {
            print!("{}", page.text());
        }
        let via = match decision {
            Err(_) => return Ok(ExitCode::FAILURE),
            Ok(Decision::Start { .. }) => return Ok(ExitCode::SUCCESS),
            Ok(Decision::Survivor { via, .. }) => via,
        };
        if !self.yes {
            eprintln!("nothing was changed: --yes orders it");
            return Ok(ExitCode::SUCCESS);
        }
        // Once more, right before the order: somebody may have started a node while the first look was read.
        let again = self.look(settings, told, password).await;
        if decide(&again) != (Ok(Decision::Survivor { via, survivors: survivors(&again) })) {
            return Err(Failure::Failed(
                "a node has changed meanwhile, and nothing was ordered: ask again".to_owned(),
            ));
        }
        let (Some(node), Some(Candidate { name, word: Word::Answers(answer) })) =
            (settings.nodes.get(via), again.get(via))
        else {
            return Err(Failure::Failed("the node is not known any more".to_owned()));
        };
        let login = ask::login(settings, password);
        ask::bootstrap(&node.address, &login, answer)
            .await
            .map_err(|error| Failure::Failed(format!("{name}: {error:#}")))?;
        eprintln!("{name} is in a Primary component again; start the others as usual, and they join it");
        Ok(ExitCode::SUCCESS)
    }

    /// What is known of each node, in the configuration's order.
    async fn look(&self, settings: &Settings, told: &Told, password: &str) -> Vec<Candidate> {
        let mut nodes = Vec::new();
        for facts in ask::all(settings, password).await {
            let said = facts.said.unwrap_or_else(Word::Silent);
            let word = match said {
                // Nobody's word counts against a sign of life.
                Word::Silent(how) => self.silent(told, &facts.name, how).await,
                said => said,
            };
            nodes.push(Candidate { name: facts.name, word });
        }
        nodes
    }

    /// What others say of a node that says nothing itself.
    async fn silent(&self, told: &Told, name: &str, how: String) -> Word {
        if let Some(datadir) = told.datadirs.get(name) {
            return match position::inspect(datadir, &self.means).await {
                Err(Unknown::Runs(why)) => Word::Alive(why),
                Ok(_) | Err(Unknown::Untold(_)) if told.lost.iter().any(|lost| lost == name) => {
                    Word::Stopped(Disk::GivenUp)
                }
                Ok(left) => Word::Stopped(Disk::Read(left)),
                Err(Unknown::Untold(why)) => Word::Stopped(Disk::Unread(why)),
            };
        }
        let has = |names: &[String]| names.iter().any(|known| known == name);
        if has(&told.lost) {
            return Word::Stopped(Disk::GivenUp);
        }
        match (told.positions.get(name), has(&told.dead)) {
            (Some(position), true) => Word::Stopped(Disk::Read(Left::at(position.clone()))),
            (None, true) => Word::Stopped(Disk::Unread("its position was not told".to_owned())),
            (_, false) => Word::Silent(how),
        }
    }

    /// The command line's words about nodes.
    fn told(&self, settings: &Settings) -> Result<Told, Failure> {
        let known = |flag: &str, said: &str, node: &str| {
            let file = settings.file.display();
            let is_known = settings.nodes.iter().any(|known| known.name == node);
            is_known
                .then_some(())
                .ok_or_else(|| Failure::usage(format!("{flag} {said}: {file} has no node {node}")))
        };
        let mut told = Told { dead: self.dead.clone(), lost: self.lost.clone(), ..Told::default() };
        for said in &self.datadir {
            let Some((node, dir)) = said.split_once('=') else {
                return Err(Failure::usage(format!("--datadir {said}: write NODE=DIR")));
            };
            known("--datadir", said, node)?;
            told.datadirs.insert(node.to_owned(), PathBuf::from(dir));
        }
        for said in &self.position {
            let Some((node, position)) = said.split_once('=') else {
                return Err(Failure::usage(format!("--position {said}: write NODE=UUID:SEQNO")));
            };
            known("--position", said, node)?;
            let position: Position =
                position.parse().map_err(|why| Failure::usage(format!("--position {said}: {why}")))?;
            told.positions.insert(node.to_owned(), position);
        }
        for (flag, names) in [("--dead", &told.dead), ("--lost", &told.lost)] {
            for name in names {
                known(flag, name, name)?;
            }
        }
        Ok(told)
    }
}

/// What the operator says of nodes, by name.
#[derive(Default)]
struct Told {
    datadirs: BTreeMap<String, PathBuf>,
    positions: BTreeMap<String, Position>,
    dead: Vec<String>,
    lost: Vec<String>,
}

fn survivors(nodes: &[Candidate]) -> Vec<usize> {
    let answers = |(_, node): &(usize, &Candidate)| matches!(node.word, Word::Answers(_));
    nodes.iter().enumerate().filter(answers).map(|(place, _)| place).collect()
}
