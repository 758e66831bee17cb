//! Runs a script, line by line, in the language described in main.rs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use topology::brain::{Brain, Restored};
use topology::catalogue::Catalogue;
use topology::fact::{ConnectFailure, Fact, Outcome, ProxyFact};
use topology::galera::{self, Component, GaleraStatus, HurryEnd, Process, SilencePolicy};
use topology::heartbeat::{Beat, Stall};
use topology::order::{Order, OrderId};
use topology::settings::{EvictPolicy, NodeSettings, Settings, Writers};
use topology::{NodeId, Origin, Term};

use super::stage::Stage;
use super::words::{address, ended, failed, greeting, option, seconds};

pub fn play(script: &str) -> Result<String, String> {
    let mut stage: Option<Stage> = None;
    for (number, line) in script.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let done = match (words[0], &mut stage) {
            ("cluster", _) => cluster(&words).map(|new| stage = Some(new)),
            ("auto", Some(stage)) => {
                stage.auto = words[1..].iter().map(ToString::to_string).collect();
                Ok(())
            }
            (_, Some(stage)) => stage.line(&words),
            _ => Err("the first line must be `cluster`".into()),
        };
        done.map_err(|why| format!("line {}: {line}: {why}", number + 1))?;
    }
    stage.map(|stage| stage.out).ok_or("no cluster".into())
}

fn cluster(words: &[&str]) -> Result<Stage, String> {
    let given: BTreeMap<&str, &str> = words[1..].iter().filter_map(|word| word.split_once('=')).collect();
    let names: Vec<String> =
        given.get("nodes").unwrap_or(&"db1,db2,db3").split(',').map(Into::into).collect();
    let writers = if given.get("writers") == Some(&"all") { Writers::All } else { Writers::One };
    let node = |name: &String| NodeSettings {
        name: name.clone(),
        address: address(name),
        priority: given.get("first").map_or(0, |first| u32::from(first == name)),
    };
    let mut settings = Settings::new("shop", writers, names.iter().map(node).collect());
    settings.galera.evict = match given.get("evict") {
        Some(&"silent") => EvictPolicy::Silent,
        Some(&"never") => EvictPolicy::Never,
        _ => EvictPolicy::Proven,
    };
    if let Some(time) = given.get("probe_interval") {
        settings.probe_interval = seconds(time)?;
    }
    if given.get("silent") == Some(&"hurry") {
        settings.galera.silence = SilencePolicy::Hurry;
    }
    settings.events = given.get("events") != Some(&"off");
    if let Some(time) = given.get("leave_grace") {
        settings.galera.leave_grace = seconds(time)?;
    }
    if let Some(count) = given.get("proxies") {
        settings.proxies = (0..count.parse().map_err(|_| "proxies?")?).map(Origin).collect();
    }
    settings.check()?;
    let place = |name: &str| settings.id_at_start(name).ok_or(format!("no node {name}"));
    let term = Term(given.get("term").map_or(Ok(0), |term| term.parse()).map_err(|_| "term?")?);
    let writer = given.get("writer").map(|name| place(name)).transpose()?;
    let mut restored = Restored { term, writer, ..Restored::default() };
    if let Some(name) = given.get("drained") {
        restored.sessions_max.push((place(name)?, 0));
    }
    if given.get("known") == Some(&"yes") {
        let process = |(number, name): (usize, &String)| Process {
            address: address(name),
            gcomm_uuid: format!("a0-{number}"),
            ..Process::default()
        };
        let members = names.iter().enumerate().map(process).collect();
        let (cluster_uuid, conf_id) = ("group".into(), 3);
        let size = names.len() as u32;
        restored.component = Some(Component { cluster_uuid, conf_id, size, members, ..Component::default() });
    }
    let is_auto = given.get("list") == Some(&"auto");
    let named = if is_auto { &[] } else { names.as_slice() };
    let status = |number: usize| GaleraStatus {
        local_state: Some(4),
        local_state_comment: "Synced".into(),
        cluster_status: "Primary".into(),
        cluster_size: names.len() as u32,
        conf_id: 3,
        cluster_uuid: "group".into(),
        gcomm_uuid: format!("{}-{number}", "a0"),
        members: named.iter().map(|name| address(name)).collect(),
        listed: names.len() as u32,
        local_index: Some(number as u32),
        ready: true,
        connected: true,
        ..GaleraStatus::default()
    };
    Ok(Stage {
        interval: settings.probe_interval,
        brain: Brain::new(settings, restored, Duration::ZERO),
        statuses: (0..names.len()).map(status).collect(),
        is_auto,
        names,
        now: Duration::ZERO,
        auto: Vec::new(),
        persists: VecDeque::new(),
        evicts: VecDeque::new(),
        hurries: 0,
        barriers: BTreeMap::new(),
        asked: Vec::new(),
        routes: None,
        orders: 0,
        folded: None,
        out: String::new(),
    })
}

