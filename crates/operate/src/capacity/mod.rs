//! `understudy capacity`: how many transactions a second a node could apply at most, measured on the running cluster.
//!
//! ```text
//!   place (who) ─> before (may it be done) ─> drive ──orders──> hands ──SQL──> the node, and its guard
//!                                               ^  '──────────> traffic ─────> `understudy serve`
//!                                               '──readings─── watch <──SQL─── all nodes
//!                                             page, plot <── what came of it
//! ```
//!
//! With `--passive` nothing of that is done: `passive` only looks.
//!
//! What is decided is decided in [`measure::capacity`]. Invariant: the node is left as it was found, however this ends; `hands` says how.

mod before;
mod drive;
mod hands;
mod named_asker;
mod page;
mod passive;
mod plot;
mod servers;
mod sql;
mod traffic;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use measure::capacity::precheck::{Condition, refusals};
use measure::capacity::procedure::{Failure as Why, HoldEnd, Plan, Procedure};
use report::file::{write_json, write_text};
use topology::kind::Kind;

use self::before::Found;
use self::hands::Hands;
use self::named_asker::NamedAsker;
use self::servers::Site;
use self::traffic::{Served, Traffic};
use self::watch::Watch;
use cli::duration::seconds;
use cli::exit::{CommandResult, Failure};
use cli::foreground::Signals;
use client::Server;
use nodecheck::account::Account;

/// A signal ended it.
const INTERRUPTED: u8 = 130;
/// There is a figure, and flow control was felt meanwhile.
const DISTURBED: u8 = 4;

/// For `--help`.
const MORE: &str = "\
Galera: the node is drained, desynchronised (wsrep_desync) and locked (FLUSH TABLES WITH READ LOCK) while the others go on; then it catches up.
A replica is drained, too, and only its SQL thread is stopped. The account needs RELOAD, PROCESS and SUPER; for a replica REPLICATION SLAVE ADMIN, too.
Should this command be killed, or the way to the node be lost, the node's own server undoes it: within 10 s, or when the time is up.
Exit codes: 0 measured; 1 refused before anything was changed, failed, or something is left to be undone (the text says which); 2 wrong usage or \
configuration; 3 no running server reached; 4 measured while flow control held up writes, so the figure may be too low; 130 ended by a signal, and undone.";

/// Lets a node fall behind for a minute and times how fast it catches up: what it could apply at most, and how much of that it is asked for
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Capacity {
    /// Which node, by its name; with --standalone its HOST:PORT
    node: String,
    /// Stop nothing and move nobody: an estimate from what happens by itself, as `understudy serve` has seen it since yesterday
    #[arg(long)]
    passive: bool,
    /// With --passive: look at the node directly, 200 times a second, for so long, in seconds [default with --standalone: 60]
    #[arg(long, value_name = "TIME", requires = "passive", value_parser = seconds(1..=86_400))]
    for_s: Option<u64>,
    /// No `understudy serve` runs: the node is not taken out of any traffic, and must have none
    #[arg(long)]
    standalone: bool,
    /// With --standalone: another node of the cluster (a replica's primary) [default: those that the node names]
    #[arg(long, value_name = "HOST:PORT", requires = "standalone")]
    other: Vec<String>,
    /// For so long the usual rate is looked at before, in seconds
    #[arg(long, value_name = "TIME", default_value_t = 60, value_parser = seconds(1..=3600))]
    baseline_s: u64,
    /// For so long the node applies nothing, in seconds
    #[arg(long, value_name = "TIME", default_value_t = 60, value_parser = seconds(1..=600))]
    hold_s: u64,
    /// So long it may take to catch up, in seconds
    #[arg(long, value_name = "TIME", default_value_t = 600, value_parser = seconds(1..=86_400))]
    catch_up_max_s: u64,
    /// So much may wait on the node, MiB [default: half of gcache.size; of a replica half of relay_log_space_limit, or 1024]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    backlog_mb: Option<u64>,
    /// So many transactions may wait on the node
    #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    backlog_max: u64,
    /// Begin although this condition speaks against it; may be given several times
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    allow: Vec<Condition>,
    /// Look whether it may be done, and say what would be done; nothing is changed
    #[arg(long, conflicts_with_all = ["passive", "json", "html"])]
    dry_run: bool,
    /// Sessions of this account on the node are no clients (monitoring); may be given several times
    #[arg(long, value_name = "NAME")]
    ignore_user: Vec<String>,
    /// Write the figures as JSON, too; `-` for standard output instead
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write queue and rates over time as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Of the process that puts the node back when its starter is gone
    #[arg(long, hide = true)]
    put_back_when_gone: bool,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    account: Account,
}

