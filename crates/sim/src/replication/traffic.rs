//! The clients' writes, and how they reach the replicas and are acknowledged.

use super::server::{Fetching, Server, replicate};
use super::world::{Waiting, World};

impl World {
    pub fn replicate(&mut self) {
        let cut_off = std::mem::take(&mut self.cut_off);
        let reaches = |one: usize, other: usize| {
            !cut_off.iter().any(|cut| *cut == (Some(one), other) || *cut == (Some(other), one))
        };
        let dice = self.dice.clone();
        replicate(&mut self.servers, reaches, || match &dice {
            Some(dice) if dice.percent(10) => dice.below(3) as usize,
            _ => usize::MAX,
        });
        self.cut_off = cut_off;
        self.acknowledge();
    }

    /// A commit returns when a replica has it, if its client is still connected.
    pub fn acknowledge(&mut self) {
        for node in 0..self.servers.len() {
            // A source that is busy reads what its replicas say some steps later.
            let is_late =
                self.dice.as_ref().is_some_and(|dice| self.servers[node].is_mysql && dice.percent(30));
            while !is_late
                && self.servers[node].unacknowledged.front().is_some_and(|uid| self.is_received(node, *uid))
            {
                let server = &mut self.servers[node];
                server.unacknowledged.pop_front();
                server.acknowledged_count += 1;
            }
        }
        let waiting = std::mem::take(&mut self.waiting);
        for commit in waiting {
            let primary = &self.servers[commit.server];
            if !primary.up || primary.life != commit.life || self.epoch(commit.server) != commit.epoch {
                continue;
            }
            let is_read = !primary.unacknowledged.contains(&commit.uid);
            if is_read && self.is_received(commit.server, commit.uid) && self.speaks(commit.server) {
                self.acknowledged.extend(Some(commit.uid).filter(|_| !self.has_proxy));
            } else {
                self.waiting.push(commit);
            }
        }
    }

    /// Whether some server receives from `node`.
    pub fn is_followed(&self, node: usize) -> bool {
        self.servers.iter().any(|server| server.source == Some(node) && server.fetching == Fetching::Yes)
    }

    /// Whether a replica of `node` has this transaction.
    fn is_received(&self, node: usize, uid: u64) -> bool {
        let has = |server: &Server| {
            let transactions = server.received.iter().chain(server.applied.iter().rev().take(200));
            server.source == Some(node) && transactions.into_iter().any(|it| it.uid == uid)
        };
        self.servers.iter().any(has)
    }

    /// A client's commit, sent to `node`; `told`: the client is still connected.
    pub fn commit(&mut self, node: usize, told: bool) -> bool {
        if !self.speaks(node) || self.servers[node].read_only || self.servers[node].stuck.is_some() {
            return false;
        }
        let uid = self.write(node, told);
        if told && !self.servers[node].waits {
            self.acknowledged.push(uid);
        }
        true
    }

    /// A client commits on a server; its identity. `is_awaited`: an order that ends writes waits until a replica has acknowledged it.
    pub fn write(&mut self, node: usize, is_awaited: bool) -> u64 {
        self.uid += 1;
        let (uid, now, epoch) = (self.uid, self.now, self.epoch(node));
        let server = &mut self.servers[node];
        server.write(uid, now);
        self.made.extend(server.applied.last().map(|made| (uid, *made)));
        if is_awaited && server.waits {
            self.waiting.push(Waiting { uid, server: node, life: server.life, epoch });
        }
        uid
    }
}
