//! The database nodes: three members of a Galera group, as far as a client and a manager can tell them from real ones.
//!
//! What is kept of Galera: a commit is agreed on by all members of the view at once or by none, and waits while one of them is silent; a
//! view changes when a member has been silent for long enough, left in good order, or was evicted; without a majority nobody commits or
//! answers; a member applies what others wrote a little later; a member that was away is fed before it serves; a frozen one wakes up with
//! what it believed before.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use topology::galera::GaleraStatus;

use super::ground::{Doing, Life, Nodes, NotDone};

use sim::Dice;
use sim::clock::Clock;

pub const NODES: usize = 3;
/// How long a member may be silent before the others go on without it (evs.suspect_timeout).
const SUSPECT: Duration = Duration::from_secs(5);

/// What a member believes of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub number: u64,
    pub members: BTreeSet<usize>,
    pub is_primary: bool,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub life: Life,
    /// Grows with each start: a link knows by it whether its server is still the same.
    pub born: u64,
    /// Its network to the proxy and the manager is gone.
    pub apart_from_us: bool,
    /// Its network to the other members is gone.
    pub apart_from_group: bool,
    /// It was evicted from the group, and stays out until it is started anew.
    pub cast_out: bool,
    pub is_synced: bool,
    pub read_only: bool,
    view: View,
    /// How much of the log it has applied.
    pub applied: usize,
    /// Came into the group since it last had all of the log.
    joins: bool,
}

/// See the head of this file.
pub struct Group {
    pub clock: Rc<Clock>,
    pub dice: Rc<Dice>,
    pub nodes: RefCell<Vec<Node>>,
    /// What was committed, in order.
    pub log: RefCell<Vec<u32>>,
    /// The newest primary view.
    newest: RefCell<View>,
    /// With one writer everybody sees what anybody was told; else each its own.
    is_one: bool,
    /// So much of the log must be seen by each client, since something in it was acknowledged.
    high: RefCell<BTreeMap<usize, usize>>,
    /// When each node was last not as it should be.
    trouble: [Cell<Duration>; NODES],
}

impl Nodes for Group {
    fn life(&self, node: usize) -> Life {
        self.nodes.borrow()[node].life
    }

    fn born(&self, node: usize) -> u64 {
        self.nodes.borrow()[node].born
    }

    fn is_reachable(&self, node: usize) -> bool {
        !self.nodes.borrow()[node].apart_from_us
    }

    fn serves(&self, node: usize) -> Result<(), u16> {
        let node = &self.nodes.borrow()[node];
        let well = node.life == Life::Up && node.view.is_primary && node.is_synced && !node.cast_out;
        if well { Ok(()) } else { Err(1047) }
    }

    fn read(&self, node: usize) -> usize {
        self.nodes.borrow()[node].applied
    }

