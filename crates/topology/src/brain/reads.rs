//! Facts from the traffic on the port for reads. They concern lanes of their own; what they say of a node counts as from any traffic.

use super::Brain;
use crate::fact::Fact;

impl Brain {
    /// Handles such a fact. One that only a writer's lane can cause has no meaning here.
    pub(super) fn reads_saw(&mut self, fact: Fact) {
        match fact {
            Fact::TrafficLost { node, epoch, how, .. } => {
                self.traffic_lost(node, self.readers.is_of_now(node, epoch), &how);
            }
            Fact::TrafficRefused { node, epoch, errno, .. } => {
                self.traffic_refused(node, self.readers.is_of_now(node, epoch), errno);
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
}
