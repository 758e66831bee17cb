//! Runs the scenarios one after the other: quiet phase, fault, observation, healing. An error aborts only its own scenario.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::client::{Attempt, errors, longest_gap};
use super::observer::{Event, Holders, What, overlaps};
use super::plan::{PRIORITIES, VipPlan};
use super::result::{Report, ScenarioRun};
use super::scenario::{End, Scenario};
use super::scene::{LIMIT, Scene, VICTIM, Wanted};
use crate::failover::machine;
use crate::failover::progress::Progress;
use crate::fault::Fault;
use crate::figures::ms;
use crate::stage::ADVISED_EVS;

/// After the address has moved, it is observed this long before anything is healed: the second round of gratuitous ARP is within this time.
const AFTER: Duration = Duration::from_secs(2);
/// How long an address that must stay, or that no node may have, is observed: longer than three adverts and the wait.
const STAYS: Duration = Duration::from_secs(6);
/// A machine of a higher priority that preempts first stays a backup for three adverts and its wait. From then on the address is observed
/// for this many adverts.
const PREEMPTS_ADVERTS: u32 = 5;
/// The check interval of `understudy vip config`, and of the seed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// keepalived does not wait for its notify command: time limit for the recorded state.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for a clean stop.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// Runs all scenarios.
///
/// # Errors
/// When the cluster does not start.
pub async fn run(plan: &VipPlan, progress: &Progress) -> anyhow::Result<Report> {
    let mut report = Report {
        at: machine::now_utc(),
        machine: Some(
            machine::look(&[
                ("MariaDB", "mariadbd", &["--version"]),
                ("keepalived", "keepalived", &["--version"]),
            ])
            .await,
        ),
        ip: plan.ip,
        advert_interval_ms: plan.advert_interval_ms,
        check_interval_s: CHECK_INTERVAL.as_secs(),
        priorities: PRIORITIES.to_vec(),
        galera_options: if plan.plain_evs { String::new() } else { ADVISED_EVS.to_owned() },
        ..Report::default()
    };
    let teller = progress.clone();
    let mut scene = Scene::up(plan, move |step| teller.now(step)).await?;
    for repetition in 0..plan.repetitions {
        for &scenario in plan.scenarios() {
            progress.now(&format!("{} ({}/{})", scenario.title(), repetition + 1, plan.repetitions));
            let ran = one(&mut scene, plan, scenario, repetition).await;
            let lowered = scene.lower().await;
            progress.step();
            match ran {
                Ok(outcome) => {
                    progress.line(&super::table::line(&outcome));
                    report.outcomes.push(outcome);
                }
                Err(error) => {
                    let why = format!("{}: {error:#}", scenario.title());
                    progress.line(&format!("broke off: {why}"));
                    report.broken.push(why);
                    mend_all(&scene).await?;
                }
            }
            lowered.with_context(|| format!("after {}", scenario.title()))?;
        }
    }
    progress.now("ending the cluster");
    scene.down().await?;
    Ok(report)
}

fn wanted(scenario: Scenario) -> Wanted {
    Wanted {
        like_the_seed: scenario == Scenario::Seed,
        donor: scenario == Scenario::DonorAllowed,
        proxies: scenario.is_of_proxies(),
        supervised: scenario == Scenario::KeepalivedKillSupervised,
        victim_first: scenario == Scenario::Return,
    }
}

