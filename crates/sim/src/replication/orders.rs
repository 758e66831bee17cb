//! Orders to servers, carried out as the shell does: statement by statement, each on a live connection, within the order's time.

use std::time::Duration;

use protocol::gtid::Position;
use topology::fact::{Fact, Outcome};
use topology::replication::kept_events::Left;
use topology::replication::{End, Errand};
use topology::{NodeId, Term, replication};

use super::server::{Fetching, Has};
use super::world::World;

/// How long a replica takes to tell a source that does not answer that it stops.
const GOODBYE: Duration = Duration::from_millis(1050);

/// A server that is given up ends commits that nobody acknowledges after so long.
const COMMITS_MAX: Duration = Duration::from_millis(250);

/// A promotion does not wait longer for what a server does not receive.
const UNCONNECTED_MAX: Duration = Duration::from_secs(1);

/// Why an order failed whose time is over.
const TOO_LONG: &str = "it takes too long";

impl World {
    /// Receives an order; what it contains is written down.
    pub fn begin_order(&mut self, action: replication::Action) -> String {
        self.newest = self.newest.max(action.term);
        if let Errand::Demote { .. } = &action.errand {
            self.demand_not_served(usize::from(action.node.0));
        }
        let name = |node: NodeId| self.names[usize::from(node.0)].clone();
        let of = name(action.node);
        let line = match &action.errand {
            Errand::Demote { .. } => format!("read only: {of}"),
            Errand::Promote { reach } => {
                let reach = reach.as_ref().map_or("all that it has".to_owned(), ToString::to_string);
                format!("promote {of} at {reach}")
            }
            Errand::Follow { source } => format!("{of} is to follow {}", name(*source)),
            Errand::Reconnect { source } => format!("{of} is to connect to {} anew", name(*source)),
            Errand::Part => format!("{of} is to fetch no more"),
            Errand::StopWaiting => format!("{of} is to wait for no replica"),
            Errand::StopEvents => format!("{of} is to stop its events"),
            Errand::RunEvents { has_replaced } => {
                let before = if *has_replaced { " before it" } else { "" };
                format!("{of} is to run the events of the primary{before}")
            }
        };
        let job = Job {
            give_up: self.now + action.within,
            process: self.process,
            life: self.servers[usize::from(action.node.0)].life,
            stage: 0,
            unconnected: None,
            events_left: Left::default(),
            events_count: 0,
            leaves_events: false,
            action,
        };
        let delay = self.delay(0, 4);
        self.later(delay, move |world| world.work(job));
        line
    }

    fn work(&mut self, mut job: Job) {
        let node = usize::from(job.action.node.0);
        // A statement that was on its way when our process ended may be carried out; what comes after it is not.
        if job.process != self.process && !self.chance(30) {
            return;
        }
        let ended = if self.now >= job.give_up {
            Some(Err(TOO_LONG.to_owned()))
        } else if !self.reaches(None, node) || (self.servers[node].up && self.servers[node].frozen) {
            None
        } else if !self.servers[node].up || self.servers[node].life != job.life {
            Some(Err("the connection was lost".to_owned()))
        } else if job.is_overtaken(self.newest) {
            Some(Err("overtaken".to_owned()))
        } else if self.now < self.servers[node].goodbye_until {
            // The server carries out what it was told before.
            None
        } else if std::mem::take(&mut self.servers[node].refuses) {
            Some(Err("it refuses".to_owned()))
        } else {
            self.stage(node, &mut job)
        };
        if job.process != self.process {
            return;
        }
        match ended {
            Some(end) => {
                let position = self.servers[node].position();
                let fact = job.outcome(end, position);
                // Now and then an answer takes its time.
                if std::mem::take(&mut self.servers[node].answers_late) || self.chance(3) {
                    let delay = self.delay(10, 400);
                    self.tell_later(delay, fact);
                } else {
                    self.tell(fact);
                }
            }
            None => {
                let delay = self.delay(2, 6);
                self.later(delay, move |world| world.work(job));
            }
        }
    }

    /// The I/O thread ends. An acknowledging replica tells its source first; returns until when that takes.
    fn leave_source(&mut self, node: usize) -> Duration {
        let server = &self.servers[node];
        let hears = |source: usize| {
            let reaches = self.reaches(Some(node), source);
            reaches && !(self.servers[source].up && self.servers[source].frozen)
        };
        let is_left = server.fetching == Fetching::Yes && self.semi_sync && !server.is_mysql;
        let is_heard = server.source.is_none_or(hears);
        let until = if is_left && !is_heard { self.now + GOODBYE } else { self.now };
        let server = &mut self.servers[node];
        server.fetching = Fetching::No;
        server.on_the_way.clear();
        server.goodbye_until = until;
        until
    }

