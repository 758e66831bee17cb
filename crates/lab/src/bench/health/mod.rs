//! The benchmark of the health endpoint: runs the seed article's load against `understudy check`, nginx and HAProxy in the same run.
//!
//! ```text
//!   contestant: a real server on its own core        load: a generator on another core
//!        ^                                              | turns of a few seconds, one contestant after the other
//!        |  cpu, memory, dropped connections: kernel    v
//!        '------------------------------------- record --> table, results.csv, result.json
//! ```
//!
//! The contestants alternate in turns, so that other activity on the machine affects all of them alike. The figure of merit is the number
//! of responses per second of processor time that the server used: it does not depend on the generator's speed.

pub mod answer;
pub mod archive;
pub mod args;
pub mod cell;
pub mod contestant;
pub mod csv;
pub mod kernel;
pub mod load;
pub mod record;
pub mod table;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::{Value, json};

use self::archive::{SOURCE, runs, seed_says};
use self::cell::{Cell, words};
use self::contestant::{Contestant, Who};
use self::kernel::{Drops, cpu_time};
use self::load::{Flight, Generator, Load, Mode, Plan, Tally};
use self::record::Record;
use crate::failover::machine;
use crate::failover::progress::Progress;
use crate::failover::result::Machine;
use crate::stage::process::ProcessParent;

/// Goal: Understudy's responses per CPU second, as a fraction of nginx's.
pub const GOAL_OF_NGINX: f64 = 0.9;
/// Goal: maximum response time at 1,000 connections, s.
pub const GOAL_WORST_S: f64 = 0.050;
/// The seed's goal for its own loads: maximum response time, s.
pub const GOAL_SEED_WORST_S: f64 = 1.0;
/// Goal of the closed loop with new connections: the 99.9th percentile within this multiple of nginx's. There the response time is the
/// queue of the loop itself, the number of threads divided by the throughput, for any server.
pub const GOAL_P999_OF_NGINX: f64 = 1.25;
/// A goal for a number of connections is judged only if at least this fraction of them was open at once.
pub const AT_ONCE: f64 = 0.8;
/// Length of one contestant's turn.
const TURN: Duration = Duration::from_secs(2);
/// File descriptors that this program needs besides the connections.
const FILES_BESIDE: u64 = 256;

/// What to measure.
#[derive(Clone, Debug)]
pub struct BenchPlan {
    /// Name, cell (none for a load that the user defined), and load.
    pub loads: Vec<(String, Option<Cell>, Plan)>,
    /// The servers, in this order.
    pub contestants: Vec<Who>,
    /// Width of the time series' intervals, s.
    pub interval_s: f64,
    /// Approximate maximum of rows in each results.csv.
    pub rows_max: usize,
    /// Whether to pin the servers to one core and the generator to another.
    pub pin: bool,
}

/// The results of one contestant under one load.
pub struct Measured {
    /// The contestant.
    pub who: Who,
    /// The run's time, without the turns of the others.
    pub took: Duration,
    /// Processor time of the server; none for a server that the lab did not start.
    pub cpu: Option<Duration>,
    /// Processor time of the generator.
    pub generator_cpu: Duration,
    /// Connections that the kernel dropped during its turns.
    pub drops: Drops,
    /// Keep-alive connections that the server closed.
    pub reconnects: u64,
    /// The generator's own maximum delay (open loop): this much of the response times is not caused by the server.
    pub late_max: Duration,
    /// The number of requests in flight.
    pub flight: Flight,
    /// Connections open at the end of its last turn.
    pub connected: u32,
    /// Response times, outcomes and rows.
    pub record: Record,
}

impl Measured {
    /// Valid responses a second.
    pub fn per_s(&self) -> f64 {
        self.record.counts.answers() as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// Valid responses per second of the server's processor time.
    pub fn per_cpu_s(&self) -> Option<f64> {
        let cpu = self.cpu?.as_secs_f64();
        (cpu > 0.0).then(|| self.record.counts.answers() as f64 / cpu)
    }

    /// The fraction of the time in which the server used a processor.
    pub fn busy(&self) -> Option<f64> {
        Some(self.cpu?.as_secs_f64() / self.took.as_secs_f64().max(1e-9))
    }

    /// The same for the generator: near 1, the generator limited the throughput.
    pub fn generator_busy(&self) -> f64 {
        self.generator_cpu.as_secs_f64() / self.took.as_secs_f64().max(1e-9)
    }
}

/// One load with the results of all contestants.
pub struct Loaded {
    /// Its name.
    pub name: String,
    /// Its cell; none for a load that the user defined.
    pub cell: Option<Cell>,
    /// The load.
    pub plan: Plan,
    /// In the order of the plan.
    pub measured: Vec<Measured>,
}

/// Whether a goal was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// The goal was reached.
    Met,
    /// It was not reached.
    NotMet,
    /// The load did not fulfil the goal's conditions.
    NotMeasured,
}

