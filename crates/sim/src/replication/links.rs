//! The manager's links to the servers of the model, and the questions on them.

use std::time::Duration;

use topology::NodeId;
use topology::fact::{ConnectFailure, Fact, LinkEnd};
use topology::routes::ServerGreeting;

use super::server::{Fetching, Server};
use super::world::{PROBE, World};

/// So long a server had run when the simulation began.
const RAN_BEFORE: Duration = Duration::from_secs(3600);

impl World {
    pub fn reaches(&self, from: Option<usize>, to: usize) -> bool {
        !self
            .cut_off
            .iter()
            .any(|cut| *cut == (from, to) || (from.is_some() && *cut == (Some(to), from.unwrap_or(to))))
    }

    /// It answers everybody whom its packets reach.
    pub fn speaks(&self, node: usize) -> bool {
        let server = &self.servers[node];
        server.up && !server.frozen && self.reaches(None, node)
    }

    pub fn probe(&mut self, process: u64, node: usize) {
        if process != self.process {
            return;
        }
        if self.now >= self.stalled_until {
            match self.linked[node] {
                Some(_) => self.ask(node),
                None => self.connect(node),
            }
        }
        self.later(PROBE, move |world| world.probe(process, node));
    }

    pub fn ask(&mut self, node: usize) {
        let Some(life) = self.linked[node] else { return };
        let (process, asked) = (self.process, self.brain_now());
        let id = NodeId(node as u8);
        let there = self.delay(0, 3);
        let lost = self.chance(1);
        self.later(there, move |world| {
            if process != world.process || world.linked[node] != Some(life) {
                return;
            }
            let server = &world.servers[node];
            if world.reaches(None, node) && (!server.up || server.life != life) {
                // The process it was made to is gone: the host resets it.
                world.end_link(node);
                return;
            }
            if lost || !world.speaks(node) {
                world.later(PROBE / 5, move |world| {
                    if process == world.process && world.linked[node] == Some(life) {
                        world.tell(Fact::ProbeSlow { node: id, asked });
                    }
                });
                world.later(PROBE, move |world| {
                    if process == world.process && world.linked[node] == Some(life) {
                        world.tell(Fact::ProbeMissed { node: id, asked });
                    }
                });
                return;
            }
            world.look_at_events(node);
            let status = world.status(node).into();
            let back = if world.chance(1) { world.delay(30, 500) } else { world.delay(1, 3) };
            // Answers come in the order of the questions.
            let at = (world.now + back).max(world.answers_until[node]);
            world.answers_until[node] = at;
            let back = at.saturating_sub(world.now);
            world.later(back, move |world| {
                if process == world.process && world.linked[node] == Some(life) {
                    world.tell(Fact::Status { node: id, status, asked });
                }
            });
        });
    }

    pub fn connect(&mut self, node: usize) {
        let process = self.process;
        let there = self.delay(1, 4);
        self.later(there, move |world| world.arrive(process, node));
    }

    /// A connection attempt has come to the server.
    fn arrive(&mut self, process: u64, node: usize) {
        if process != self.process {
            return;
        }
        let id = NodeId(node as u8);
        let server = &self.servers[node];
        let hangs = server.up && (server.frozen || !server.lets_in());
        if !self.reaches(None, node) || hangs {
            // One attempt at a time: where another has succeeded meanwhile, this one was that.
            self.later(PROBE, move |world| {
                if process == world.process && (world.has_proxy || world.linked[node].is_none()) {
                    world.tell(Fact::ConnectFailed { node: id, how: ConnectFailure::TimedOut });
                }
            });
        } else if !server.up {
            self.tell(Fact::ConnectFailed { node: id, how: ConnectFailure::Refused });
        } else if self.now <= self.link_ended_at[node] {
            // The end of the link before this one is told first.
            let rest = self.link_ended_at[node].saturating_sub(self.now) + Duration::from_micros(1);
            self.later(rest, move |world| world.arrive(process, node));
        } else {
            self.linked[node] = Some(server.life);
            let greeting = greeting(server.is_mysql);
            self.tell(Fact::LinkUp { node: id, greeting });
            self.ask(node);
        }
    }

    pub fn connect_anew(&mut self, node: usize) {
        match self.linked[node] {
            // Without traffic that loses links, only the kept link is ever asked about.
            Some(_) if !self.has_proxy => self.ask(node),
            _ => self.connect(node),
        }
    }

    pub fn status(&self, node: usize) -> topology::replication::ReplicationStatus {
        let mut status = self.servers[node].status(&self.names, self.semi_sync);
        status.event_scheduler = (self.event_scheduler && !self.servers[node].is_mysql).then_some(true);
        let server = &self.servers[node];
        let before = if server.life == 0 { RAN_BEFORE } else { Duration::ZERO };
        status.uptime_s = Some((self.now + before).saturating_sub(server.began_at).as_secs());
        let follows = |server: &&Server| {
            server.up && server.source == Some(node) && server.fetching == Fetching::Yes && self.semi_sync
        };
        status.semi_sync.replicas = self.servers.iter().filter(follows).count() as u32;
        status
    }

    /// Its process ends.
    pub fn kill(&mut self, node: usize) {
        self.servers[node].up = false;
        self.end_link(node);
    }

    pub fn end_link(&mut self, node: usize) {
        if self.reaches(None, node) && self.linked[node].take().is_some() {
            let delay = self.delay(0, 2);
            self.link_ended_at[node] = self.now + delay;
            self.tell_later(delay, Fact::LinkEnded { node: NodeId(node as u8), how: LinkEnd::Closed });
        }
    }

    pub fn start_server(&mut self, node: usize, lost_from: Option<Duration>) {
        self.servers[node].start(lost_from);
        self.servers[node].began_at = self.now;
        self.reachable_since[node] = self.now;
    }
}

fn greeting(is_mysql: bool) -> ServerGreeting {
    let version = if is_mysql { "8.4.3" } else { "5.5.5-10.11.19-MariaDB" };
    ServerGreeting {
        version: version.into(),
        capabilities: u64::MAX,
        charset: 45,
        status: 2,
        plugin: "mysql_native_password".into(),
    }
}
