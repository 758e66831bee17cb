//! Runs the transcripts in `tests/transcripts/*.txt`: facts in, a line `----`, the exact decisions out.
//!
//! `UNDERSTUDY_BLESS=1 cargo test -p topology` rewrites what comes out; the change is then to be read as a diff.
//!
//! ```text
//!   cluster writers=one evict=proven silent=hurry nodes=db1,db2,db3 [term=7 writer=db2 drained=db3] [events=off] [KEY=SECONDS ...]
//!   auto persist barrier evict            these are answered at once, with success
//!   0.100 all up                          every node: LinkUp and a Status
//!   0.100 db1 status primary=no           what is changed stays changed for that node
//!   0.100 group conf=4 members=db2,db3    the same for the members named
//!   0.100 db1 ended closed | failed refused | missed | lost | refused 1047 | quiet | passed | barrier-failed WHY
//!   0.100 db1 status asked=0.050 | slow asked=0.050       the question was sent then, else now
//!   0.100 db1 lost alarm=1 | refused 1047 alarm=2 | full alarm=3      of the lane's present epoch, or epoch=N; full: error 1040
//!   0.100 db1 beat committed | stuck | lock | own-table | failed | untold [asked=0.050]
//!   0.100 db1 statement DIGEST TEXT | cut | tables log,old            cut: every link of the epoch before the present one is gone
//!   0.100 persisted | persist-failed WHY | evicted | spared VIA | hurried | hurry-ended goes-on | evict-failed WHY | tick | account NAME | tables-changed
//!   0.100 order switchover db2 budget=1.0 force
//!   0.100 run 0.900 answering=db2,db3 missing=db1 refusing=...     ticks every 20 ms, answers every 200 ms, or every=SECONDS
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use topology::action::Action;
use topology::brain::{Brain, Restored};
use topology::catalogue::Catalogue;
use topology::fact::{ConnectFailure, Fact, LinkEnd, Outcome};
use topology::galera::HurryEnd;
use topology::galera::{self, GaleraStatus, SilencePolicy};
use topology::heartbeat::{Beat, Stall};
use topology::order::{Order, OrderId};
use topology::routes::{Cut, LaneState, Routes, ServerGreeting};
use topology::settings::{EvictPolicy, NodeSettings, Settings, Writers};
use topology::{NodeId, Term};