/// A goal and its judgement.
pub struct GoalResult {
    /// What was required, and what was measured.
    pub text: String,
    /// Whether it was reached.
    pub judgement: Judgement,
}

impl Loaded {
    fn of(&self, who: &Who) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.who == *who)
    }

    /// A contestant's responses per CPU second, as a fraction of nginx's.
    pub fn of_nginx(&self, measured: &Measured) -> Option<f64> {
        Some(measured.per_cpu_s()? / self.of(&Who::Nginx)?.per_cpu_s()?)
    }

    /// Judges Understudy's goals under this load.
    pub fn verdicts(&self) -> Vec<GoalResult> {
        let (Some(ours), Some(cell)) = (self.of(&Who::Understudy), self.cell) else { return Vec::new() };
        let (counts, worst_s) = (&ours.record.counts, ours.record.max_s());
        let mut verdicts = Vec::new();
        let is = |is_met| if is_met { Judgement::Met } else { Judgement::NotMet };
        let mut say = |judgement, text: String| verdicts.push(GoalResult { text, judgement });
        if let (Cell::Keep | Cell::Close, Some(part)) = (cell, self.of_nginx(ours)) {
            let text = format!("answers for each CPU second at least {GOAL_OF_NGINX} x nginx's: {part:.2} x");
            say(is(part >= GOAL_OF_NGINX), text);
        }
        let (at, missing) = self.connections(ours);
        // A result with fewer connections open at once says nothing about the required number.
        let is_there = missing.is_none();
        let is = |is_met| if is_there { is(is_met) } else { Judgement::NotMeasured };
        let missing = missing.unwrap_or_default();
        let limit_s = match cell {
            Cell::A | Cell::B => Some(GOAL_SEED_WORST_S),
            Cell::Keep | Cell::Burst | Cell::Open | Cell::OpenClose => Some(GOAL_WORST_S),
            Cell::Close => None,
        };
        if let Some(limit_s) = limit_s {
            let (limit, worst) = (table::time(limit_s), table::time(worst_s));
            say(is(worst_s <= limit_s), format!("{at}no answer above {limit}: worst {worst}{missing}"));
        } else if let Some(nginx) = self.of(&Who::Nginx) {
            let (p999_s, nginx_s) = (ours.record.percentile_s(99.9), nginx.record.percentile_s(99.9));
            let text = format!(
                "{at}99.9 % of answers within {GOAL_P999_OF_NGINX} x nginx's time: {}, nginx {}{missing}",
                table::time(p999_s),
                table::time(nginx_s)
            );
            say(is(p999_s <= nginx_s * GOAL_P999_OF_NGINX), text);
        }
        let (failed, drops) = (counts.all() - counts.answers(), ours.drops);
        let text = format!(
            "{at}0 timeouts, transport errors, wrong answers and dropped connections: {}, {}, {}, {}{missing}",
            counts.timeouts,
            counts.transport,
            counts.wrong + counts.other,
            drops.listen_overflows.max(drops.listen_drops)
        );
        say(is(failed == 0 && drops.listen_overflows == 0 && drops.listen_drops == 0), text);
        verdicts
    }

    /// The number of connections to which the goals apply, and a note when too few were open at once.
    fn connections(&self, ours: &Measured) -> (String, Option<String>) {
        let wanted = f64::from(self.plan.slots());
        let (there, what) = match self.plan.mode {
            Mode::Closed { .. } => (ours.flight.average, "in flight on average"),
            Mode::Bursts { .. } => (ours.flight.average, "at once on average"),
            Mode::Open { .. } if self.plan.keep => (f64::from(ours.connected), "open at the end"),
            // No fixed number of connections: this goal is about the request rate.
            Mode::Open { rate, .. } => {
                return (format!("at {} requests a second ", report::words::number(rate)), None);
            }
        };
        let missing = (there < wanted * AT_ONCE).then(|| {
            format!(" (there were {} {what}, and {AT_ONCE} of them are needed)", report::words::number(there))
        });
        (format!("at {} connections ", report::words::number(wanted)), missing)
    }
}

/// The results of a whole run.
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// End of the run, as `2026-01-31T12:00:00Z`.
    pub at: String,
    /// The processors used: for the servers, for the generator.
    pub cores: Option<(usize, usize)>,
    /// The command line of each contestant.
    pub commands: BTreeMap<String, String>,
    /// The loads, in order.
    pub loads: Vec<Loaded>,
}