async fn one(
    scene: &mut Scene,
    plan: &VipPlan,
    scenario: Scenario,
    repetition: u32,
) -> anyhow::Result<ScenarioRun> {
    scene.raise(plan, wanted(scenario)).await?;
    let mut notes = Vec::new();
    let mut wrong = Vec::new();
    if scenario == Scenario::Seed {
        seeds_check(scene, "HTTP/1.1 200 OK", 0, &mut notes, &mut wrong)?;
    }
    // Checks and adverts have their own periods, and the scenario must not be synchronous with them: the repetitions' faults are spread over
    // the second between two checks.
    let point = (f64::from(repetition) + rand::random::<f64>()) / f64::from(plan.repetitions);
    tokio::time::sleep(CHECK_INTERVAL.mul_f64(point)).await;
    let fault = inject_fault(scene, scenario).await?;
    let from = if scenario == Scenario::Return { holder(scene)? } else { VICTIM.to_owned() };
    let advert = Duration::from_millis(plan.advert_interval_ms.into());
    follow(scene, scenario, fault, &from, advert, &mut wrong).await?;
    let calm = Instant::now();

    // Compare the states that the keepaliveds recorded, and the kernel's own list with the observer's.
    if let Some(state) = scenario.state_of_loser()
        && scene.until(TOLD_WITHIN, |scene| scene.state(VICTIM) == state).await.is_err()
    {
        wrong.push(format!("keepalived of {VICTIM} recorded {:?} and not {state:?}", scene.state(VICTIM)));
    }
    let to = scene.look()?;
    let observed = scene.observer.holders();
    if to != observed {
        wrong.push(format!("the kernel says {to:?} and the observer {observed:?}"));
    }
    let nodes = to.nodes();
    if let (End::Moves, Some(new)) = (scenario.ends(), nodes.iter().find(|node| **node != from))
        && scene.until(TOLD_WITHIN, |scene| scene.state(new) == "now master").await.is_err()
    {
        wrong.push(format!("{new} has the address and recorded {:?}", scene.state(new)));
    }
    let states = scene.states();
    if scenario == Scenario::Seed {
        seeds_check(scene, "HTTP/1.1 503 Service Unavailable", 1, &mut notes, &mut wrong)?;
    }
    let expected_holders = match scenario.ends() {
        End::Nowhere => 0,
        End::Moves if scenario == Scenario::KeepalivedKill => 2,
        End::Moves | End::Stays => 1,
    };
    for address in scene.vips() {
        let holders = to.of(*address).len();
        if holders != expected_holders {
            wrong.push(format!("{holders} have {address}, and {expected_holders} should"));
        }
    }
    if nodes.len() > expected_holders {
        wrong.push(format!("the addresses are not on one machine: {to:?}"));
    }
    let attempts = scene.attempts();

    mend(scene, scenario, &mut notes, &mut wrong).await?;
    let mended = Instant::now();

    let events = scene.observer.events()?;
    let after: Vec<&Event> = events.iter().filter(|event| event.at >= fault).collect();
    let since = |event: &Event| ms(event.at.duration_since(fault));
    let vips = scene.vips().to_vec();
    let moved = complete(after.iter().copied(), &vips, |event| match event.what {
        What::Takes(address) if event.node != from => Some(address),
        _ => None,
    });
    let left = complete(after.iter().copied(), &vips, |event| match event.what {
        What::Leaves(address) if event.node == from => Some(address),
        _ => None,
    });
    let from_behind_another = |attempt: &Attempt| match (&attempt.said, scenario.is_of_proxies()) {
        (Ok(_), true) => moved.is_some_and(|moved| attempt.due >= moved.at),
        (Ok(node), false) => attempt.due >= fault && *node != from,
        (Err(_), _) => false,
    };
    let answered =
        complete(attempts.iter(), &vips, |attempt| from_behind_another(attempt).then_some(attempt.through));
    let moves = after.iter().filter(|event| matches!(event.what, What::Takes(_))).count();
    let allowed = match scenario.ends() {
        End::Moves => 1,
        End::Stays => 0,
        // While the nodes are restarted, the first good one takes it.
        End::Nowhere => 1,
    };
    let gap = vips.iter().map(|through| longest_gap(&attempts, *through, fault, calm)).max();
    let overlaps = overlaps(&events, fault, mended);
    let outcome = ScenarioRun {
        scenario,
        repetition,
        // Effects of the operator's commands afterwards do not count.
        left_ms: left.filter(|event| event.at < calm).map(&since),
        moved_ms: moved.filter(|event| event.at < calm).map(since),
        answered_ms: answered
            .filter(|_| scenario.ends() == End::Moves)
            .map(|attempt| ms(attempt.done.duration_since(fault))),
        gap_ms: ms(gap.unwrap_or_default()),
        errors: errors(&attempts, fault, calm),
        overlaps,
        moved_again: moves.saturating_sub(allowed * vips.len()),
        states,
        from,
        to: nodes.into_iter().collect(),
        addresses: vips,
        notes,
        wrong,
    };
    Ok(judged(outcome))
}

/// The item of `all` by which every address has had one; `of` returns the address of an item, if any.
fn complete<'a, T>(
    mut all: impl Iterator<Item = &'a T>,
    addresses: &[IpAddr],
    of: impl Fn(&T) -> Option<IpAddr>,
) -> Option<&'a T> {
    let mut missing: BTreeSet<IpAddr> = addresses.iter().copied().collect();
    all.find(|one| of(one).is_some_and(|address| missing.remove(&address)) && missing.is_empty())
}

