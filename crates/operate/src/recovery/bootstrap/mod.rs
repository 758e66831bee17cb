//! `understudy recovery bootstrap`: which node of a cluster without a Primary component is the most advanced, and what is to be done.
//!
//! ```text
//!   settings ── ask every node ─┐
//!   --datadir (this host's disk) ├─ candidates ── topology::galera::bootstrap::decide ── page ──(--yes)── pc.bootstrap
//!   --report, --dead, ... (told) ┘
//! ```
//!
//! Invariant: without --yes nothing is changed; with it, one statement on one node, and only when every other node is vouched for.

mod ask;
mod claims;
mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use topology::flavor::Flavor;
use topology::galera::Component;
use topology::galera::bootstrap::{Candidate, Decision, Disk, Refusal, Way, Word, decide};
use topology::kind::Kind;

use self::claims::{OperatorClaims, Options};
use self::page::Page;
use super::position::{self, Means, Unknown};
use cli::exit::{CommandResult, Failure};
use link::Login;
use settings::{self, Settings};

/// For `--help`.
const MORE: &str = "\
Where nodes are left that answer, their component is made Primary (pc.bootstrap), with --yes. Where all are down, it prints what to run on each host.

What a stopped node has is read from its data directory on this host (--datadir), or is told: run `understudy recovery position --datadir DIR > FILE` \
on its host and give the file with --report, or give --position and --members. A node that is silent is not dead: look whether its process runs on its host, \
then say so with --dead.

Exit codes: 0 it is clear what to do, or it is done; 1 refused, with the reason and what lifts it; 2 wrong usage or configuration.";