fn condition(name: &str) -> Result<Condition, String> {
    Condition::OVERRIDABLE
        .into_iter()
        .find(|condition| condition.name() == name)
        .ok_or_else(|| format!("there is {}", Condition::OVERRIDABLE.map(Condition::name).join(", ")))
}

impl Capacity {
    /// Measures.
    pub fn run(self) -> CommandResult {
        if self.put_back_when_gone {
            return traffic::succeed(&self.server.client()?, &self.node);
        }
        let runtime = cli::runtime::start()?;
        let outcome = runtime.block_on(self.measure());
        // A request that was given up may still wait for its answer; nobody waits for that.
        runtime.shutdown_background();
        outcome
    }

    async fn measure(self) -> CommandResult {
        if self.passive {
            return self.estimate().await;
        }
        let (site, traffic) = self.site().await?;
        let others: Vec<NamedAsker> =
            site.others.iter().map(|other| NamedAsker::new(other, &site.login)).collect();
        let mut node = NamedAsker::new(&site.node, &site.login);
        let mut ignored = self.ignore_user.clone();
        ignored.push(site.login.user.clone());
        let mut asked: Vec<NamedAsker> = others.iter().map(NamedAsker::another).collect();
        let found = before::look(&site, &mut node, &mut asked, &ignored).await?;
        drop(asked);
        let refused = refusals(&found.facts, &self.allow);
        if !refused.is_empty() {
            let lines: Vec<String> = refused.iter().map(ToString::to_string).collect();
            return Err(Failure::Failed(format!("nothing was changed: {}", lines.join("\nand: "))));
        }
        let plan = self.plan(site.kind, &found);
        if self.dry_run {
            node.quit();
            for step in page::steps(&plan, traffic.would_take_out().await?) {
                println!("{step}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut watch = Watch::new(site.kind, &node, &others);
        let mut hands = Hands::new(plan, node, traffic);
        hands.ignored = ignored;
        hands.may_be_in_use = self.allow.contains(&Condition::InUse);
        hands.is_unguarded = !found.facts.has_guard;
        let mut signals = Signals::with_terminal()?;
        let tell = |procedure: &Procedure| {
            if let Some(doing) = drive::doing(procedure, self.standalone) {
                eprintln!("{}: {doing}", site.node.name);
            }
        };
        let procedure = drive::drive(&mut hands, &mut watch, &mut signals, tell).await;
        watch.quit();
        hands.orders.quit();
        let is_guarded = hands.is_guarded();
        for (order, why) in procedure.left() {
            eprintln!("{}", page::left(&site, *order, why, is_guarded));
        }
        self.tell(&site, &found.version, &procedure)
    }

    /// `--passive`.
    async fn estimate(&self) -> CommandResult {
        let seen = match (self.standalone, self.for_s) {
            (false, None) => passive::of_status(&self.server.client()?.status()?, &self.node)?,
            (_, how_long) => {
                let (site, _) = self.site().await?;
                if site.is_writer {
                    return Err(Failure::Failed(format!(
                        "{} takes the writes: what its own clients write is not applied, so looking at it says nothing of that",
                        self.node
                    )));
                }
                let mut node = NamedAsker::new(&site.node, &site.login);
                let seen =
                    passive::look(&site, &mut node, Duration::from_secs(how_long.unwrap_or(60))).await?;
                node.quit();
                seen
            }
        };
        self.show(&seen.text, || seen.json.clone())?;
        Ok(passive::code(&seen))
    }

    /// Who is measured, and who gives it its traffic.
    async fn site(&self) -> Result<(Site, Traffic), Failure> {
        if self.standalone {
            let login = self.account.login()?.1;
            let site = servers::standalone(&self.node, &self.other, login).await?;
            return Ok((site, Traffic::Nobody));
        }
        let login = match self.server.settings()? {
            Some(settings) if !self.account.names_an_account() => {
                settings.monitor_login().map_err(Failure::usage)?
            }
            _ => self.account.login()?.1,
        };
        let client = self.server.client()?;
        let site = servers::served(&client, &self.node, login)?;
        let traffic = Served::new(client, &self.node, site.was_drained);
        Ok((site, Traffic::Served(traffic)))
    }

    fn plan(&self, kind: Kind, found: &Found) -> Plan {
        let wanted = self.backlog_mb.map_or(found.backlog_bytes_max, |mib| mib << 20);
        Plan {
            kind,
            baseline: Duration::from_secs(self.baseline_s),
            hold: Duration::from_secs(self.hold_s),
            catch_up_max: Duration::from_secs(self.catch_up_max_s),
            change_max: Duration::from_secs(30),
            queue_short: found.queue_short,
            backlog_bytes_max: found.receive_bytes_max.map_or(wanted, |most| wanted.min(most)),
            backlog_max: self.backlog_max,
        }
    }

    /// Says what came of it.
    fn tell(&self, site: &Site, version: &str, procedure: &Procedure) -> CommandResult {
        // What fails after that fails to undo something: the figure stands.
        if procedure.record().marks.empty.is_some() {
            let code = self.tell_figures(site, version, procedure)?;
            return match procedure.failure() {
                Some(why) => Err(Failure::Failed(page::failure(site, why))),
                None => Ok(code),
            };
        }
        let Some(why) = procedure.failure() else {
            return Err(Failure::Failed(format!("{}: its queue was never seen empty", site.node.name)));
        };
        let text = page::failure(site, why);
        if matches!(why, Why::Interrupted(_)) && procedure.left().is_empty() {
            eprintln!("{text}");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Err(Failure::Failed(text))
    }

    /// Shows the figures in all the ways that were asked for.
    fn tell_figures(&self, site: &Site, version: &str, procedure: &Procedure) -> CommandResult {
        let none = || Failure::Failed(format!("{}: nothing was applied that could be timed", site.node.name));
        let counted = procedure.record().counted().ok_or_else(none)?;
        let capacity = counted.capacity().ok_or_else(none)?;
        let result = page::Measured { site, version, procedure, counted, capacity };
        let text = result.text();
        let written = |e: anyhow::Error| Failure::failed(&e);
        if let Some(file) = &self.html {
            let title = format!("Understudy: capacity of {}", site.node.name);
            write_text(file, &plot::page(&title, &text, procedure.record())).map_err(written)?;
        }
        self.show(&text, || result.json())?;
        let is_disturbed = procedure.hold_end() == Some(HoldEnd::FlowControl)
            || procedure.record().elsewhere().is_some_and(|elsewhere| !elsewhere.paused.is_zero());
        Ok(if is_disturbed { ExitCode::from(DISTURBED) } else { ExitCode::SUCCESS })
    }

    /// Prints the text or the JSON, and writes the JSON, as asked for.
    fn show(&self, text: &str, json: impl Fn() -> serde_json::Value) -> Result<(), Failure> {
        match &self.json {
            Some(file) if file.as_os_str() == "-" => println!("{:#}", json()),
            file => {
                println!("{}", text.trim_end());
                if let Some(file) = file {
                    write_json(file, &json()).map_err(|e| Failure::failed(&e))?;
                }
            }
        }
        Ok(())
    }
}