/// Adds the violations that follow from the figures.
fn judged(mut outcome: ScenarioRun) -> ScenarioRun {
    let scenario = outcome.scenario;
    match scenario.ends() {
        End::Moves if outcome.moved_ms.is_none() => outcome.wrong.push("the address did not move".into()),
        End::Nowhere if outcome.moved_ms.is_some() => {
            outcome.wrong.push("a bad node took the address".into())
        }
        End::Moves if outcome.answered_ms.is_none() => {
            outcome.wrong.push("no answer came from behind the new holder".into());
        }
        End::Stays if outcome.left_ms.is_some() => outcome.wrong.push("the address did not stay".into()),
        _ => {}
    }
    if outcome.moved_again > 0 {
        let message = format!("the address moved {} more times", outcome.moved_again);
        // A tie: the others take it at once, and all but one of them release it again within milliseconds.
        let list = if scenario == Scenario::Seed { &mut outcome.notes } else { &mut outcome.wrong };
        list.push(message);
    }
    if outcome.overlap_ms() > 0.0 {
        match scenario.may_overlap() {
            Some(why) => outcome.notes.push(format!("two holders are no surprise here: {why}")),
            None => outcome.wrong.push(format!("two had the address, {:.0} ms in all", outcome.overlap_ms())),
        }
    }
    if outcome.overlap_apart_ms() > 0.0 {
        outcome.notes.push(format!(
            "{VICTIM}, cut off, kept the address for {:.0} ms while another had it; nobody could reach both",
            outcome.overlap_apart_ms()
        ));
    }
    outcome
}

fn holder(scene: &Scene) -> anyhow::Result<String> {
    scene.observer.holders().nodes().into_iter().next().context("nobody has the address")
}

/// Injects the fault of the scenario; returns when it took effect.
async fn inject_fault(scene: &mut Scene, scenario: Scenario) -> anyhow::Result<Instant> {
    let stage = &scene.stage;
    // For faults that keepalived itself notices: it may have reacted before the command is known to be done.
    let before = Instant::now();
    match scenario {
        Scenario::Seed | Scenario::Stop => stage.fault(VICTIM, Fault::Stop).await,
        Scenario::Return => {
            stage.fault(VICTIM, Fault::Stop).await?;
            stage.wait_gone(VICTIM, GONE_WITHIN).await?;
            scene.until(LIMIT, |scene| scene.has_left(VICTIM)).await.context("the address does not move")?;
            let at = Instant::now();
            scene.stage.fault(VICTIM, Fault::Heal).await?;
            Ok(at)
        }
        Scenario::Hung => stage.fault(VICTIM, Fault::Freeze).await,
        Scenario::Donor | Scenario::DonorAllowed => {
            stage.run_in(VICTIM, "SET GLOBAL wsrep_desync = ON").await?;
            Ok(before)
        }
        Scenario::Vanish => {
            scene.note(VICTIM, What::CutOff);
            stage.fault(VICTIM, Fault::Vanish).await?;
            Ok(before)
        }
        Scenario::Partition => {
            scene.note(VICTIM, What::CutOff);
            stage.set_plugged(VICTIM, false)?;
            Ok(before)
        }
        Scenario::KeepalivedStop => scene.agent(VICTIM)?.stop().map(|()| before),
        Scenario::KeepalivedCrash => scene.agent(VICTIM)?.crash().map(|()| before),
        Scenario::KeepalivedKill | Scenario::KeepalivedKillSupervised => {
            scene.agent(VICTIM)?.kill().await?;
            Ok(before)
        }
        Scenario::AllBad => {
            for node in ["db1", "db3"] {
                stage.fault(node, Fault::Stop).await?;
                stage.wait_gone(node, GONE_WITHIN).await?;
                // Until its next check, up to a second, a bad node would take an address that becomes free.
                let reached = scene.until(LIMIT, |scene| scene.state(node) == "now fault").await;
                reached.with_context(|| format!("{node} does not notice that it is bad"))?;
            }
            stage.fault(VICTIM, Fault::Stop).await
        }
        Scenario::ProxyKill => scene.kill_proxy(VICTIM),
        Scenario::ProxyStop => {
            scene.proxy(VICTIM)?.terminate()?;
            Ok(Instant::now())
        }
    }
}

/// Waits for the required result, and a little longer.
async fn follow(
    scene: &Scene,
    scenario: Scenario,
    fault: Instant,
    from: &str,
    advert: Duration,
    wrong: &mut Vec<String>,
) -> anyhow::Result<()> {
    let came = match scenario.ends() {
        End::Stays => {
            tokio::time::sleep_until((fault + STAYS).into()).await;
            if scenario == Scenario::Return
                && let Err(why) = scene.until(LIMIT, |scene| scene.state(VICTIM) == "now backup").await
            {
                wrong.push(format!("{VICTIM} has not come back: {why:#}"));
            }
            tokio::time::sleep(PREEMPTS_ADVERTS * advert).await;
            return Ok(());
        }
        End::Nowhere => {
            let came = scene.until(LIMIT, |scene| scene.observer.holders() == Holders::default()).await;
            tokio::time::sleep(STAYS).await;
            came
        }
        End::Moves => {
            // A killed keepalived does not release the address: wait only until another node has it.
            let keeps = scenario == Scenario::KeepalivedKill;
            let came = scene
                .until(LIMIT, |scene| if keeps { scene.has_moved(from) } else { scene.has_left(from) })
                .await;
            tokio::time::sleep(AFTER).await;
            came
        }
    };
    if let Err(why) = came {
        wrong.push(format!("what must come did not: {why:#}"));
    }
    Ok(())
}