    fn commit<'a>(
        &'a self,
        node: usize,
        born: u64,
        rows: &'a [u32],
    ) -> Doing<'a, Result<Option<String>, NotDone>> {
        Box::pin(async move {
            self.work(node, born, self.dice.between_us(200, 1500)).await?;
            if self.node(node).read_only {
                return Err(NotDone::Error(1290));
            }
            self.clock
                .until(|| {
                    if !self.is_same(node, born) {
                        return Some(Err(NotDone::Died));
                    }
                    if !self.runs(node) {
                        return None;
                    }
                    if self.serves(node).is_err() {
                        return Some(Err(NotDone::Error(self.dice.one_of(&[1047, 1213]))));
                    }
                    self.agrees(node).then(|| {
                        self.log.borrow_mut().extend(rows);
                        let all = self.log.borrow().len();
                        self.with(node, |node| node.applied = all);
                        Ok(None)
                    })
                })
                .await
        })
    }

    fn causal_read(&self, node: usize, born: u64) -> Doing<'_, Result<(), NotDone>> {
        Box::pin(async move {
            self.work(node, born, self.dice.between_us(100, 500)).await?;
            let mut wanted = None;
            self.clock
                .until(|| {
                    if !self.is_same(node, born) {
                        return Some(Err(NotDone::Died));
                    }
                    if !self.runs(node) {
                        return None;
                    }
                    if let Err(error) = self.serves(node) {
                        return Some(Err(NotDone::Error(error)));
                    }
                    if wanted.is_none() && self.agrees(node) {
                        wanted = Some(self.log.borrow().len());
                    }
                    wanted.is_some_and(|wanted| self.node(node).applied >= wanted).then_some(Ok(()))
                })
                .await
        })
    }

    fn position(&self, _node: usize) -> String {
        String::new()
    }

    fn has_applied(&self, _node: usize, _position: &str) -> bool {
        false
    }

    fn acknowledged(&self, client: usize, rows: &[u32]) {
        let log = self.log.borrow();
        let whose = if self.is_one { 0 } else { client };
        for row in rows {
            let at = log.iter().rposition(|there| there == row);
            let at = at.unwrap_or_else(|| panic!("row {row} was acknowledged, and is not there"));
            let mut high = self.high.borrow_mut();
            let high = high.entry(whose).or_default();
            *high = (at + 1).max(*high);
        }
    }

    fn must_see(&self, client: usize) -> usize {
        let whose = if self.is_one { 0 } else { client };
        self.high.borrow().get(&whose).copied().unwrap_or_default()
    }

    fn sees(&self, _client: usize, must: usize, seen: usize) {
        assert!(seen >= must, "a read saw {seen} of {must} acknowledged rows");
    }
}

impl Group {
    pub fn new(clock: Rc<Clock>, dice: Rc<Dice>, is_one: bool) -> Rc<Self> {
        let view = View { number: 1, members: (0..NODES).collect(), is_primary: true };
        let node = || Node {
            life: Life::Up,
            born: 1,
            apart_from_us: false,
            apart_from_group: false,
            cast_out: false,
            is_synced: true,
            read_only: false,
            view: view.clone(),
            applied: 0,
            joins: false,
        };
        let nodes = (0..NODES).map(|_| node()).collect();
        let group = Rc::new(Self {
            clock,
            dice,
            nodes: RefCell::new(nodes),
            log: RefCell::default(),
            newest: RefCell::new(view),
            is_one,
            high: RefCell::default(),
            trouble: Default::default(),
        });
        for node in 0..NODES {
            group.clock.spawn(group.clone().apply(node));
        }
        group.clock.spawn(group.clone().note_trouble());
        group
    }

    pub fn address(node: usize) -> String {
        format!("db{}:3306", node + 1)
    }

    fn with<T>(&self, node: usize, act: impl FnOnce(&mut Node) -> T) -> T {
        act(&mut self.nodes.borrow_mut()[node])
    }

    pub fn node(&self, node: usize) -> Node {
        self.nodes.borrow()[node].clone()
    }

    /// All members of its view hear it, and have the same view.
    fn agrees(&self, node: usize) -> bool {
        let nodes = self.nodes.borrow();
        let view = &nodes[node].view;
        view.is_primary
            && view.members.iter().all(|member| {
                let member = &nodes[*member];
                matches!(member.life, Life::Up | Life::Stopping)
                    && !member.apart_from_group
                    && member.view.number == view.number
            })
    }

    /// How long the node has been as it should be. That nobody can be reached is our trouble, and not the nodes'.
    pub fn well_for(&self, node: usize) -> Duration {
        self.look_for_trouble();
        self.clock.now().saturating_sub(self.trouble[node].get())
    }

    /// It takes so long for an answer.
    pub fn is_slow(&self, node: usize, time: Duration) {
        self.trouble[node].set(self.clock.now() + time);
    }

    fn look_for_trouble(&self) {
        let is_ours = (0..NODES).all(|node| !self.is_reachable(node));
        for (at, trouble) in self.trouble.iter().enumerate() {
            let is_well =
                self.serves(at).is_ok() && !self.node(at).read_only && !self.node(at).apart_from_group;
            if !is_well || (!self.is_reachable(at) && !is_ours) {
                trouble.set(trouble.get().max(self.clock.now()));
            }
        }
    }