impl Stage {
    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        self.now = self.now.max(seconds(words[0])?);
        let (who, what) = (*words.get(1).ok_or("who?")?, words.get(2).copied().unwrap_or(""));
        let rest = words.get(3..).unwrap_or(&[]).join(" ");
        let origin =
            Origin(option(words, "by=").map_or(Ok(0), |proxy| proxy.parse().map_err(|_| "by whom?"))?);
        let fact = match who {
            "tick" => Fact::Tick,
            "account" => ProxyFact::UnknownAccount { user: what.into() }.by(origin),
            "tables-changed" => ProxyFact::TablesChanged.by(origin),
            "persisted" => Fact::Outcome(Outcome::Persisted {
                number: self.persists.pop_front().ok_or("nothing is written")?,
            }),
            "persist-failed" => {
                let number = self.persists.pop_front().ok_or("nothing is written")?;
                Fact::Outcome(Outcome::PersistFailed { number, why: words[2..].join(" ") })
            }
            "evicted" => {
                let victim = self.evicts.pop_front().ok_or("nobody is evicted")?;
                Fact::Outcome(galera::Outcome::Evicted { victim, via: victim }.into())
            }
            "spared" => {
                let victim = self.evicts.pop_front().ok_or("nobody is evicted")?;
                let via = self.node(words.get(2).ok_or("by whose word?")?)?;
                Fact::Outcome(galera::Outcome::Spared { victim, via }.into())
            }
            "hurried" => {
                let number = self.hurries;
                Fact::Outcome(galera::Outcome::Hurried { number }.into())
            }
            "hurry-ended" => {
                let end = match words.get(2).copied().ok_or("how?")? {
                    "unneeded" => HurryEnd::Unneeded,
                    "short" => HurryEnd::Short,
                    "goes-on" => HurryEnd::GoesOn,
                    "eased" => HurryEnd::Eased,
                    "time-up" => HurryEnd::TimeUp,
                    "failed" => HurryEnd::Failed(words[3..].join(" ")),
                    _ => return Err("how?".into()),
                };
                Fact::Outcome(galera::Outcome::HurryEnded { number: self.hurries, end }.into())
            }
            "evict-failed" => {
                let victim = self.evicts.pop_front().ok_or("nobody is evicted")?;
                Fact::Outcome(galera::Outcome::EvictFailed { victim, why: words[2..].join(" ") }.into())
            }
            "order" => self.order(&words[2..])?,
            "run" => return self.run(&words[2..]),
            "group" => {
                let changes = words[2..].to_vec();
                let members =
                    changes.iter().find_map(|word| word.strip_prefix("members=")).ok_or("members?")?;
                // Somebody else's node, or an arbitrator, says nothing.
                let ours = self.names.clone();
                for name in members.split(',').filter(|name| ours.iter().any(|node| node == name)) {
                    self.change(name, &changes)?;
                }
                return Ok(());
            }
            "all" => {
                for node in 0..self.names.len() as u8 {
                    self.up(NodeId(node));
                }
                return Ok(());
            }
            name => {
                let node = self.node(name)?;
                match what {
                    "up" => {
                        self.up(node);
                        return Ok(());
                    }
                    "link" => Fact::LinkUp { node, greeting: greeting() },
                    "status" => {
                        self.change(name, &words[3..])?;
                        self.status(node, option(words, "asked=").map_or(Ok(self.now), seconds)?)
                    }
                    "ended" => Fact::LinkEnded { node, how: ended(&rest)? },
                    "failed" => Fact::ConnectFailed { node, how: failed(&rest)? },
                    "slow" => Fact::ProbeSlow {
                        node,
                        asked: option(words, "asked=").map_or(Ok(self.now), seconds)?,
                    },
                    "missed" => self.missed(node),
                    "lost" | "full" | "insecure" => {
                        let (epoch, alarm) = self.alarm(node, words)?;
                        let how = match what {
                            "full" => failed("rejected 1040")?,
                            "insecure" => failed("rejected 2026")?,
                            _ => ConnectFailure::Reset,
                        };
                        ProxyFact::TrafficLost { node, epoch, how, alarm }.by(origin)
                    }
                    "statement" => ProxyFact::StatementLost {
                        node,
                        epoch: self.alarm(node, words)?.0,
                        digest: words.get(3).copied().unwrap_or_default().into(),
                        text: words.get(4..).unwrap_or(&[]).join(" "),
                    }
                    .by(origin),
                    "beat" => Fact::Beat { node, beat: self.beat(&words[3..])? },
                    "cut" => ProxyFact::Cut { node, epoch: self.alarm(node, words)?.0.saturating_sub(1) }
                        .by(origin),
                    "tables" => {
                        let names = rest.split(',').filter(|name| !name.is_empty()).map(Into::into);
                        Fact::Catalogue { node, catalogue: Catalogue::new(names, []) }
                    }
                    "refused" => {
                        let errno = words.get(3).and_then(|errno| errno.parse().ok()).ok_or("errno?")?;
                        let (epoch, alarm) = self.alarm(node, words)?;
                        ProxyFact::TrafficRefused { node, epoch, errno, alarm }.by(origin)
                    }
                    "quiet" => {
                        let routes = self.routes.clone().ok_or("nothing is published")?;
                        let epoch = routes.lane(node).ok_or("lane?")?.epoch;
                        ProxyFact::Quiesced { node, epoch, term: routes.term, version: routes.version }
                            .by(origin)
                    }
                    "passed" | "barrier-failed" => {
                        let term = self.barriers.remove(&node).ok_or("no barrier is asked")?;
                        Fact::Outcome(if what == "passed" {
                            Outcome::BarrierPassed { node, term }
                        } else {
                            Outcome::BarrierFailed { node, term, why: rest }
                        })
                    }
                    _ => return Err("what?".into()),
                }
            }
        };
        self.tell(fact);
        Ok(())
    }

    /// `committed`, `untold`, `failed`, or what it waits for; the question was sent at `asked=`, else now.
    fn beat(&self, words: &[&str]) -> Result<Beat, String> {
        let asked = option(words, "asked=").map_or(Ok(self.now), seconds)?;
        Ok(match words.first().copied().unwrap_or_default() {
            "committed" => Beat::Committed { asked },
            "untold" => Beat::Unknown,
            "failed" => Beat::Failed { asked },
            "lock" => Beat::Waits { asked, stall: Stall::GlobalLock },
            "stuck" => Beat::Waits { asked, stall: Stall::Stuck },
            "own-table" => Beat::Waits { asked, stall: Stall::OwnTable },
            _ => return Err("beat?".into()),
        })
    }

    /// Epoch and number of an alarm.
    fn alarm(&self, node: NodeId, words: &[&str]) -> Result<(u64, u64), String> {
        let present = self.routes.as_ref().and_then(|routes| routes.lane(node)).map_or(0, |lane| lane.epoch);
        let number = |key: &str, default: u64| {
            option(words, key).map_or(Ok(default), |text| text.parse().map_err(|_| format!("{key}?")))
        };
        Ok((number("epoch=", present)?, number("alarm=", 0)?))
    }

    fn change(&mut self, name: &str, changes: &[&str]) -> Result<(), String> {
        let node = self.node(name)?;
        let status = &mut self.statuses[usize::from(node.0)];
        for (key, value) in changes.iter().filter_map(|word| word.split_once('=')) {
            let on = matches!(value, "on" | "yes");
            match key {
                "state" => status.local_state = value.parse().ok(),
                "comment" => status.local_state_comment = value.into(),
                "primary" => status.cluster_status = if on { "Primary" } else { "non-Primary" }.into(),
                // It has left the group, and goes on ending.
                "connected" => {
                    status.connected = on;
                    status.cluster_status = if on { "non-Primary" } else { "Disconnected" }.into();
                }
                "ready" => status.ready = on,
                "conf" => status.conf_id = value.parse().map_err(|_| "conf?")?,
                "history" => status.cluster_uuid = value.into(),
                "uuid" => status.gcomm_uuid = value.into(),
                "members" => {
                    let place = value.split(',').position(|member| member == name);
                    status.local_index = place.map(|place| place as u32);
                    status.members = value.split(',').map(address).collect();
                    status.cluster_size = status.members.len() as u32;
                    status.listed = status.cluster_size;
                    if self.is_auto {
                        status.members.clear();
                    }
                }
                "as" => status.listed_as = address(value),
                "read_only" => status.read_only = on,
                "seqno" => status.last_committed = value.parse().map_err(|_| "seqno?")?,
                "desync" => status.desync = on,
                "reject" => status.reject_queries = on,
                "asked" => {}
                "maint" => status.pxc_maint_mode = Some(value.into()),
                _ => return Err(format!("{key}?")),
            }
        }
        Ok(())
    }

    fn order(&mut self, words: &[&str]) -> Result<Fact, String> {
        let budget = words
            .iter()
            .find_map(|word| word.strip_prefix("budget="))
            .map_or(Ok(Duration::from_secs(1)), seconds)?;
        let (force, temporary) = (words.contains(&"force"), words.contains(&"temporary"));
        let node = words
            .get(1)
            .filter(|word| !word.contains('=') && !["force", "temporary"].contains(*word))
            .map(|name| self.node(name))
            .transpose()?;
        let must = || node.ok_or("which node?");
        let order = match words[0] {
            "switchover" => Order::Switchover { to: node, budget, force },
            "drain" => Order::Drain { node: must()?, budget, force, temporary },
            "undrain" => Order::Undrain { node: must()?, temporary },
            "limit" => Order::SetSessionsMax {
                node: must()?,
                sessions_max: words.get(2).and_then(|limit| limit.parse().ok()),
            },
            _ => return Err("which order?".into()),
        };
        self.orders += 1;
        Ok(Fact::Order { id: OrderId(self.orders), order })
    }

    /// The world continues: ticks every 20 ms, and every 200 ms each node does what the script says.
    fn run(&mut self, words: &[&str]) -> Result<(), String> {
        let until = seconds(words[0])?;
        let those = |key: &str| -> Result<Vec<NodeId>, String> {
            let names = words.iter().find_map(|word| word.strip_prefix(key)).unwrap_or("");
            names.split(',').filter(|name| !name.is_empty()).map(|name| self.node(name)).collect()
        };
        let (answering, missing, refusing) = (those("answering=")?, those("missing=")?, those("refusing=")?);
        let every = option(words, "every=").map(seconds).transpose()?;
        let mut next_answer = self.now;
        self.folded = Some(BTreeMap::new());
        let mut ticks = 0;
        while self.now + Duration::from_millis(20) <= until {
            self.now += Duration::from_millis(20);
            ticks += 1;
            let round = ticks % 10 == 0;
            let asked = std::mem::take(&mut self.asked);
            let slow = match every {
                Some(every) if self.now >= next_answer => {
                    next_answer = self.now + every;
                    Some(true)
                }
                Some(_) => Some(false),
                None => None,
            };
            for node in &answering {
                if slow.unwrap_or(round || asked.contains(node)) {
                    let status = self.status(*node, self.now);
                    self.tell(status);
                } else if slow == Some(false) && round {
                    self.tell(self.missed(*node));
                }
            }
            for node in missing.iter().filter(|_| round) {
                self.tell(self.missed(*node));
            }
            for node in refusing.iter().filter(|_| round) {
                self.tell(Fact::ConnectFailed { node: *node, how: ConnectFailure::Refused });
            }
            self.tell(Fact::Tick);
        }
        self.now = until;
        for (line, times) in self.folded.take().unwrap_or_default() {
            if times > 0 {
                let _ = writeln!(self.out, "        ({line}: {times} more until {:.3})", until.as_secs_f64());
            }
        }
        Ok(())
    }
}