/// Runs the seed's own command line on the victim, as a user would type it.
fn seeds_check(
    scene: &Scene,
    status: &str,
    code: i32,
    notes: &mut Vec<String>,
    wrong: &mut Vec<String>,
) -> anyhow::Result<()> {
    let check = &scene.programs().clustercheck;
    let (ended, said) = scene.run_in(VICTIM, check, &["clustercheck", "password", "0"])?;
    let first = said.lines().next().unwrap_or_default();
    let message = format!("`clustercheck clustercheck password 0; echo $?` on {VICTIM}: {first}, {ended:?}");
    if first != status || ended != Some(code) {
        wrong.push(message);
    } else {
        notes
            .push(format!("`clustercheck clustercheck password 0; echo $?` on {VICTIM}: {first} ... {code}"));
    }
    Ok(())
}

/// Undoes the fault while keepalived keeps running: a returned node must be a backup, and the address must not move.
async fn mend(
    scene: &Scene,
    scenario: Scenario,
    notes: &mut Vec<String>,
    wrong: &mut Vec<String>,
) -> anyhow::Result<()> {
    let stage = &scene.stage;
    match scenario {
        Scenario::Seed | Scenario::Stop | Scenario::Hung => drop(stage.fault(VICTIM, Fault::Heal).await?),
        Scenario::Vanish => {
            scene.note(VICTIM, What::Connected);
            stage.fault(VICTIM, Fault::Heal).await?;
        }
        Scenario::Partition => {
            scene.note(VICTIM, What::Connected);
            stage.set_plugged(VICTIM, true)?;
            stage.fault(VICTIM, Fault::Heal).await?;
        }
        Scenario::Donor | Scenario::DonorAllowed => {
            stage.run_in(VICTIM, "SET GLOBAL wsrep_desync = OFF").await?;
            stage.fault(VICTIM, Fault::Heal).await?;
        }
        Scenario::AllBad => {
            // The last node to stop has the most writesets, and bootstraps.
            for node in [VICTIM, "db1", "db3"] {
                stage.fault(node, Fault::Heal).await?;
            }
            return Ok(());
        }
        Scenario::KeepalivedKill => return release(scene, notes, wrong).await,
        Scenario::Return
        | Scenario::KeepalivedStop
        | Scenario::KeepalivedCrash
        | Scenario::KeepalivedKillSupervised
        | Scenario::ProxyKill
        | Scenario::ProxyStop => return Ok(()),
    }
    let state = if scenario == Scenario::DonorAllowed { "now master" } else { "now backup" };
    if scene.until(LIMIT, |scene| scene.state(VICTIM) == state).await.is_err() {
        wrong.push(format!("{VICTIM} is mended and recorded {:?} instead of {state:?}", scene.state(VICTIM)));
    }
    tokio::time::sleep(AFTER).await;
    Ok(())
}

/// What an operator does about a killed keepalived: `vip status` reports it, `vip release` removes the address.
async fn release(scene: &Scene, notes: &mut Vec<String>, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let agent = scene.agent(VICTIM)?;
    let (conf, pid) = (agent.file("keepalived.conf"), agent.file("keepalived.pid"));
    let program = &scene.programs().understudy;
    let words = ["vip", "status", "--config", &conf, "--pid-file", &pid];
    let (code, said) = scene.run_in(VICTIM, program, &words)?;
    if code != Some(1) || !said.contains("vip release") {
        wrong.push(format!("`understudy vip status` says nothing of it: {code:?} {said}"));
    }
    let began = Instant::now();
    let words = ["vip", "release", "--config", &conf, "--pid-file", &pid];
    let (code, said) = scene.run_in(VICTIM, program, &words)?;
    let gone = scene.until(LIMIT, |scene| scene.has_left(VICTIM)).await;
    if code != Some(0) || gone.is_err() {
        wrong.push(format!("`understudy vip release` does not help: {code:?} {said}"));
    }
    notes.push(format!("`understudy vip release` took it away in {:.0} ms", ms(began.elapsed())));
    Ok(())
}

/// Heals every node after an aborted scenario.
async fn mend_all(scene: &Scene) -> anyhow::Result<()> {
    scene.stage.set_plugged(VICTIM, true)?;
    for node in [VICTIM, "db1", "db3"] {
        scene.stage.fault(node, Fault::Heal).await.with_context(|| format!("cannot heal {node}"))?;
    }
    scene.stage.run_in(VICTIM, "SET GLOBAL wsrep_desync = OFF").await?;
    scene.note(VICTIM, What::Connected);
    Ok(())
}
