//! What the traffic of the port for reads saw. It is about lanes of its own; of the node it says what any traffic says.

use super::Brain;
use crate::fact::Fact;

impl Brain {
    /// Such a fact; one that only a lane of the writer has means nothing here.
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