    async fn note_trouble(self: Rc<Self>) {
        loop {
            self.look_for_trouble();
            self.clock.sleep(Duration::from_millis(5)).await;
        }
    }

    /// What it says when it is asked for its status.
    pub fn status(&self, node: usize) -> GaleraStatus {
        let this = self.node(node);
        let is_in = this.life == Life::Up && !this.cast_out;
        let cluster_status = match (is_in, this.view.is_primary) {
            (true, true) => "Primary",
            (true, false) => "non-Primary",
            (false, _) => "Disconnected",
        };
        GaleraStatus {
            local_state: Some(match (is_in && this.view.is_primary, this.is_synced) {
                (true, true) => 4,
                (true, false) => 1,
                (false, _) => 0,
            }),
            cluster_status: cluster_status.into(),
            cluster_size: this.view.members.len() as u32,
            conf_id: this.view.number,
            cluster_uuid: "group".into(),
            gcomm_uuid: format!("a{}-{}", node + 1, this.born),
            members: this.view.members.iter().map(|member| Self::address(*member)).collect(),
            ready: is_in && this.view.is_primary && this.is_synced,
            connected: is_in,
            read_only: this.read_only,
            ..GaleraStatus::default()
        }
    }

    // ---- the log

    /// Takes so long, if the process runs.
    pub async fn work(&self, node: usize, born: u64, time: Duration) -> Result<(), NotDone> {
        self.clock.sleep(time).await;
        self.clock
            .until(|| match self.is_same(node, born) {
                false => Some(Err(NotDone::Died)),
                true => self.runs(node).then_some(Ok(())),
            })
            .await
    }

    /// What others wrote comes a little later.
    async fn apply(self: Rc<Self>, node: usize) {
        loop {
            let lag = if self.dice.percent(3) { (50, 300) } else { (1, 15) };
            self.clock.sleep(self.dice.between_ms(lag.0, lag.1)).await;
            let newest = self.newest.borrow().number;
            let all = self.log.borrow().len();
            let runs = self.runs(node);
            self.with(node, |node| {
                if runs && node.view.is_primary && node.view.number == newest && !node.apart_from_group {
                    node.applied = all;
                    if node.joins {
                        node.joins = false;
                    }
                }
            });
        }
    }

    // ---- what happens to nodes

    /// SIGKILL.
    pub fn kill(self: &Rc<Self>, node: usize) {
        self.with(node, |node| node.life = Life::Down);
        self.regroup_after(SUSPECT);
    }

    /// Starts a process that is down.
    pub fn start(self: &Rc<Self>, node: usize) {
        self.with(node, |node| {
            if node.life == Life::Down {
                node.life = Life::Up;
                node.born += 1;
                node.cast_out = false;
                node.is_synced = false;
                node.view.is_primary = false;
                node.joins = true;
            }
        });
        self.regroup_after(self.dice.between_ms(200, 800));
    }

    /// SIGTERM: it leaves the group, then ends.
    pub fn stop(self: &Rc<Self>, node: usize) {
        let born = self.node(node).born;
        if self.node(node).life != Life::Up {
            return;
        }
        self.with(node, |node| node.life = Life::Stopping);
        let this = self.clone();
        self.clock.spawn(async move {
            this.clock.sleep(this.dice.between_ms(5, 15)).await;
            if this.node(node).born == born && this.agrees(node) {
                // The last one to leave is the one that is started as the cluster again.
                let mut newest = this.newest.borrow_mut();
                if newest.members.len() > 1 {
                    newest.members.remove(&node);
                }
            }
            this.regroup();
            this.clock.sleep(this.dice.between_ms(100, 2000)).await;
            if this.is_same(node, born) {
                this.with(node, |node| node.life = Life::Down);
            }
        });
    }

    /// SIGSTOP.
    pub fn freeze(self: &Rc<Self>, node: usize) {
        self.with(node, |node| {
            if node.life == Life::Up {
                node.life = Life::Frozen;
            }
        });
        self.regroup_after(SUSPECT);
    }