/// Which node of a cluster without a Primary component is the most advanced, and how it goes on from there.
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Bootstrap {
    /// The configuration [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    told: Options,
    #[command(flatten)]
    means: Means,
    /// Do it; without this nothing is changed
    #[arg(long)]
    yes: bool,
    /// Change nothing, also with --yes
    #[arg(long)]
    dry_run: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Bootstrap {
    /// Asks, decides, prints; with --yes, orders.
    pub fn run(self) -> CommandResult {
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        if settings.kind != Kind::Galera {
            let text = "recovery bootstrap is for Galera, and cluster.kind is \"replication\"";
            return Err(Failure::usage(settings.problem(&settings::table::CLUSTER_KIND, text)));
        }
        let told = self.told.read(&settings)?;
        let login = settings.monitor_login().map_err(Failure::usage)?;
        let runtime = cli::runtime::start()?;
        runtime.block_on(self.work(&settings, &told, &login))
    }

    async fn work(&self, settings: &Settings, told: &OperatorClaims, login: &Login) -> CommandResult {
        let mut disks = BTreeMap::new();
        // Before the nodes are asked, which may have gone on since it was written.
        let known = manager::remembered(&settings.store());
        let (nodes, flavor) = self.look(settings, told, login, &mut disks).await;
        let decision = judged(&nodes, told, known.as_ref());
        let page = Page { nodes: &nodes, decision: &decision, datadirs: &told.datadirs, flavor };
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
        if self.dry_run || !self.yes {
            eprintln!("nothing was changed: --yes orders it");
            return Ok(ExitCode::SUCCESS);
        }
        let again = self.look_again(settings, told, login, &disks).await?;
        if judged(&again, told, known.as_ref())
            != (Ok(Decision::Survivor { via, survivors: survivors(&again) }))
        {
            return Err(changed("the nodes do not say, or have not left, what they did"));
        }
        let (Some(node), Some(Candidate { name, word: Word::Answers(answer), .. })) =
            (settings.nodes.get(via), again.get(via))
        else {
            return Err(Failure::Failed("the node is not known any more".to_owned()));
        };
        ask::bootstrap(&node.address, login, answer)
            .await
            .map_err(|error| Failure::Failed(format!("{name}: {error:#}")))?;
        eprintln!("{name} is in a Primary component again; start the others as usual, and they join it");
        Ok(ExitCode::SUCCESS)
    }

    /// What is known of each node, in the configuration's order, and whose servers they are. What `disks` has is not looked for again.
    async fn look(
        &self,
        settings: &Settings,
        told: &OperatorClaims,
        login: &Login,
        disks: &mut BTreeMap<String, Word>,
    ) -> (Vec<Candidate>, Option<Flavor>) {
        let said = ask::all(settings, login).await;
        let flavor = said.iter().find_map(|facts| facts.said.as_ref().ok()?.flavor);
        let mut nodes = Vec::new();
        for facts in said {
            let word = facts.said.map_or_else(Word::Silent, |said| said.word);
            let word = match word {
                // Nobody's word counts against a sign of life.
                Word::Silent(how) => {
                    if let Some(datadir) = told.datadirs.get(&facts.name)
                        && !disks.contains_key(&facts.name)
                    {
                        disks.insert(facts.name.clone(), self.inspect(datadir).await);
                    }
                    told.of_silent(&facts.name, how, disks.get(&facts.name))
                }
                said => said,
            };
            nodes.push(Candidate { name: facts.name, address: facts.address, word });
        }
        (nodes, flavor.or_else(|| self.flavor_here(told)))
    }

    /// What a data directory on this host shows.
    async fn inspect(&self, datadir: &Path) -> Word {
        match position::inspect(datadir, &self.means).await {
            Ok(left) => Word::Stopped(Disk::Read(left)),
            Err(Unknown::Runs(why)) => Word::Alive(why),
            Err(Unknown::Untold(why)) => Word::Stopped(Disk::Unread(why)),
        }
    }

    /// Where no node answers: by the server's program on this host, when a node's data is here. `mysqld` is everybody's name.
    fn flavor_here(&self, told: &OperatorClaims) -> Option<Flavor> {
        let program = self.means.program().filter(|_| !told.datadirs.is_empty())?;
        (program.file_name()? == "mariadbd").then_some(Flavor::MariaDb)
    }

    /// Once more, right before the order: somebody may have started a node while the first look was read. Data directories come first, since
    /// InnoDB's recovery may take long; then the nodes are asked; then it is seen that no process has come to use the data.
    async fn look_again(
        &self,
        settings: &Settings,
        told: &OperatorClaims,
        login: &Login,
        before: &BTreeMap<String, Word>,
    ) -> Result<Vec<Candidate>, Failure> {
        let mut disks = BTreeMap::new();
        for name in before.keys() {
            if let Some(datadir) = told.datadirs.get(name) {
                disks.insert(name.clone(), self.inspect(datadir).await);
            }
        }
        let known = disks.len();
        let (nodes, _) = self.look(settings, told, login, &mut disks).await;
        if disks.len() > known {
            return Err(changed("a node does not answer any more"));
        }
        for (name, word) in &disks {
            if let (Word::Stopped(_), Some(datadir)) = (word, told.datadirs.get(name)) {
                position::unused(datadir).map_err(|why| changed(&format!("{name}: {why}")))?;
            }
        }
        Ok(nodes)
    }
}

/// What is to be done, unless what was told of a node is shown to be wrong by it.
fn judged(
    nodes: &[Candidate],
    told: &OperatorClaims,
    known: Option<&Component>,
) -> Result<Decision, Refusal> {
    match (decide(nodes, known), told.contradicted(nodes)) {
        (Err(needless), _) if needless.way_out == Way::Needless => Err(needless),
        (_, Some(contradicted)) => Err(contradicted),
        (decision, None) => decision,
    }
}

fn changed(what: &str) -> Failure {
    Failure::Failed(format!("{what}. It was otherwise a moment ago, so nothing was ordered: ask again"))
}

fn survivors(nodes: &[Candidate]) -> Vec<usize> {
    let answers = |(_, node): &(usize, &Candidate)| matches!(node.word, Word::Answers(_));
    nodes.iter().enumerate().filter(answers).map(|(place, _)| place).collect()
}
