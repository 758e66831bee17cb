//! Tests the endpoint's stability: a real MariaDB node behind a relay hangs, is slow, restarts and flaps; clients read slowly, stay idle
//! and flood. Meanwhile another client sends requests on a fixed schedule, and every response is checked against the true state.
//!
//! ```text
//!   MariaDB <-- relay <-- understudy check <-- probe: an open loop, a new connection for each request
//!      ^ signals  ^ manner        ^ slow readers, idle connections, floods
//! ```
//!
//! The true state is a timeline: each scene records from when on which response is right. Between a fault and the time by which it must
//! be detected, either response is right. A response is wrong when it contradicts the state during all of its duration.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::answer::{AnswerClass, Counts, Expect, Seen, see};
use super::contestant::{ask, check, program, spawn};
use super::kernel::{Drops, Memory};
use super::load::{Load, Mode, Plan};
use super::record::{Record, Row};
use super::relay::{Manner, Relay};
use super::table::{columns, number, time};
use super::{allow_files, drive, two_cores};
use crate::failover::front::free_address;
use crate::failover::machine;
use crate::failover::progress::Progress;
use crate::failover::result::Machine;
use crate::fault::Fault;
use crate::load::arrivals::Arrivals;
use crate::stage::account::{MONITOR_PASSWORD, MONITOR_USER};
use crate::stage::process::ProcessParent;
use crate::stage::{Form, Stage, StagePlan};

/// The probe's requests a second.
const PROBE_RATE: f64 = 200.0;
/// A probe without a response after this time has failed.
const PROBE_TIMEOUT_S: f64 = 2.0;
/// A fault must be detected within this: the endpoint's own limit, --stale-ms; its last successful probe is older than the fault.
const FAULT_KNOWN: Duration = Duration::from_secs(1);
/// A recovery must be detected within this: an interval, a login in progress, and the queries.
const RECOVERY_KNOWN: Duration = Duration::from_millis(1500);
/// A cut connection must be detected within this: the endpoint notices it at once.
const CUT_KNOWN: Duration = Duration::from_millis(300);
/// Quiet time before a fault, and how long a state is observed once it must be detected.
const WATCHED: Duration = Duration::from_millis(1500);
/// Number of clients that never read.
const SLOW_READERS: usize = 1000;
/// Number of clients that send nothing after one request.
const IDLE: u64 = 10_000;
/// How long these clients stay.
const CROWD: Duration = Duration::from_secs(5);
/// Limit of the response time, s: half of the second that the seed's checkers wait.
const WORST_S: f64 = 0.5;
/// Connections a second of the flood, twenty times the seed's load.
const FLOOD_PER_S: u32 = 10_000;
/// Limit of the process's memory, MiB.
const MEMORY_MIB: f64 = 128.0;
/// Limit from SIGTERM until the process is gone, and from the start until Synced.
const RESTART_LIMIT: Duration = Duration::from_secs(60);

/// The scenes (name, description), in this order.
pub const SCENES: [(&str, &str); 8] = [
    ("hung", "the database is stopped by SIGSTOP, and goes on"),
    ("slow", "each answer of the database comes 100 ms later"),
    ("too slow", "each answer of the database comes 2 s later"),
    ("restarted", "the database is stopped by SIGTERM and started again"),
    ("flapping", "connections to the database are cut and let through, four times"),
    ("slow readers", "1,000 clients ask on and on, and read nothing"),
    ("idle", "10,000 connections are kept open and say nothing"),
    ("flood", "10,000 connections a second: reset at once, half a request, garbage"),
];

const GOOD_BODY: &str = "Percona XtraDB Cluster Node is synced.\r\n";
const BAD_BODY: &str = "Percona XtraDB Cluster Node is not synced.\r\n";

/// The state that the endpoint should report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Good,
    Unavailable,
    /// A change that need not be detected yet: both responses are right.
    Either,
}

/// The true state and its start times. The first entry is older than every response.
#[derive(Debug)]
struct Timeline(Vec<(Instant, Truth)>);