/// Runs the benchmark. The servers keep their files in `dir` meanwhile.
pub async fn run(plan: &BenchPlan, dir: &Path, progress: &Progress) -> anyhow::Result<Report> {
    let connections = plan.loads.iter().map(|(_, _, load)| u64::from(load.slots())).max().unwrap_or(0);
    // The keep-alive connections of all contestants stay open during the turns of the others.
    let kept = connections * plan.contestants.len() as u64;
    allow_files(kept + FILES_BESIDE)?;
    let cores = if plan.pin { two_cores()? } else { None };
    let generator = Generator::start(cores.map(|(_, generator)| generator)).await?;
    let process_parent = ProcessParent::new()?;
    let mut contestants = Vec::new();
    for who in &plan.contestants {
        progress.now(&format!("starting {}", who.name()));
        let core = cores.map(|(server, _)| server);
        contestants.push(Contestant::start(who.clone(), dir, &process_parent, core, connections).await?);
    }
    let mut loads = Vec::new();
    for (name, cell, load) in &plan.loads {
        let measured = measure(plan, load, name, &mut contestants, &generator, progress).await?;
        loads.push(Loaded { name: name.clone(), cell: *cell, plan: load.clone(), measured });
        progress.step();
    }
    let commands = contestants.iter().map(|one| (one.who.name(), one.command.clone())).collect();
    Ok(Report { machine: look().await, at: machine::now_utc(), cores, commands, loads })
}

/// Describes the machine and the versions.
async fn look() -> Machine {
    let own = contestant::program().unwrap_or_default();
    machine::look(&[
        ("Understudy", &own, &["--version"]),
        ("nginx", "nginx", &["-v"]),
        ("HAProxy", "haproxy", &["-v"]),
        ("MariaDB", "mariadbd", &["--no-defaults", "--version"]),
    ])
    .await
}

async fn measure(
    plan: &BenchPlan,
    load: &Plan,
    name: &str,
    contestants: &mut [Contestant],
    generator: &Generator,
    progress: &Progress,
) -> anyhow::Result<Vec<Measured>> {
    let run = Duration::from_secs_f64(load.run_s);
    let mut measured = Vec::new();
    let mut loads = Vec::new();
    for contestant in contestants.iter() {
        let record = Record::new(run, Duration::from_secs_f64(plan.interval_s), plan.rows_max)?;
        loads.push(Some(Load::new(load.clone(), contestant.address, contestant.expect.clone(), record)));
        measured.push(Measured {
            who: contestant.who.clone(),
            took: Duration::ZERO,
            cpu: contestant.pid().map(|_| Duration::ZERO),
            generator_cpu: Duration::ZERO,
            drops: Drops::default(),
            reconnects: 0,
            late_max: Duration::ZERO,
            flight: Flight::default(),
            connected: 0,
            record: Record::new(run, run, 0)?,
        });
    }
    progress.now(&format!("load {name}: {}", words(load)));
    let turns = (run.as_secs_f64() / TURN.as_secs_f64()).ceil().max(1.0);
    while loads.iter().any(Option::is_some) {
        for ((contestant, seen), slot) in contestants.iter_mut().zip(&mut measured).zip(&mut loads) {
            let Some(load) = slot.take() else { continue };
            let left = run.saturating_sub(load.elapsed());
            let (cpu, drops) = (contestant.pid().map(cpu_time).transpose()?, Drops::now()?);
            let (load, turn) = generator.run(load.turn(left.min(TURN))).await??;
            contestant.still_runs()?;
            if let (Some(cpu), Some(before)) = (contestant.pid().map(cpu_time).transpose()?, cpu) {
                *seen.cpu.get_or_insert_default() += cpu.saturating_sub(before);
            }
            seen.drops.add(Drops::now()?.since(drops));
            seen.took += turn.took;
            seen.generator_cpu += turn.cpu;
            progress.part(
                load.elapsed().as_secs_f64() / run.as_secs_f64(),
                &format!(
                    "{} of {turns:.0} turns",
                    (load.elapsed().as_secs_f64() / TURN.as_secs_f64()).ceil()
                ),
            );
            if load.elapsed() < run {
                *slot = Some(load);
            } else {
                (seen.flight, seen.connected) = (load.flight(), load.connected());
                let tally = load.into_tally().context("a transaction outlived its turn")?;
                Tally { record: seen.record, reconnects: seen.reconnects, late_max: seen.late_max, .. } =
                    tally;
            }
        }
    }
    Ok(measured)
}

