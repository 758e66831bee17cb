//! A cluster whose behaviour a script defines, with the brain in charge: facts go in, and every action is written down.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use topology::action::Action;
use topology::brain::Brain;
use topology::fact::{Fact, Outcome};
use topology::galera::{self, GaleraStatus};
use topology::routes::{Cut, LaneState, Routes};
use topology::{NodeId, Term};

use super::words::greeting;

pub struct Stage {
    pub brain: Brain,
    pub names: Vec<String>,
    /// wsrep_incoming_addresses does not tell the members.
    pub is_auto: bool,
    pub now: Duration,
    pub interval: Duration,
    pub statuses: Vec<GaleraStatus>,
    pub auto: Vec<String>,
    pub persists: VecDeque<u64>,
    pub evicts: VecDeque<NodeId>,
    /// The number of the last hurry.
    pub hurries: u64,
    pub barriers: BTreeMap<NodeId, Term>,
    pub asked: Vec<NodeId>,
    pub routes: Option<std::sync::Arc<Routes>>,
    pub orders: u64,
    /// In a `run`: how often each question was repeated.
    pub folded: Option<BTreeMap<String, u32>>,
    pub out: String,
}

impl Stage {
    pub fn up(&mut self, node: NodeId) {
        self.tell(Fact::LinkUp { node, greeting: greeting() });
        let status = self.status(node, self.now);
        self.tell(status);
    }

    /// A question that was sent an interval ago was not answered.
    pub fn missed(&self, node: NodeId) -> Fact {
        Fact::ProbeMissed { node, asked: self.now.saturating_sub(self.interval) }
    }

    pub fn status(&self, node: NodeId, asked: Duration) -> Fact {
        let status = self.statuses[usize::from(node.0)].clone();
        Fact::Status { node, status: status.into(), asked }
    }

    pub fn tell(&mut self, fact: Fact) {
        let mut facts = VecDeque::from([fact]);
        while let Some(fact) = facts.pop_front() {
            for action in self.brain.on(self.now, fact) {
                facts.extend(self.write(action));
            }
        }
    }

    /// Writes an action down; returns the fact that answers it, if that is `auto`.
    pub fn write(&mut self, action: Action) -> Option<Fact> {
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
                let limit = |(node, limit)| format!(" {}<={limit}", name(node));
                let limits: Vec<String> = sessions_max.into_iter().map(limit).collect();
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
            Action::Galera(galera::Action::Prove { node, .. }) => {
                format!("prove that {} has ended", name(node))
            }
            Action::Galera(galera::Action::Bootstrap { via, .. }) => format!("bootstrap {}", name(via)),
            Action::Galera(galera::Action::Desync { node, on }) => {
                format!("desync {} {}", name(node), if on { "on" } else { "off" })
            }
            Action::Galera(galera::Action::Remember { component }) => {
                let members = component.members.iter().map(|member| member.address.trim_end_matches(":3306"));
                let unknown = match component.unknown {
                    0 => String::new(),
                    unknown => format!(" and {unknown} unknown"),
                };
                let members = members.collect::<Vec<_>>().join(",");
                format!("remember {members}{unknown} in view {}", component.conf_id)
            }
            Action::Galera(galera::Action::Ease { number }) => format!("ease {number}"),
            Action::Galera(galera::Action::Pace { node, fast_join_retrans }) => {
                format!(
                    "pace of {}: {}",
                    name(node),
                    if fast_join_retrans { "fast join retransmission" } else { "its own" }
                )
            }
            Action::Replication(action) => format!("asked of a Galera cluster: {action:?}"),
            Action::Barrier { node, term, lost, at_least, .. } => {
                let lost = lost.map(|lost| format!(" without {}", name(lost))).unwrap_or_default();
                let at_least = at_least.filter(|seqno| *seqno > 0);
                let at_least = at_least.map(|seqno| format!(" at least {seqno}")).unwrap_or_default();
                let line = format!("barrier {} term {term}{lost}{at_least}", name(node));
                if auto("barrier") {
                    answer = Some(Fact::Outcome(Outcome::BarrierPassed { node, term }));
                } else {
                    self.barriers.insert(node, term);
                }
                line
            }
            Action::PublishReads(_) | Action::Reached(_) => format!("for a port for reads: {action:?}"),
            Action::Remember { .. } => unreachable!("asked of a Galera cluster: {action:?}"),
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
                            Cut::Stopped => "(cut stopped)",
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

    pub fn node(&self, name: &str) -> Result<NodeId, String> {
        // An unknown name is an unknown node: the brain must stand that, too.
        let place = self.names.iter().position(|known| known == name);
        place
            .or((name == "nobody").then_some(99))
            .map(|place| NodeId(place as u8))
            .ok_or(format!("no node {name}"))
    }
}