impl Timeline {
    fn set(&mut self, truth: Truth) {
        self.0.push((Instant::now(), truth));
    }

    /// Whether the response contradicts the true state during all of its duration. `began`: the start of the probe; `late`: the probe's own
    /// maximum delay, which the endpoint does not cause.
    fn contradicts(&self, began: Instant, late: Duration, row: &Row) -> bool {
        let truth = match row.outcome {
            AnswerClass::Good => Truth::Good,
            AnswerClass::Unavailable => Truth::Unavailable,
            _ => return false,
        };
        let end = end_of(began, row);
        // The row's end is truncated to whole milliseconds.
        let took = Duration::from_micros(row.took_us.into()) + Duration::from_millis(1) + late;
        let begin = end.checked_sub(took).unwrap_or(began);
        // The state in force when the request began, and the changes while it was in progress.
        let before = self.0.iter().rposition(|(at, _)| *at <= begin).unwrap_or(0);
        let mut during = self.0.iter().skip(before).take_while(|(at, _)| *at <= end);
        during.all(|(_, was)| *was != truth && *was != Truth::Either)
    }
}

/// Upper bound of a transaction's end.
fn end_of(began: Instant, row: &Row) -> Instant {
    began + Duration::from_millis(u64::from(row.elapsed_ms) + 1)
}

/// Results of one scene.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Its name.
    pub name: &'static str,
    /// What was done.
    pub what: String,
    /// Outcomes of the probe's requests.
    pub counts: Counts,
    /// Responses that contradict the true state.
    pub untrue: u64,
    /// Response times: average, 99th percentile, maximum, s.
    pub times_s: [f64; 3],
    /// The probe's own maximum delay, s: this much of the response times is not caused by the endpoint.
    pub late_s: f64,
    /// From each fault or recovery to the first response that reports it, ms.
    pub told_ms: Vec<(&'static str, f64)>,
    /// Connections dropped by the kernel.
    pub drops: Drops,
    /// Memory before, maximum and after, MiB.
    pub memory_mib: [f64; 3],
}

impl Scene {
    /// Whether all responses were right, in time, and memory stayed within its limit.
    pub fn is_met(&self) -> bool {
        let counts = &self.counts;
        self.untrue == 0
            && counts.all() > 0
            && counts.all() == counts.answers()
            && self.times_s[2] <= WORST_S
            && self.memory_mib[1] <= MEMORY_MIB
    }
}

/// Results of all scenes of a run.
pub struct SteadyReport {
    /// The machine.
    pub machine: Machine,
    /// End of the run, UTC.
    pub at: String,
    /// The scenes, in order.
    pub scenes: Vec<Scene>,
}

/// What every scene uses.
struct BenchSetup {
    stage: Stage,
    relay: Relay,
    address: SocketAddr,
    pid: u32,
    core: Option<usize>,
}

/// Runs every scene. The endpoint keeps its files in `dir` meanwhile.
///
/// # Errors
/// When a part cannot be started or does not recover.
pub async fn run(dir: &Path, pin: bool, progress: &Progress) -> anyhow::Result<SteadyReport> {
    allow_files(IDLE + 1000)?;
    let cores = if pin { two_cores()? } else { None };
    let plan = StagePlan {
        name: format!("st{}", std::process::id()),
        nodes: 1,
        form: Form::Loopback,
        ..StagePlan::default()
    };
    let stage = Stage::up_telling(plan, |line| progress.now(line)).await?;
    let database = stage.node("db1")?.address;
    let relay = Relay::start(database).await?;
    let process_parent = ProcessParent::new()?;
    let address = free_address()?;
    let password = dir.join("password");
    std::fs::write(&password, format!("{MONITOR_PASSWORD}\n")).context("cannot write the password file")?;
    let mut args = check(dir, address, relay.port)?;
    args.extend([
        "--user".into(),
        MONITOR_USER.into(),
        "--password-file".into(),
        password.display().to_string(),
    ]);
    let log = dir.join("check.log");
    let (process, _) = spawn(&program()?, &args, &log, &process_parent, cores.map(|(server, _)| server))?;
    let place =
        BenchSetup { stage, relay, address, pid: process.id(), core: cores.map(|(_, generator)| generator) };
    let result = place.scenes(progress).await;
    if result.is_err() {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        tracing::warn!("the endpoint's log:\n{log}");
    }
    let scenes = result?;
    drop(process);
    place.stage.down().await?;
    Ok(SteadyReport { machine: super::look().await, at: machine::now_utc(), scenes })
}

