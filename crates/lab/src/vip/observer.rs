//! Records which node has which address at every moment: one `ip monitor` receives the kernel's events of all namespaces by one socket.
//!
//! One socket is one queue: the events of all nodes arrive in the order in which they happened, so whether two have an address does not
//! depend on when it was checked. The times are those at which a line was read, about 0.1 ms later on a machine that is not busy.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use crate::figures::ms;
use crate::stage::Stage;
use crate::stage::process::{Owned, ProcessParent};
use crate::wait;

/// An otherwise unused address, added to a node and removed again to check that the observer receives events.
const SIGN: &str = "192.0.2.254/32";
/// Time limit for that check.
const SIGN_LIMIT: Duration = Duration::from_secs(10);

/// An event of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It now has this address.
    Takes(IpAddr),
    /// It no longer has this address.
    Leaves(IpAddr),
    /// It was cut off from the others.
    CutOff,
    /// It was connected again.
    Connected,
}

/// An event with its time and node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was read.
    pub at: Instant,
    /// The node.
    pub node: String,
    /// What happened.
    pub what: What,
}

/// Which node has which of the addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders(BTreeSet<(IpAddr, String)>);

/// A time during which an address had two or more holders.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// The address.
    pub address: IpAddr,
    /// Its holders.
    pub nodes: Vec<String>,
    /// Start since the fault, ms.
    pub from_ms: f64,
    /// Length, ms.
    pub ms: f64,
    /// Whether at least two holders were in the same network; otherwise all but one were cut off, and no client could reach both.
    pub reachable: bool,
}

#[derive(Debug, Default)]
struct Seen {
    events: Vec<Event>,
    /// The holders after these events.
    holders: Holders,
    signs: u64,
    ended: bool,
}

