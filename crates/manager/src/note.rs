//! What the tasks beside the cycle tell it.

use topology::NodeId;
use topology::action::Sentence;
use topology::fact::Fact;
use topology::time::Now;

use crate::advice::Topic;
use crate::reading::Reading;

#[derive(Debug)]
pub(crate) enum Note {
    Fact(Fact),
    /// A sentence for the journal.
    Say(Sentence),
    /// Advice to an operator about a node; `None` when it does not apply any more.
    Advice(NodeId, Topic, Option<String>),
    /// A status report, and when it was asked for.
    Reading(NodeId, Box<Reading>, Now),
}