#[test]
fn transcripts() {
    let bless = std::env::var_os("UNDERSTUDY_BLESS").is_some();
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "txt")) {
        let text = std::fs::read_to_string(path).unwrap();
        let (facts, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let came = play(facts).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        if bless {
            std::fs::write(path, format!("{facts}----\n{came}")).unwrap();
        } else if came != expected {
            let line = came
                .lines()
                .zip(expected.lines())
                .position(|(a, b)| a != b)
                .unwrap_or(expected.lines().count());
            let at = |text: &str| text.lines().nth(line).unwrap_or("(nothing)").to_owned();
            wrong.push(format!(
                "{}: line {} of the decisions\n  came     {}\n  expected {}",
                path.display(),
                line + 1,
                at(&came),
                at(expected)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!files.is_empty());
}

struct Stage {
    brain: Brain,
    names: Vec<String>,
    now: Duration,
    interval: Duration,
    statuses: Vec<GaleraStatus>,
    auto: Vec<String>,
    persists: VecDeque<u64>,
    evicts: VecDeque<NodeId>,
    /// The number of the last hurry.
    hurries: u64,
    barriers: BTreeMap<NodeId, Term>,
    asked: Vec<NodeId>,
    routes: Option<std::sync::Arc<Routes>>,
    orders: u64,
    /// In a `run`: how often each question was asked beyond the first time.
    folded: Option<BTreeMap<String, u32>>,
    out: String,
}

fn play(script: &str) -> Result<String, String> {
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
    if given.get("silent") == Some(&"wait") {
        settings.galera.silence = SilencePolicy::Wait;
    }
    settings.events = given.get("events") != Some(&"off");
    if let Some(time) = given.get("leave_grace") {
        settings.galera.leave_grace = seconds(time)?;
    }
    settings.check()?;
    let place = |name: &str| settings.node(name).ok_or(format!("no node {name}"));
    let mut restored = Restored { sessions_max: vec![None; names.len()], ..Restored::default() };
    restored.term = Term(given.get("term").map_or(Ok(0), |term| term.parse()).map_err(|_| "term?")?);
    restored.writer = given.get("writer").map(|name| place(name)).transpose()?;
    if let Some(name) = given.get("drained") {
        restored.sessions_max[usize::from(place(name)?.0)] = Some(0);
    }
    let status = |number: usize| GaleraStatus {
        local_state: Some(4),
        local_state_comment: "Synced".into(),
        cluster_status: "Primary".into(),
        cluster_size: names.len() as u32,
        conf_id: 3,
        cluster_uuid: "group".into(),
        gcomm_uuid: format!("{}-{number}", "a0"),
        members: names.iter().map(|name| address(name)).collect(),
        ready: true,
        connected: true,
        ..GaleraStatus::default()
    };
    Ok(Stage {
        interval: settings.probe_interval,
        brain: Brain::new(settings, restored, Duration::ZERO),
        statuses: (0..names.len()).map(status).collect(),
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
        let fact = match who {
            "tick" => Fact::Tick,
            "account" => Fact::UnknownAccount { user: what.into() },
            "tables-changed" => Fact::TablesChanged,
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
                    "lost" | "full" => {
                        let (epoch, alarm) = self.alarm(node, words)?;
                        let how =
                            if what == "lost" { ConnectFailure::Reset } else { failed("rejected 1040")? };
                        Fact::TrafficLost { node, epoch, how, alarm }
                    }
                    "statement" => Fact::StatementLost {
                        node,
                        epoch: self.alarm(node, words)?.0,
                        digest: words.get(3).copied().unwrap_or_default().into(),
                        text: words.get(4..).unwrap_or(&[]).join(" "),
                    },
                    "beat" => Fact::Beat { node, beat: self.beat(&words[3..])? },
                    "cut" => Fact::Cut { node, epoch: self.alarm(node, words)?.0.saturating_sub(1) },
                    "tables" => {
                        let names = rest.split(',').filter(|name| !name.is_empty()).map(Into::into);
                        Fact::Catalogue { node, catalogue: Catalogue::new(names, []) }
                    }
                    "refused" => {
                        let errno = words.get(3).and_then(|errno| errno.parse().ok()).ok_or("errno?")?;
                        let (epoch, alarm) = self.alarm(node, words)?;
                        Fact::TrafficRefused { node, epoch, errno, alarm }
                    }
                    "quiet" => {
                        let routes = self.routes.clone().ok_or("nothing is published")?;
                        let epoch = routes.lane(node).ok_or("lane?")?.epoch;
                        Fact::Quiesced { node, epoch, term: routes.term, version: routes.version }
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

    fn up(&mut self, node: NodeId) {
        self.tell(Fact::LinkUp { node, greeting: greeting() });
        let status = self.status(node, self.now);
        self.tell(status);
    }

    /// A question that was sent an interval ago is without an answer.
    fn missed(&self, node: NodeId) -> Fact {
        Fact::ProbeMissed { node, asked: self.now.saturating_sub(self.interval) }
    }

    /// Epoch and number of an alarm.
    /// `committed`, `untold`, `failed`, or what it waits for; the question was sent at `asked=`, else now.
    fn beat(&self, words: &[&str]) -> Result<Beat, String> {
        let asked = option(words, "asked=").map_or(Ok(self.now), seconds)?;
        Ok(match words.first().copied().unwrap_or_default() {
            "committed" => Beat::Committed { asked },
            "untold" => Beat::Untold,
            "failed" => Beat::Failed { asked },
            "lock" => Beat::Waits { asked, stall: Stall::GlobalLock },
            "stuck" => Beat::Waits { asked, stall: Stall::Stuck },
            "own-table" => Beat::Waits { asked, stall: Stall::OwnTable },
            _ => return Err("beat?".into()),
        })
    }

    fn alarm(&self, node: NodeId, words: &[&str]) -> Result<(u64, u64), String> {
        let present = self.routes.as_ref().and_then(|routes| routes.lane(node)).map_or(0, |lane| lane.epoch);
        let number = |key: &str, default: u64| {
            option(words, key).map_or(Ok(default), |text| text.parse().map_err(|_| format!("{key}?")))
        };
        Ok((number("epoch=", present)?, number("alarm=", 0)?))
    }

    fn status(&self, node: NodeId, asked: Duration) -> Fact {
        let status = self.statuses[usize::from(node.0)].clone();
        Fact::Status { node, status: status.into(), asked }
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
                "ready" => status.ready = on,
                "conf" => status.conf_id = value.parse().map_err(|_| "conf?")?,
                "uuid" => status.gcomm_uuid = value.into(),
                "members" => {
                    status.members = value.split(',').map(address).collect();
                    status.cluster_size = status.members.len() as u32;
                }
                "read_only" => status.read_only = on,
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
        let force = words.contains(&"force");
        let node = words
            .get(1)
            .filter(|word| !word.contains('=') && **word != "force")
            .map(|name| self.node(name))
            .transpose()?;
        let must = || node.ok_or("which node?");
        let order = match words[0] {
            "switchover" => Order::Switchover { to: node, budget, force },
            "drain" => Order::Drain { node: must()?, budget, force },
            "undrain" => Order::Undrain { node: must()? },
            "limit" => Order::SetSessionsMax {
                node: must()?,
                sessions_max: words.get(2).and_then(|limit| limit.parse().ok()),
            },
            _ => return Err("which order?".into()),
        };
        self.orders += 1;
        Ok(Fact::Order { id: OrderId(self.orders), order })
    }

    /// The world goes on: ticks every 20 ms, and every 200 ms each node does what it is said to do.
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

    fn tell(&mut self, fact: Fact) {
        let mut facts = VecDeque::from([fact]);
        while let Some(fact) = facts.pop_front() {
            for action in self.brain.on(self.now, fact) {
                facts.extend(self.write(action));
            }
        }
    }

    /// Writes an action down; gives the fact that answers it, when that is `auto`.
    fn write(&mut self, action: Action) -> Option<Fact> {
        let name = |node: NodeId| self.names[usize::from(node.0)].clone();
        let auto = |what: &str| self.auto.iter().any(|word| word == what);
        let mut answer = None;
        let line = match action {
            Action::Confirm { node } => format!("confirm {}", name(node)),
            Action::Probe { node } => {
                self.asked.push(node);
                format!("probe {}", name(node))
            }
            Action::Persist { number, term, writer, sessions_max, .. } => {
                let limits: Vec<String> = sessions_max
                    .iter()
                    .zip(&self.names)
                    .filter_map(|(limit, name)| limit.map(|limit| format!(" {name}<={limit}")))
                    .collect();
                let writer = writer.map_or("-".into(), name);
                if auto("persist") {
                    answer = Some(Fact::Outcome(Outcome::Persisted { number }));
                } else {
                    self.persists.push_back(number);
                }
                format!("persist term {term} writer {writer}{}", limits.concat())
            }
            Action::Galera(galera::Action::Evict { victim, gcomm_uuid, via, .. }) => {
                let line = format!("evict {} ({gcomm_uuid}) via {}", name(victim), name(via));
                if auto("evict") {
                    answer = Some(Fact::Outcome(galera::Outcome::Evicted { victim, via }.into()));
                } else {
                    self.evicts.push_back(victim);
                }
                line
            }
            Action::Galera(galera::Action::Forget { node }) => {
                format!("forget the evicted on {}", name(node))
            }
            Action::Galera(galera::Action::Hurry { number, silent, members, view }) => {
                self.hurries = number;
                let names = |nodes: Vec<NodeId>| nodes.into_iter().map(name).collect::<Vec<_>>().join(",");
                format!("hurry {number}: {} silent in view {view}, tell {}", names(silent), names(members))
            }
            Action::Galera(galera::Action::Desync { node, on }) => {
                format!("desync {} {}", name(node), if on { "on" } else { "off" })
            }
            Action::Galera(galera::Action::Ease { number }) => format!("ease {number}"),
            Action::Galera(galera::Action::Pace { node, brisk }) => {
                format!("pace of {}: {}", name(node), if brisk { "brisk" } else { "its own" })
            }
            Action::Replication(action) => format!("asked of a Galera cluster: {action:?}"),
            Action::Barrier { node, term, lost, .. } => {
                let lost = lost.map(|lost| format!(" without {}", name(lost))).unwrap_or_default();
                let line = format!("barrier {} term {term}{lost}", name(node));
                if auto("barrier") {
                    answer = Some(Fact::Outcome(Outcome::BarrierPassed { node, term }));
                } else {
                    self.barriers.insert(node, term);
                }
                line
            }
            Action::PublishReads(_) | Action::Reached(_) => format!("for a port for reads: {action:?}"),
            Action::ReadTables { node } => format!("read tables from {}", name(node)),
            Action::ReadAccounts { node } => format!("read accounts from {}", name(node)),
            Action::Publish(routes) => {
                let lane = |state| match state {
                    LaneState::Open => "open",
                    LaneState::Draining => "draining",
                    LaneState::Shut => "shut",
                };
                let lanes: Vec<String> = routes
                    .lanes
                    .iter()
                    .map(|l| {
                        let limit = l.sessions_max.map_or(String::new(), |limit| format!("<={limit}"));
                        let looked =
                            if l.looked > 0 { format!("(looked {})", l.looked) } else { String::new() };
                        let refused =
                            if l.refused > 0 { format!("(refused {})", l.refused) } else { String::new() };
                        let cut = match l.cut {
                            Cut::Nothing => "",
                            Cut::Stalled => "(cut stalled)",
                            Cut::All => "(cut all)",
                        };
                        format!("{}:{}/{}{limit}{looked}{refused}{cut}", l.name, lane(l.state), l.epoch)
                    })
                    .collect();
                let names = routes.catalogue.iter().flat_map(|catalogue| &catalogue.untransactional);
                let names: Vec<&str> = names.map(String::as_str).collect();
                let names = if names.is_empty() {
                    String::new()
                } else {
                    format!(" not rolled back: {}", names.join(","))
                };
                let line = format!("routes term {} {}{names}", routes.term, lanes.join(" "));
                self.routes = Some(routes);
                line
            }
            Action::Answer { id, reply } => match reply {
                Ok(done) => format!("answer {} done: {}", id.0, done.sentence),
                Err(refused) => format!("answer {} refused ({}): {}", id.0, refused.code, refused.sentence),
            },
            Action::Say(sentence) => format!("say {}: {}", sentence.level.word(), sentence.text),
        };
        if let Some(folded) = &mut self.folded
            && (line.starts_with("probe ") || line.starts_with("confirm "))
        {
            let times = folded.entry(line.clone()).and_modify(|times| *times += 1).or_insert(0);
            if *times > 0 {
                return answer;
            }
        }
        let _ = writeln!(self.out, "{:.3} {line}", self.now.as_secs_f64());
        answer
    }

    fn node(&self, name: &str) -> Result<NodeId, String> {
        // An unknown name is an unknown node: the brain must stand that, too.
        let place = self.names.iter().position(|known| known == name);
        place
            .or((name == "nobody").then_some(99))
            .map(|place| NodeId(place as u8))
            .ok_or(format!("no node {name}"))
    }
}

/// The value of the word that begins with `key`.
fn option<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(key))
}

fn address(name: &str) -> String {
    format!("{name}:3306")
}

fn greeting() -> ServerGreeting {
    ServerGreeting { version: "5.5.5-10.11.19-MariaDB".into(), capabilities: 1, charset: 45 }
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|time| Duration::try_from_secs_f64(time).ok())
        .ok_or(format!("{text} is no time"))
}

fn ended(how: &str) -> Result<LinkEnd, String> {
    Ok(match how.split_once(' ') {
        Some(("goodbye", errno)) => LinkEnd::Goodbye { errno: errno.parse().map_err(|_| "errno?")? },
        None if how == "closed" => LinkEnd::Closed,
        None if how == "silent" => LinkEnd::Silent,
        _ => return Err("how?".into()),
    })
}

fn failed(how: &str) -> Result<ConnectFailure, String> {
    Ok(match how.split_once(' ') {
        Some(("rejected", errno)) => {
            ConnectFailure::Rejected { errno: errno.parse().map_err(|_| "errno?")?, message: "no".into() }
        }
        None if how == "refused" => ConnectFailure::Refused,
        None if how == "reset" => ConnectFailure::Reset,
        None if how == "timeout" => ConnectFailure::TimedOut,
        None if how == "unreachable" => ConnectFailure::Unreachable,
        _ => return Err("how?".into()),
    })
}
