//! Facts from the proxies. Those from the traffic on the port for reads concern lanes of their own; what they say of a node counts as from any
//! traffic.

use super::Brain;
use crate::fact::ProxyFact;
use crate::{NodeId, Origin};

impl Brain {
    /// Handles such a fact. On the port for reads, one that only a writer's lane can cause has no meaning.
    pub(super) fn proxy_saw(&mut self, origin: Origin, fact: ProxyFact) {
        let (fact, of_reads) = match fact {
            ProxyFact::Reads(fact) => (*fact, true),
            fact => (fact, false),
        };
        let (now, has_events) = (self.core.now, self.core.settings.events);
        match fact {
            ProxyFact::TrafficLost { node, epoch, how, alarm } => {
                let is_of_now = self.note_alarm(node, epoch, alarm, of_reads);
                if has_events {
                    self.traffic_lost(node, is_of_now, &how);
                }
            }
            ProxyFact::TrafficRefused { node, epoch, errno, alarm } => {
                let is_of_now = self.note_alarm(node, epoch, alarm, of_reads);
                if has_events {
                    self.traffic_refused(node, is_of_now, errno);
                }
            }
            ProxyFact::StatementLost { node, epoch, digest, text } => {
                let may_have_run = if of_reads {
                    self.readers.may_have_run(node, epoch)
                } else {
                    // The lane is often shut (one epoch more) by the time when its sessions report their losses.
                    epoch + 1 >= self.core.node(node).epoch
                };
                if may_have_run {
                    self.core.node_mut(node).lost.add(now, digest, text);
                }
            }
            ProxyFact::TablesChanged => self.tables_due.wanted = true,
            ProxyFact::UnknownAccount { .. } => self.accounts_due.wanted = true,
            ProxyFact::PositionWanted => {
                if let Some(primary) = self.core.writer.filter(|id| self.core.node(*id).linked) {
                    self.core.ask_probe(primary);
                }
            }
            ProxyFact::CommitsWait { node, commits } if !of_reads => {
                self.core.node_mut(node).pulse.commits_wait(now, origin, &commits);
            }
            ProxyFact::Cut { node, epoch } if !of_reads => self.core.links_cut(origin, node, epoch),
            ProxyFact::Quiesced { node, epoch, term, version } if !of_reads => {
                self.core.quiesced(origin, node, epoch, term, version);
            }
            ProxyFact::CommitsWait { .. }
            | ProxyFact::Cut { .. }
            | ProxyFact::Quiesced { .. }
            | ProxyFact::Reads(_) => {}
        }
    }

    /// Notes an alarm, so that the node's next status answers it, whether or not it leads to a doubt. Returns whether it is about the lane that
    /// the traffic takes now, and that is not shut.
    fn note_alarm(&mut self, id: NodeId, epoch: u64, alarm: u64, of_reads: bool) -> bool {
        let now = self.core.now;
        if of_reads {
            self.readers.alarmed(id, epoch, alarm, now);
            self.readers.is_of_now(id, epoch)
        } else {
            self.core.node_mut(id).alarmed(epoch, alarm, now);
            self.is_of_now(id, epoch)
        }
    }
}