    /// The sessions whose commits nobody acknowledges are killed: what they wrote stays there, and they are told nothing.
    fn end_unacknowledged(&mut self, node: usize) {
        self.waiting.retain(|commit| commit.server != node);
        let server = &mut self.servers[node];
        server.killed.extend(server.unacknowledged.drain(..));
    }

    /// One statement of an order. `Some` when it has ended.
    fn stage(&mut self, node: usize, job: &mut Job) -> Option<Result<(), String>> {
        let (semi_sync, now) = (self.semi_sync, self.now);
        let server = &self.servers[node];
        let is_waiting =
            self.waiting.iter().any(|commit| commit.server == node && commit.life == server.life);
        let commits_wait = is_waiting || server.is_mysql && !server.unacknowledged.is_empty();
        let server = &mut self.servers[node];
        let stage = job.stage;
        match &job.action.errand {
            Errand::Demote { for_good } => match stage {
                0 if commits_wait => {
                    if now >= job.give_up.saturating_sub(kill_before_end(*for_good, job.action.within)) {
                        self.end_unacknowledged(node);
                    }
                    return None;
                }
                0 => {
                    server.read_only = true;
                    server.waits &= server.is_mysql;
                    let for_good = *for_good;
                    let had_event = self.servers[node].event == Has::Enabled && self.has_events(node);
                    job.leaves_events = had_event && for_good && self.servers[node].has_slow_events;
                    match (self.begin_to_stop_events(node, true), had_event) {
                        _ if job.leaves_events => return Some(Ok(())),
                        (_, false) => return Some(Ok(())),
                        (true, true) => {}
                        // A failover does not wait for the disk.
                        (false, true) if for_good => {}
                        // Nothing is disabled of which the disk does not know.
                        (false, true) => return Some(Err("the disk is full".into())),
                    }
                }
                _ => {
                    self.stop_events(node);
                    return Some(Ok(()));
                }
            },
            Errand::Promote { reach } => match stage {
                0 if reach.as_ref().is_some_and(|reach| !server.position().contains(reach).unwrap()) => {
                    if server.fetching == Fetching::Yes || !server.received.is_empty() {
                        job.unconnected = None;
                    } else if now.saturating_sub(*job.unconnected.get_or_insert(now)) >= UNCONNECTED_MAX {
                        return Some(Err("it does not receive".into()));
                    }
                    return None;
                }
                1 => {
                    self.leave_source(node);
                }
                2 if !server.received.is_empty() => {
                    // The SQL thread runs on, or does nothing.
                    return None;
                }
                3 => {
                    server.stop_threads();
                    server.source = None;
                    server.follows_outside = false;
                    server.waits = semi_sync;
                }
                4 => {
                    server.read_only = false;
                    let term = job.action.term;
                    self.became_writable(node, term, job.process);
                    return Some(Ok(()));
                }
                _ => {}
            },
            Errand::Follow { source } => match stage {
                0 => {
                    server.read_only = true;
                    server.waits &= server.is_mysql;
                    let runs = server.fetching != Fetching::No || server.applies;
                    if server.source == Some(usize::from(source.0)) && runs {
                        // What it has received must not be thrown away.
                        server.start_threads();
                        job.stage = 2;
                    }
                    let had_event = self.has_events(node) && self.servers[node].event == Has::Enabled;
                    job.leaves_events = had_event && self.servers[node].has_slow_events;
                    if had_event && !job.leaves_events {
                        self.begin_to_stop_events(node, false);
                        self.stop_events(node);
                    }
                }
                1 => {
                    self.leave_source(node);
                    self.servers[node].stop_threads();
                }
                2 => server.follow(usize::from(source.0)),
                _ if !server.error.is_empty() => return Some(Err(server.error.clone())),
                _ if !server.fetch_error.is_empty() => return Some(Err(server.fetch_error.clone())),
                _ if server.is_shut_out => return Some(Err("Access denied".into())),
                _ if server.fetching == Fetching::Yes => return Some(Ok(())),
                _ => return None,
            },
            Errand::Reconnect { .. } => match stage {
                0 if !server.applies => return Some(Err("its SQL thread is stopped".into())),
                // Two statements.
                0 if server.is_mysql => {
                    self.leave_source(node);
                }
                1 if server.is_mysql => server.fetching = Fetching::Connecting,
                0 => {
                    // One statement: whatever becomes of this order, the thread is started again.
                    let (life, until) = (server.life, self.leave_source(node));
                    self.later(until.saturating_sub(self.now), move |world| {
                        let server = &mut world.servers[node];
                        let is_stopped = server.fetching == Fetching::No && server.goodbye_until == until;
                        if server.up && server.life == life && server.source.is_some() && is_stopped {
                            server.fetching = Fetching::Connecting;
                        }
                    });
                }
                _ if server.fetching == Fetching::Yes => return Some(Ok(())),
                _ => return None,
            },
            Errand::Part => match stage {
                0 if !server.applies => return Some(Err("its SQL thread is stopped".into())),
                0 => {
                    self.leave_source(node);
                }
                _ => return Some(Ok(())),
            },
            Errand::StopWaiting => {
                server.waits = false;
                return Some(Ok(()));
            }
            Errand::StopEvents => {
                let had_event = server.event == Has::Enabled;
                job.leaves_events = had_event && server.has_slow_events;
                if had_event && !job.leaves_events {
                    self.begin_to_stop_events(node, false);
                    self.stop_events(node);
                }
                return Some(Ok(()));
            }
            Errand::RunEvents { has_replaced } => {
                let done = self.run_events(node, *has_replaced, &mut job.events_left)?;
                return Some(done.map(|count| job.events_count = count));
            }
        }
        job.stage += 1;
        None
    }
}