/// Records events until it is dropped.
#[derive(Debug)]
pub struct Observer {
    seen: Arc<Mutex<Seen>>,
    monitor: Option<Owned>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    /// Starts it; it records everything from here on.
    ///
    /// # Errors
    /// When `ip` cannot monitor all namespaces at once.
    pub async fn start(
        stage: &Stage,
        process_parent: &ProcessParent,
        addresses: &[IpAddr],
    ) -> anyhow::Result<Self> {
        let addresses = addresses.to_vec();
        let names = names(stage)?;
        let mut command = Command::new("ip");
        command.args(["-oneline", "monitor", "address", "all-nsid"]);
        command.env(crate::stage::process::MARK, stage.directory());
        let mut monitor = process_parent.spawn_piped(&command)?;
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
                        Some((number, ip, what)) if addresses.contains(&ip) => {
                            if let Some(node) = names.get(&number) {
                                seen.learn(Event { at, node: node.clone(), what });
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

    /// Adds and removes a test address on the node until an event for it arrives.
    async fn see_a_sign(&self, stage: &Stage, node: &str) -> anyhow::Result<()> {
        let before = self.lock().signs;
        let sees = async || {
            if self.lock().signs != before {
                return Ok(true);
            }
            for order in ["add", "del"] {
                let mut command = stage.command_in(node, Path::new("ip"))?;
                command.args(["address", order, SIGN, "dev", "lo"]);
                let done = command.output().context("cannot run `ip`")?;
                if !done.status.success() {
                    bail!("`ip address {order}` in {node}: {}", String::from_utf8_lossy(&done.stderr).trim());
                }
            }
            Ok(false)
        };
        let sees = wait::holds(SIGN_LIMIT, Duration::from_millis(20), sees).await?;
        ensure!(sees, "`ip monitor` does not see what happens in {node}'s namespace");
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a node was cut off or connected, so that overlaps can be classified.
    pub fn note(&self, node: &str, what: What) {
        self.lock().learn(Event { at: Instant::now(), node: node.to_owned(), what });
    }

    /// The current holders.
    pub fn holders(&self) -> Holders {
        self.lock().holders.clone()
    }

    /// All events so far.
    ///
    /// # Errors
    /// When the monitor has ended: later events are unknown.
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
            // It has reached the end of the output; a panic in it has already been reported.
            let _ = thread.join();
        }
    }
}

impl Seen {
    /// Keeps only changes: the kernel reports an IPv6 address again when only its flags change.
    fn learn(&mut self, event: Event) {
        let differs = self.holders.learn(&event);
        if differs || matches!(event.what, What::CutOff | What::Connected) {
            self.events.push(event);
        }
    }
}

impl Holders {
    /// Adds a holder of an address; returns whether it was not known.
    pub fn add(&mut self, address: IpAddr, node: &str) -> bool {
        self.0.insert((address, node.to_owned()))
    }

    /// Applies the event; returns whether it changed anything.
    fn learn(&mut self, event: &Event) -> bool {
        match event.what {
            What::Takes(address) => self.add(address, &event.node),
            What::Leaves(address) => self.0.remove(&(address, event.node.clone())),
            What::CutOff | What::Connected => false,
        }
    }

    /// Every address with each of its holders.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, &str)> {
        self.0.iter().map(|(address, node)| (*address, node.as_str()))
    }

    /// The holders of this address.
    pub fn of(&self, address: IpAddr) -> BTreeSet<&str> {
        self.iter().filter(|(held, _)| *held == address).map(|(_, node)| node).collect()
    }

    /// The nodes that have any address.
    pub fn nodes(&self) -> BTreeSet<String> {
        self.iter().map(|(_, node)| node.to_owned()).collect()
    }
}

/// The times in which an address had two or more holders, from `from` on; `until` ends those still open. `events` may begin earlier.
pub fn overlaps(events: &[Event], from: Instant, until: Instant) -> Vec<Overlap> {
    let addresses: BTreeSet<IpAddr> = events
        .iter()
        .filter_map(|event| match event.what {
            What::Takes(address) | What::Leaves(address) => Some(address),
            What::CutOff | What::Connected => None,
        })
        .collect();
    let mut found = Vec::new();
    for address in addresses {
        let (mut holders, mut cut_off) = (Holders::default(), BTreeSet::new());
        let mut since = from;
        let mut close = |holders: &Holders, cut_off: &BTreeSet<&str>, begin: Instant, end: Instant| {
            let nodes = holders.of(address);
            if nodes.len() > 1 && end > begin {
                found.push(Overlap {
                    address,
                    from_ms: ms(begin.saturating_duration_since(from)),
                    ms: ms(end.duration_since(begin)),
                    reachable: nodes.difference(cut_off).count() > 1,
                    nodes: nodes.into_iter().map(str::to_owned).collect(),
                });
            }
        };
        for event in events {
            let at = event.at.clamp(from, until);
            close(&holders, &cut_off, since, at);
            since = at;
            match event.what {
                What::CutOff => cut_off.insert(event.node.as_str()),
                What::Connected => cut_off.remove(event.node.as_str()),
                What::Takes(_) | What::Leaves(_) => holders.learn(event),
            };
        }
        close(&holders, &cut_off, since, until);
    }
    found
}

/// The namespace IDs of the nodes, as seen from this namespace.
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
    words.find(|word| matches!(*word, "inet" | "inet6"))?;
    let ip = words.next()?.split('/').next()?.parse().ok()?;
    let deleted = rest.trim_start().starts_with("Deleted");
    Some((number.parse().ok()?, ip, if deleted { What::Leaves(ip) } else { What::Takes(ip) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let ip: IpAddr = "10.77.0.100".parse().unwrap();
        let taken =
            r"[nsid 1]2: eth0    inet 10.77.0.100/24 scope global secondary eth0\       valid_lft forever";
        assert_eq!(read(taken), Some((1, ip, What::Takes(ip))));
        let left = "[nsid 0]Deleted 2: eth0    inet 10.77.0.100/24 scope global secondary eth0";
        assert_eq!(read(left), Some((0, ip, What::Leaves(ip))));
        let v6 = "fd00:77::100".parse().unwrap();
        let taken = r"[nsid 2]2: eth0    inet6 fd00:77::100/64 scope global nodad \       valid_lft forever";
        assert_eq!(read(taken), Some((2, v6, What::Takes(v6))));
        assert_eq!(read("2: eth0 inet 10.0.0.1/8"), None, "this machine's own");
    }

    #[test]
    fn overlaps_are_measured_and_told_apart() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let event = |ms, node: &str, what| Event { at: at(ms), node: node.into(), what };
        let ip: IpAddr = "10.77.0.100".parse().unwrap();
        let events = [
            event(0, "db2", What::Takes(ip)),
            event(100, "db1", What::Takes(ip)),
            event(130, "db2", What::Leaves(ip)),
            event(200, "db1", What::CutOff),
            event(300, "db3", What::Takes(ip)),
            event(350, "db1", What::Leaves(ip)),
        ];
        let found = overlaps(&events, at(50), at(1000));
        let tuples: Vec<_> =
            found.iter().map(|o| (o.nodes.join("+"), o.from_ms, o.ms, o.reachable)).collect();
        assert_eq!(tuples, [("db1+db2".into(), 50.0, 30.0, true), ("db1+db3".into(), 250.0, 50.0, false)]);
        assert!(overlaps(&events, at(400), at(500)).is_empty());
        let open = overlaps(&events[..2], at(0), at(500));
        assert_eq!((open[0].from_ms, open[0].ms), (100.0, 400.0));
    }
    #[test]
    fn two_addresses_apart_are_not_two_holders_of_one() {
        let zero = Instant::now();
        let (v4, v6): (IpAddr, IpAddr) = ("10.77.0.100".parse().unwrap(), "fd00:77::100".parse().unwrap());
        let event =
            |ms, node: &str, what| Event { at: zero + Duration::from_millis(ms), node: node.into(), what };
        let mut seen = Seen::default();
        for event in [
            event(0, "db2", What::Takes(v4)),
            event(1, "db2", What::Takes(v6)),
            // Only its flags changed.
            event(2, "db2", What::Takes(v6)),
            event(100, "db2", What::Leaves(v4)),
            event(110, "db1", What::Takes(v4)),
            event(120, "db2", What::Leaves(v6)),
            event(130, "db1", What::Takes(v6)),
        ] {
            seen.learn(event);
        }
        assert_eq!(seen.events.len(), 6);
        assert!(overlaps(&seen.events, zero, zero + Duration::from_secs(1)).is_empty());
        assert_eq!((seen.holders.of(v6), seen.holders.nodes()), (["db1"].into(), ["db1".to_owned()].into()));
    }
}
