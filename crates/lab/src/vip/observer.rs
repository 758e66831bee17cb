//! Who has the address, at every moment: one `ip monitor` that listens to the kernel of all namespaces through one socket.
//!
//! One socket is one queue: the events of all nodes come in the order in which they happened, so "two have it" is not a matter
//! of how soon somebody looked. The times are those at which a line was read, some 0.1 ms later on a machine with time to spare.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use crate::figures::ms;
use crate::stage::Stage;
use crate::stage::process::{Keeper, Owned};

/// An address of nobody, put to a node and taken away again, to see that the observer sees.
const SIGN: &str = "192.0.2.254/32";
/// How long that may take.
const SIGN_LIMIT: Duration = Duration::from_secs(10);

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// It has the address now.
    Takes,
    /// It has it no more.
    Leaves,
    /// It was cut off from the others.
    CutOff,
    /// It was connected again.
    Connected,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was read.
    pub at: Instant,
    /// To whom.
    pub node: String,
    /// What.
    pub what: What,
}

/// A time with two holders.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// Who.
    pub nodes: Vec<String>,
    /// Since the fault.
    pub from_ms: f64,
    /// How long.
    pub ms: f64,
    /// Both in one network; otherwise one of them was cut off, and nobody could reach both.
    pub reachable: bool,
}

