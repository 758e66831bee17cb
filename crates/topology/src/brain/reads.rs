//! What the traffic of the port for reads saw. It is about lanes of its own; of the node it says what any traffic says.

use super::Brain;
use super::signs::{ALARM_GAP, OF_ITSELF, failure};
use crate::NodeId;
use crate::fact::{ConnectFailure, Fact};
use crate::finding::Serves;

impl Brain {
    /// Such a fact; one that only a lane of the writer has means nothing here.
    pub(super) fn reads_saw(&mut self, fact: Fact) {
        match fact {
            Fact::TrafficLost { node, epoch, how, alarm } => {
                let why = format!("traffic lost its connection, {}", failure(&how));
                match how {
                    ConnectFailure::Rejected { errno, .. } if !OF_ITSELF.contains(&errno) => {
                        self.readers.alarmed(node, epoch, alarm, self.core.now);
                        self.core.ask_probe(node);
                    }
                    ConnectFailure::Rejected { .. } => self.reads_alarm(node, epoch, alarm, why, false),
                    _ => self.reads_alarm(node, epoch, alarm, why, true),
                }
            }
            Fact::TrafficRefused { node, epoch, errno, alarm } => {
                let why = format!("traffic was refused with error {errno}");
                self.reads_alarm(node, epoch, alarm, why, false);
            }
            Fact::StatementLost { node, epoch, digest, text } if self.readers.may_have_run(node, epoch) => {
                let now = self.core.now;
                self.core.node_mut(node).lost.add(now, digest, text);
            }
            Fact::UnknownAccount { .. } => self.accounts_due.wanted = true,
            Fact::TablesChanged => self.tables_due.wanted = true,
            _ => {}
        }
    }

    /// The node is asked at once, and takes nothing new until it answers; but a burst asks once.
    fn reads_alarm(&mut self, id: NodeId, epoch: u64, alarm: u64, why: String, wants_link: bool) {
        let is_of_now = self.readers.alarmed(id, epoch, alarm, self.core.now);
        let core = &mut self.core;
        let node = core.node(id);
        if node.verdict.serves == Serves::No {
            return;
        }
        let known = wants_link && node.shut_out >= core.settings.refusals_max;
        let late = known || node.doubt_cleared.is_some_and(|at| core.now.saturating_sub(at) < ALARM_GAP);
        if !is_of_now || late {
            core.ask_probe(id);
            return;
        }
        core.doubt(id, why, wants_link);
        if wants_link {
            core.ask_confirm(id);
        } else {
            core.ask_probe(id);
        }
    }
}