/// How long before its end an order to become read only kills the sessions whose commits nobody acknowledges.
fn kill_before_end(for_good: bool, within: Duration) -> Duration {
    if for_good { within.saturating_sub(COMMITS_MAX) } else { within / 2 }
}

/// An order that is being carried out.
struct Job {
    action: replication::Action,
    process: u64,
    life: u64,
    give_up: Duration,
    stage: u8,
    /// Since when it has had to receive something and has not been connected.
    unconnected: Option<Duration>,
    /// The events that it is to enable, and how many it has.
    events_left: Left,
    events_count: usize,
    /// It has not stopped all events.
    leaves_events: bool,
}

impl Job {
    /// Another was decided on since.
    fn is_overtaken(&self, newest: Term) -> bool {
        let can_be = matches!(self.action.errand, Errand::Promote { .. } | Errand::RunEvents { .. });
        can_be && self.action.term < newest
    }

    /// `position`: where the server stands.
    fn outcome(self, end: Result<(), String>, position: Position) -> Fact {
        let replication::Action { node, term, errand, .. } = self.action;
        let (left, count) = (self.events_left, self.events_count);
        let events_left = self.leaves_events.then(|| "it takes too long".to_owned());
        let end = match (errand, end) {
            (Errand::Demote { .. }, Ok(())) => End::Demoted { position, events_left },
            (Errand::Demote { .. }, Err(why)) => End::DemoteFailed { why },
            (Errand::Promote { .. }, Ok(())) => {
                return Fact::Outcome(Outcome::BarrierPassed { node, term });
            }
            (Errand::Promote { .. }, Err(why)) => {
                return Fact::Outcome(Outcome::BarrierFailed { node, term, why });
            }
            (Errand::Follow { .. }, Ok(())) => End::Following { sessions_ended: 0, events_left },
            (Errand::Follow { .. }, Err(why)) => End::FollowFailed { why },
            (Errand::Reconnect { .. }, Ok(())) => End::Reconnected { receives: true },
            (Errand::Reconnect { .. }, Err(why)) if why == TOO_LONG => End::Reconnected { receives: false },
            (Errand::Reconnect { .. }, Err(why)) => End::ReconnectFailed { why },
            (Errand::Part, Ok(())) => End::Parted,
            (Errand::Part, Err(why)) => End::PartFailed { why },
            (Errand::StopWaiting, end) => End::StoppedWaiting { failed: end.err() },
            (Errand::StopEvents, Ok(())) => End::EventsStopped { events_left },
            (Errand::StopEvents, Err(why)) => End::EventsStopped { events_left: Some(why) },
            (Errand::RunEvents { .. }, Ok(())) => End::EventsRun { count },
            (Errand::RunEvents { .. }, Err(why)) => End::EventsFailed { why, left },
        };
        Fact::Outcome(replication::Outcome { node, term, end }.into())
    }
}