/// One processor for the servers and one for the generator, of those that this process may use; none when there is only one.
fn two_cores() -> anyhow::Result<Option<(usize, usize)>> {
    let allowed = sched_getaffinity(None).context("cannot see which processors may be used")?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    Ok(cores.next().zip(cores.next()))
}

/// Raises the limit of open files for this process and the servers that it starts; fails if the hard limit is below `needed`.
fn allow_files(needed: u64) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if let Some(maximum) = limit.maximum.filter(|maximum| *maximum < needed) {
        bail!(
            "the load needs {needed} open files and only {maximum} are allowed: raise `ulimit -Hn`, or ask for fewer threads"
        );
    }
    // Set to the hard limit: the servers need as many.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .context("cannot raise the limit of open files")
}

impl Report {
    /// Results that make a server's measurement invalid, however fast it is: wrong responses, or none at all. One line each.
    pub fn faults(&self) -> Vec<String> {
        let all = self.loads.iter().flat_map(|load| load.measured.iter().map(move |one| (load, one)));
        all.filter_map(|(load, one)| {
            let counts = &one.record.counts;
            let wrong = counts.wrong + counts.other;
            let what = match counts.answers() {
                _ if wrong > 0 => format!("gave {wrong} wrong answers"),
                0 => "gave no answer".to_owned(),
                _ => return None,
            };
            Some(format!("{} {what} under load {}", one.who.name(), load.name))
        })
        .collect()
    }

    /// The results as JSON.
    pub fn json(&self) -> Value {
        let loads: Vec<Value> = self.loads.iter().map(Loaded::json).collect();
        json!({
            "machine": self.machine,
            "conditions": {
                "at": self.at,
                "benchmark": "health",
                "server_core": self.cores.map(|cores| cores.0),
                "generator_core": self.cores.map(|cores| cores.1),
                "turn_s": TURN.as_secs_f64(),
                "commands": self.commands,
            },
            "loads": loads,
        })
    }
}

impl serde::Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

impl Loaded {
    fn json(&self) -> Value {
        let measured: Vec<Value> = self
            .measured
            .iter()
            .map(|one| {
                let record = &one.record;
                let intervals: Vec<Value> = record
                    .intervals
                    .iter()
                    .map(|interval| {
                        let times = &interval.times_us;
                        let s = |q: f64| times.value_at_quantile(q) as f64 / 1e6;
                        json!({
                            "answers": interval.answers, "average_s": times.mean() / 1e6, "p80_s": s(0.8), "p90_s": s(0.9),
                            "p95_s": s(0.95), "max_s": times.max() as f64 / 1e6,
                        })
                    })
                    .collect();
                json!({
                    "who": one.who.name(),
                    "took_s": one.took.as_secs_f64(),
                    "transactions": record.counts.all(),
                    "answers_per_s": one.per_s(),
                    "cpu_s": one.cpu.map(|cpu| cpu.as_secs_f64()),
                    "answers_per_cpu_s": one.per_cpu_s(),
                    "of_nginx_per_cpu_s": self.of_nginx(one),
                    "busy": one.busy(),
                    "generator_cpu_s": one.generator_cpu.as_secs_f64(),
                    "generator_busy": one.generator_busy(),
                    "in_flight": one.flight,
                    "connected_at_end": one.connected,
                    "generator_late_max_s": one.late_max.as_secs_f64(),
                    "average_s": record.times_us.mean() / 1e6,
                    "p50_s": record.percentile_s(50.0),
                    "p80_s": record.percentile_s(80.0),
                    "p90_s": record.percentile_s(90.0),
                    "p95_s": record.percentile_s(95.0),
                    "p99_s": record.percentile_s(99.0),
                    "p999_s": record.percentile_s(99.9),
                    "max_s": record.max_s(),
                    "outcomes": record.counts,
                    "drops": one.drops,
                    "reconnects": one.reconnects,
                    "interval_s": record.interval.as_secs_f64(),
                    "intervals": intervals,
                    "csv_each": record.stride,
                    "csv_uncommon_left_out": record.uncommon_dropped,
                })
            })
            .collect();
        let verdicts: Vec<Value> = self
            .verdicts()
            .iter()
            .map(|verdict| json!({ "goal": verdict.text, "judgement": verdict.judgement }))
            .collect();
        let archived = self
            .cell
            .map(|cell| json!({ "source": SOURCE, "runs": runs(cell), "seed_says": seed_says(cell) }));
        json!({
            "name": self.name, "load": self.plan, "words": words(&self.plan), "measured": measured, "goals": verdicts,
            "archived": archived.filter(|_| self.cell.is_some_and(|cell| !runs(cell).is_empty())),
        })
    }
}