    /// SIGCONT.
    pub fn thaw(self: &Rc<Self>, node: usize) {
        self.with(node, |node| {
            if node.life == Life::Frozen {
                node.life = Life::Up;
            }
        });
        // Until then it believes what it believed.
        self.regroup_after(self.dice.between_ms(5, 200));
    }

    /// Takes its network away from the group, from us, or from both; or gives it back.
    pub fn set_network(self: &Rc<Self>, node: usize, from_group: bool, from_us: bool) {
        self.with(node, |node| {
            node.apart_from_group = from_group;
            node.apart_from_us = from_us;
        });
        self.regroup_after(if from_group { SUSPECT } else { self.dice.between_ms(50, 500) });
    }

    /// An order of the group's own to go on without a member; whether `via` took it.
    pub fn evict(self: &Rc<Self>, victim: usize, via: usize, view: u64) -> bool {
        let is_listed = {
            let nodes = self.nodes.borrow();
            nodes[via].view.number == view && nodes[via].view.members.contains(&victim)
        };
        if self.serves(via).is_err() || !is_listed || self.newest.borrow().number != view {
            return false;
        }
        self.with(victim, |node| node.cast_out = true);
        self.newest.borrow_mut().members.remove(&victim);
        self.regroup_after(Duration::from_millis(15));
        true
    }

    pub fn set_read_only(&self, node: usize, read_only: bool) {
        self.with(node, |node| node.read_only = read_only);
    }

    /// All as it should be; a node that is out for good is started anew.
    pub fn heal(self: &Rc<Self>) {
        for node in 0..NODES {
            self.set_read_only(node, false);
            self.set_network(node, false, false);
            self.thaw(node);
            let this = self.clone();
            self.clock.spawn(async move {
                // One that is ending first ends.
                this.clock.until(|| (this.node(node).life != Life::Stopping).then_some(())).await;
                if this.node(node).cast_out {
                    this.kill(node);
                }
                this.start(node);
            });
        }
    }

    fn regroup_after(self: &Rc<Self>, time: Duration) {
        let this = self.clone();
        self.clock.spawn(async move {
            this.clock.sleep(time).await;
            this.regroup();
        });
    }

    /// Those who can hear each other agree on who is there.
    fn regroup(self: &Rc<Self>) {
        let here: BTreeSet<usize> = (0..NODES)
            .filter(|at| {
                let node = &self.nodes.borrow()[*at];
                node.life == Life::Up && !node.apart_from_group && !node.cast_out
            })
            .collect();
        let mut newest = self.newest.borrow_mut();
        let present = here.intersection(&newest.members).count();
        let has_majority = present * 2 > newest.members.len();
        let is_new = here.iter().any(|at| self.nodes.borrow()[*at].view != *newest) || here != newest.members;
        if has_majority && is_new {
            newest.number += 1;
            newest.members.clone_from(&here);
        }
        for at in 0..NODES {
            let mut nodes = self.nodes.borrow_mut();
            let node = &mut nodes[at];
            if here.contains(&at) && has_majority {
                let was_away = node.joins || !node.view.is_primary || node.view.number + 1 < newest.number;
                node.view = newest.clone();
                if was_away && is_new {
                    node.is_synced = false;
                    node.joins = true;
                    drop(nodes);
                    self.feed(at);
                }
            } else if matches!(node.life, Life::Up | Life::Stopping) {
                node.view.is_primary = false;
                node.view.members = if here.contains(&at) { here.clone() } else { BTreeSet::from([at]) };
            }
        }
    }

    /// A member that was away gets what it has missed.
    fn feed(self: &Rc<Self>, node: usize) {
        let this = self.clone();
        let born = self.node(node).born;
        let time = self.dice.between_ms(50, 1500);
        self.clock.spawn(async move {
            this.clock.sleep(time).await;
            this.clock.until(|| (!this.node(node).joins || !this.is_same(node, born)).then_some(())).await;
            this.with(node, |node| {
                if node.born == born && node.view.is_primary {
                    node.is_synced = true;
                }
            });
        });
    }
}