#[derive(Debug, Default)]
struct Seen {
    events: Vec<Event>,
    signs: u64,
    ended: bool,
}

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Observer {
    seen: Arc<Mutex<Seen>>,
    monitor: Option<Owned>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    /// Begins; it sees everything from here on.
    ///
    /// # Errors
    /// When `ip` cannot watch all namespaces at once.
    pub async fn start(stage: &Stage, keeper: &Keeper, address: IpAddr) -> anyhow::Result<Self> {
        let names = names(stage)?;
        let mut command = Command::new("ip");
        command.args(["-oneline", "monitor", "address", "all-nsid"]);
        command.env(crate::stage::process::MARK, stage.directory());
        let mut monitor = keeper.spawn_piped(&command)?;
        let (Some(lines), _) = monitor.output() else { bail!("`ip monitor` has no output") };
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        let thread = std::thread::Builder::new()
            .name("vip-observer".to_owned())
            .spawn(move || {
                for line in BufReader::new(lines).lines().map_while(Result::ok) {
                    let at = Instant::now();
                    let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    match read(&line) {
                        Some((_, ip, _)) if SIGN.starts_with(&ip.to_string()) => seen.signs += 1,
                        Some((number, ip, what)) if ip == address => {
                            if let Some(node) = names.get(&number) {
                                seen.events.push(Event { at, node: node.clone(), what });
                            }
                        }
                        _ => {}
                    }
                }
                shared.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
            })
            .context("cannot start the observer's thread")?;
        let observer = Self { seen, monitor: Some(monitor), thread: Some(thread) };
        for node in stage.nodes() {
            observer.see_a_sign(stage, &node.name).await?;
        }
        Ok(observer)
    }

    /// Puts an address of nobody to the node until an event of it is seen, and takes it away.
    async fn see_a_sign(&self, stage: &Stage, node: &str) -> anyhow::Result<()> {
        let before = self.lock().signs;
        let deadline = Instant::now() + SIGN_LIMIT;
        while self.lock().signs == before {
            for order in ["add", "del"] {
                let mut command = stage.command_in(node, Path::new("ip"))?;
                command.args(["address", order, SIGN, "dev", "lo"]);
                let done = command.output().context("cannot run `ip`")?;
                if !done.status.success() {
                    bail!("`ip address {order}` in {node}: {}", String::from_utf8_lossy(&done.stderr).trim());
                }
            }
            if Instant::now() > deadline {
                bail!("`ip monitor` does not see what happens in {node}'s namespace");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a node was cut off or connected, so that overlaps can be told apart.
    pub fn note(&self, node: &str, what: What) {
        self.lock().events.push(Event { at: Instant::now(), node: node.to_owned(), what });
    }

    /// Who has it now.
    pub fn holders(&self) -> BTreeSet<String> {
        let mut holders = BTreeSet::new();
        for event in &self.lock().events {
            event.what.apply(&event.node, &mut holders);
        }
        holders
    }

    /// Everything so far.
    ///
    /// # Errors
    /// When the monitor has ended: nothing that came after is known.
    pub fn events(&self) -> anyhow::Result<Vec<Event>> {
        let seen = self.lock();
        if seen.ended {
            bail!("`ip monitor` has ended: nobody knows who had the address");
        }
        Ok(seen.events.clone())
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.monitor = None;
        if let Some(thread) = self.thread.take() {
            // It has read the end of the output; a panic in it has been told.
            let _ = thread.join();
        }
    }
}

impl What {
    fn apply(self, node: &str, holders: &mut BTreeSet<String>) {
        match self {
            Self::Takes => holders.insert(node.to_owned()),
            Self::Leaves => holders.remove(node),
            Self::CutOff | Self::Connected => false,
        };
    }
}

/// The times with two or more holders, from `from` on; `until` ends what has not ended. `events` may begin earlier.
pub fn overlaps(events: &[Event], from: Instant, until: Instant) -> Vec<Overlap> {
    let mut found: Vec<Overlap> = Vec::new();
    let (mut holders, mut cut_off) = (BTreeSet::new(), BTreeSet::new());
    let mut since = from;
    let mut close = |holders: &BTreeSet<String>, cut_off: &BTreeSet<String>, begin: Instant, end: Instant| {
        if holders.len() > 1 && end > begin {
            found.push(Overlap {
                nodes: holders.iter().cloned().collect(),
                from_ms: ms(begin.saturating_duration_since(from)),
                ms: ms(end.duration_since(begin)),
                reachable: holders.difference(cut_off).count() > 1,
            });
        }
    };
    for event in events {
        let at = event.at.clamp(from, until);
        close(&holders, &cut_off, since, at);
        since = at;
        event.what.apply(&event.node, &mut holders);
        match event.what {
            What::CutOff => cut_off.insert(event.node.clone()),
            What::Connected => cut_off.remove(&event.node),
            What::Takes | What::Leaves => false,
        };
    }
    close(&holders, &cut_off, since, until);
    found
}

/// The kernel's numbers of the nodes' namespaces, as this one sees them.
fn names(stage: &Stage) -> anyhow::Result<BTreeMap<u32, String>> {
    let output = Command::new("ip").args(["netns", "list-id"]).output().context("cannot run `ip`")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut names = BTreeMap::new();
    for node in stage.nodes() {
        let namespace = node.namespace.as_deref().context("the VIP lab needs network namespaces")?;
        let number = text
            .lines()
            .find(|line| line.contains(&format!("name: {namespace})")))
            .and_then(|line| line.strip_prefix("nsid ")?.split_whitespace().next()?.parse().ok())
            .with_context(|| format!("`ip netns list-id` does not know {namespace}"))?;
        names.insert(number, node.name.clone());
    }
    Ok(names)
}

/// `[nsid 1]Deleted 2: eth0    inet 10.77.0.100/24 scope global secondary eth0 ...`
fn read(line: &str) -> Option<(u32, IpAddr, What)> {
    let (number, rest) = line.split_once("[nsid ")?.1.split_once(']')?;
    let mut words = rest.split_whitespace();
    let what = if rest.trim_start().starts_with("Deleted") { What::Leaves } else { What::Takes };
    words.find(|word| matches!(*word, "inet" | "inet6"))?;
    let ip = words.next()?.split('/').next()?.parse().ok()?;
    Some((number.parse().ok()?, ip, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let ip: IpAddr = "10.77.0.100".parse().unwrap();
        let taken =
            r"[nsid 1]2: eth0    inet 10.77.0.100/24 scope global secondary eth0\       valid_lft forever";
        assert_eq!(read(taken), Some((1, ip, What::Takes)));
        let left = "[nsid 0]Deleted 2: eth0    inet 10.77.0.100/24 scope global secondary eth0";
        assert_eq!(read(left), Some((0, ip, What::Leaves)));
        assert_eq!(read("2: eth0 inet 10.0.0.1/8"), None, "this machine's own");
    }

    #[test]
    fn overlaps_are_measured_and_told_apart() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let event = |ms, node: &str, what| Event { at: at(ms), node: node.into(), what };
        let events = [
            event(0, "db2", What::Takes),
            event(100, "db1", What::Takes),
            event(130, "db2", What::Leaves),
            event(200, "db1", What::CutOff),
            event(300, "db3", What::Takes),
            event(350, "db1", What::Leaves),
        ];
        let found = overlaps(&events, at(50), at(1000));
        let told: Vec<_> = found.iter().map(|o| (o.nodes.join("+"), o.from_ms, o.ms, o.reachable)).collect();
        assert_eq!(told, [("db1+db2".into(), 50.0, 30.0, true), ("db1+db3".into(), 250.0, 50.0, false)]);
        assert!(overlaps(&events, at(400), at(500)).is_empty());
        let open = overlaps(&events[..2], at(0), at(500));
        assert_eq!((open[0].from_ms, open[0].ms), (100.0, 400.0));
    }
}