/// The actions of a scene while the probe runs.
struct Script<'a> {
    place: &'a BenchSetup,
    truth: Timeline,
    /// Faults and recoveries: name, time, and the state that a response must report.
    told: Vec<(&'static str, Instant, Truth)>,
}

impl Script<'_> {
    /// Records a change that happened just now and must be detected within `within`; then observes it for a while.
    async fn change(&mut self, name: &'static str, truth: Truth, within: Duration) {
        let now = Instant::now();
        self.told.push((name, now, truth));
        sleep(within).await;
        self.truth.0.push((now + within, truth));
        sleep(WATCHED).await;
    }

    fn unsure(&mut self) {
        self.truth.set(Truth::Either);
    }
}

impl BenchSetup {
    async fn scenes(&self, progress: &Progress) -> anyhow::Result<Vec<Scene>> {
        self.wait_good().await?;
        let mut scenes = Vec::new();
        for (name, what) in SCENES {
            progress.now(&format!("{name}: {what}"));
            scenes.push(self.scene(name, what).await.with_context(|| format!("the scene {name}"))?);
            progress.step();
            self.wait_good().await?;
        }
        Ok(scenes)
    }

    async fn wait_good(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let expect = expect();
        while !matches!(ask(self.address, &expect).await, Ok(AnswerClass::Good)) {
            if Instant::now() > deadline {
                bail!("the endpoint does not say that the node is good, 20 s after it is");
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn scene(&self, name: &'static str, what: &str) -> anyhow::Result<Scene> {
        let plan = Plan {
            groups: 1,
            threads: 400,
            keep: false,
            mode: Mode::Open { rate: PROBE_RATE, arrivals: Arrivals::Uniform },
            timeout_s: PROBE_TIMEOUT_S,
            run_s: 60.0,
        };
        let minute = Duration::from_secs(60);
        let load = Load::new(plan, self.address, expect(), Record::new(minute, minute, 100_000)?)?;
        let (before, drops) = (Memory::of(self.pid)?, Drops::now()?);
        let stop = Arc::new(AtomicBool::new(false));
        let truth = Timeline(vec![(Instant::now(), Truth::Good)]);
        let mut script = Script { place: self, truth, told: Vec::new() };
        // Much longer than any scene: the end of the script stops it.
        let probe = drive(load, Duration::from_secs(600), self.core, stop.clone());
        let watch = self.watch_memory();
        let act = async {
            let result = script.act(name).await;
            stop.store(true, Relaxed);
            result
        };
        let (probed, acted, peak) = {
            tokio::pin!(probe, act, watch);
            let mut acted = None;
            let mut peak = 0;
            let probed = loop {
                tokio::select! {
                    probed = &mut probe => break probed,
                    result = &mut act, if acted.is_none() => acted = Some(result),
                    seen = &mut watch => { peak = peak.max(seen); watch.set(self.watch_memory()); }
                }
            };
            (probed, acted, peak)
        };
        acted.context("the probe ended before the scene")??;
        let (load, _) = probed?;
        let (began, late) = (load.began(), load.late_max);
        let (record, after) = (load.record, Memory::of(self.pid)?);
        let mib = |kib: u64| (kib as f64 / 102.4).round() / 10.0;
        let untrue = record.rows().filter(|row| script.truth.contradicts(began, late, row)).count() as u64;
        let told = |(name, at, truth): &(&'static str, Instant, Truth)| {
            let outcome = if *truth == Truth::Good { AnswerClass::Good } else { AnswerClass::Unavailable };
            let ends = record.rows().filter(|row| row.outcome == outcome).map(|row| end_of(began, row));
            let first = ends.filter(|end| end >= at).min()?;
            Some((*name, (first - *at).as_secs_f64() * 1e3))
        };
        Ok(Scene {
            name,
            what: what.to_owned(),
            untrue,
            times_s: [record.times_us.mean() / 1e6, record.percentile_s(99.0), record.max_s()],
            late_s: late.as_secs_f64(),
            told_ms: script.told.iter().filter_map(told).collect(),
            drops: Drops::now()?.since(drops),
            memory_mib: [mib(before.now_kib), mib(peak.max(after.now_kib)), mib(after.now_kib)],
            counts: record.counts,
        })
    }

    /// The endpoint's resident memory, KiB, after a short delay.
    async fn watch_memory(&self) -> u64 {
        sleep(Duration::from_millis(50)).await;
        Memory::of(self.pid).map_or(0, |memory| memory.now_kib)
    }
}

impl Script<'_> {
    async fn act(&mut self, name: &str) -> anyhow::Result<()> {
        let (stage, relay) = (&self.place.stage, &self.place.relay);
        sleep(WATCHED).await;
        match name {
            "hung" => {
                self.unsure();
                stage.fault("db1", Fault::Freeze).await?;
                self.change("frozen", Truth::Unavailable, FAULT_KNOWN).await;
                self.unsure();
                stage.fault("db1", Fault::Thaw).await?;
                self.change("thawed", Truth::Good, RECOVERY_KNOWN).await;
            }
            "slow" => {
                relay.set(Manner::Delay(Duration::from_millis(100)));
                sleep(CROWD).await;
                relay.set(Manner::Pass);
            }
            "too slow" => {
                self.unsure();
                relay.set(Manner::Delay(Duration::from_secs(2)));
                self.change("slow", Truth::Unavailable, FAULT_KNOWN).await;
                self.unsure();
                relay.set(Manner::Pass);
                self.change("fast again", Truth::Good, RECOVERY_KNOWN).await;
            }
            "restarted" => {
                self.unsure();
                stage.fault("db1", Fault::Stop).await?;
                stage.wait_gone("db1", RESTART_LIMIT).await?;
                self.change("gone", Truth::Unavailable, CUT_KNOWN).await;
                self.unsure();
                stage.start("db1").await?;
                stage.wait_synced("db1", RESTART_LIMIT).await?;
                self.change("synced", Truth::Good, RECOVERY_KNOWN).await;
            }
            "flapping" => {
                for _ in 0..4 {
                    self.unsure();
                    relay.set(Manner::Cut);
                    self.change("cut", Truth::Unavailable, CUT_KNOWN).await;
                    self.unsure();
                    relay.set(Manner::Pass);
                    self.change("let through", Truth::Good, RECOVERY_KNOWN).await;
                }
            }
            "slow readers" => self.crowd(slow_readers).await?,
            "idle" => self.crowd(idle).await?,
            "flood" => self.crowd(flood).await?,
            other => bail!("no scene is called {other}"),
        }
        Ok(())
    }

    /// Runs a group of clients on its own thread until it ends.
    async fn crowd(&mut self, crowd: fn(SocketAddr, Instant) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let address = self.place.address;
        let until = Instant::now() + CROWD;
        tokio::task::spawn_blocking(move || crowd(address, until)).await.context("the crowd broke off")??;
        sleep(WATCHED).await;
        Ok(())
    }
}

fn expect() -> Expect {
    Expect { good: Some(GOOD_BODY.to_owned()), unavailable: vec![BAD_BODY.to_owned()] }
}

/// Opens a connection; `blocks` says whether the socket is blocking.
fn connect(address: SocketAddr, blocks: bool) -> Result<OwnedFd, Errno> {
    let flags = if blocks { SocketFlags::empty() } else { SocketFlags::NONBLOCK };
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags | SocketFlags::CLOEXEC, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

const KEPT_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n";

/// Clients that send requests as long as the sockets accept them, and never read.
fn slow_readers(address: SocketAddr, until: Instant) -> anyhow::Result<()> {
    let many = KEPT_REQUEST.repeat(64);
    let mut sockets = Vec::new();
    for _ in 0..SLOW_READERS {
        sockets.push(connect(address, false).context("a slow reader cannot connect")?);
    }
    while Instant::now() < until {
        for socket in &sockets {
            // The buffer is full, or the server has closed the connection: both are expected.
            let _ = rustix::net::send(socket, &many, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// One request each, so that the server keeps the connection; then nothing.
fn idle(address: SocketAddr, until: Instant) -> anyhow::Result<()> {
    let mut sockets = Vec::new();
    let mut buffer = [0; 1024];
    for number in 0..IDLE {
        let socket = connect(address, true).with_context(|| format!("after {number} idle connections"))?;
        rustix::net::send(&socket, KEPT_REQUEST, SendFlags::NOSIGNAL)?;
        let (_, count) = rustix::net::recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        match see(&buffer[..count], false, &expect()) {
            Seen::Whole { keeps: true, .. } => sockets.push(socket),
            other => bail!("idle connection {number} got {other:?} and was to be kept"),
        }
    }
    std::thread::sleep(until.saturating_duration_since(Instant::now()).max(CROWD / 2));
    // All must still be open: a server that closes idle connections would pass this test too easily.
    let gone = sockets
        .iter()
        .filter(|socket| rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT).is_ok())
        .count();
    if gone > 0 {
        bail!("{gone} of {IDLE} idle connections were closed by the server");
    }
    Ok(())
}

/// Connections that are reset at once: in turn after nothing, half a request, and garbage.
fn flood(address: SocketAddr, until: Instant) -> anyhow::Result<()> {
    let pieces: [&[u8]; 3] = [b"", b"GET / HT", b"\x00\xff\x16\x03garbage"];
    let began = Instant::now();
    for (number, piece) in (0_u32..).zip(pieces.iter().cycle()) {
        let due = began + Duration::from_secs(1) / FLOOD_PER_S * number;
        if due > until {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        match connect(address, false) {
            Ok(socket) => {
                if !piece.is_empty() {
                    let _ = rustix::net::send(&socket, piece, SendFlags::NOSIGNAL);
                }
                // A reset leaves no local port in TIME_WAIT: the probe needs those ports too.
                rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
            }
            Err(Errno::ADDRNOTAVAIL) => std::thread::yield_now(),
            Err(error) => return Err(error).context("the flood cannot connect"),
        }
    }
    Ok(())
}

impl SteadyReport {
    /// Untrue or wrong responses; one line for each scene that had any.
    pub fn faults(&self) -> Vec<String> {
        let wrong = |scene: &Scene| scene.counts.wrong + scene.counts.other;
        let bad = self.scenes.iter().filter(|scene| scene.untrue + wrong(scene) > 0);
        bad.map(|scene| {
            format!("{} untrue and {} wrong answers in the scene {}", scene.untrue, wrong(scene), scene.name)
        })
        .collect()
    }

    /// The results as text for the terminal.
    pub fn draw(&self) -> String {
        let titles = [
            "scene",
            "asked",
            "200",
            "503",
            "untrue",
            "wrong",
            "timeouts",
            "transport",
            "average",
            "99 %",
            "worst",
            "probe late",
            "memory MiB (before, most, after)",
            "overflows",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for scene in &self.scenes {
            let counts = &scene.counts;
            let [before, most, after] = scene.memory_mib;
            rows.push(vec![
                scene.name.to_owned(),
                number(counts.all() as f64),
                number(counts.good as f64),
                number(counts.unavailable as f64),
                number(scene.untrue as f64),
                number((counts.wrong + counts.other) as f64),
                number(counts.timeouts as f64),
                number(counts.transport as f64),
                time(scene.times_s[0]),
                time(scene.times_s[1]),
                time(scene.times_s[2]),
                time(scene.late_s),
                format!("{before:.1}, {most:.1}, {after:.1}"),
                number(scene.drops.listen_overflows as f64),
            ]);
        }
        let mut out = columns(&rows);
        out.push('\n');
        for scene in &self.scenes {
            let told: Vec<String> =
                scene.told_ms.iter().map(|(what, ms)| format!("{what}: told after {ms:.0} ms")).collect();
            let met = if scene.is_met() { "met:    " } else { "NOT MET:" };
            out += &format!("  {met} {}: {}", scene.name, scene.what);
            if !told.is_empty() {
                out += &format!(" ({})", told.join(", "));
            }
            out.push('\n');
        }
        out += &format!(
            "\n{PROBE_RATE} requests a second, each on a new connection. untrue: an answer that contradicts what was true during all of its \
             time, once that must be known ({} ms after a fault, {} after a cut, {} after a recovery, and as much later as the probe was late at worst). met: none untrue, no request \
             without its answer, none above {}, at most {MEMORY_MIB} MiB.\n",
            FAULT_KNOWN.as_millis(),
            CUT_KNOWN.as_millis(),
            RECOVERY_KNOWN.as_millis(),
            time(WORST_S),
        );
        out
    }

    /// The results as JSON.
    pub fn json(&self) -> Value {
        let scenes: Vec<Value> = self
            .scenes
            .iter()
            .map(|scene| {
                let told: Vec<Value> =
                    scene.told_ms.iter().map(|(what, ms)| json!({ "what": what, "told_after_ms": ms })).collect();
                json!({
                    "name": scene.name, "what": scene.what, "outcomes": scene.counts, "untrue": scene.untrue,
                    "average_s": scene.times_s[0], "p99_s": scene.times_s[1], "max_s": scene.times_s[2], "probe_late_max_s": scene.late_s, "told": told,
                    "drops": scene.drops, "memory_mib_before": scene.memory_mib[0], "memory_mib_most": scene.memory_mib[1],
                    "memory_mib_after": scene.memory_mib[2], "met": scene.is_met(),
                })
            })
            .collect();
        json!({
            "machine": self.machine,
            "conditions": { "at": self.at, "benchmark": "health, steadiness", "probe_rate": PROBE_RATE },
            "scenes": scenes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_by_what_was_true_in_their_time() {
        let began = Instant::now();
        let mark = |ms, truth| (began + Duration::from_millis(ms), truth);
        let line = Timeline(vec![
            mark(0, Truth::Good),
            mark(1000, Truth::Either),
            mark(2000, Truth::Unavailable),
            mark(3000, Truth::Either),
            mark(4000, Truth::Good),
        ]);
        let untrue = |end_ms: u32, took_ms: u32, outcome| {
            let row = Row { elapsed_ms: end_ms, epoch_s: 0, group: 0, outcome, took_us: took_ms * 1000 };
            line.contradicts(began, Duration::ZERO, &row)
        };
        assert!(!untrue(500, 1, AnswerClass::Good) && untrue(500, 1, AnswerClass::Unavailable));
        assert!(!untrue(1500, 1, AnswerClass::Good) && !untrue(1500, 1, AnswerClass::Unavailable));
        assert!(untrue(2500, 1, AnswerClass::Good) && !untrue(2500, 1, AnswerClass::Unavailable));
        assert!(!untrue(2500, 1000, AnswerClass::Good), "it was asked while either was right");
        let row = Row { elapsed_ms: 2010, epoch_s: 0, group: 0, outcome: AnswerClass::Good, took_us: 1000 };
        let late = |ms| line.contradicts(began, Duration::from_millis(ms), &row);
        assert!(late(0) && late(8) && !late(10), "so much may be the probe's own lateness");
        assert!(untrue(2900, 800, AnswerClass::Good) && !untrue(4500, 2000, AnswerClass::Unavailable));
    }
}
