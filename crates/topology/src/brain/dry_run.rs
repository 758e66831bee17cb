//! What an order would come to: it is given to a copy of the brain, and what the copy decides is told and not done. So a dry run cannot
//! decide otherwise than the order itself, and cannot change anything.

use super::Brain;
use crate::action::Action;
use crate::fact::{Fact, Outcome};
use crate::order::{Order, OrderDone, OrderId, OrderReply};
use crate::time::{Now, seconds};

/// Ids of real orders begin with 1.
const ID: OrderId = OrderId(0);

impl Brain {
    /// The answer that the order would get now, as far as that depends on neither the nodes nor the traffic; of what it would have to wait for,
    /// how it would begin. A refusal is the one that the order would get.
    pub fn dry_run(&self, now: Now, order: Order) -> OrderReply {
        let wait = match &order {
            Order::Switchover { budget, .. } | Order::Drain { budget, .. } => seconds(*budget),
            Order::Undrain { .. } | Order::SetSessionsMax { .. } => seconds(Now::ZERO),
        };
        let mut twin = self.clone();
        // What is due by now has nothing to do with the order.
        twin.on(now, Fact::Tick);
        let mut actions = twin.on(now, Fact::Order { id: ID, order });
        let written: Vec<Outcome> = actions.iter().filter_map(written).collect();
        for outcome in written {
            actions.extend(twin.on(now, Fact::Outcome(outcome)));
        }
        let mut begun = Vec::new();
        for action in actions {
            match action {
                Action::Answer { id: ID, reply } => {
                    return reply.map(|done| {
                        self.told(format!("the answer would be: {}", done.sentence), done.is_changed)
                    });
                }
                Action::Say(sentence) => begun.push(sentence.text),
                _ => {}
            }
        }
        let begun = begun.join("; ");
        Ok(self.told(format!("it would begin with: {begun}; what runs would have {wait} to end"), true))
    }

    fn told(&self, what: String, is_changed: bool) -> OrderDone {
        let sentence = format!("dry run, nothing was changed; {what}");
        let (term, writer) = (self.core.term, self.core.writer);
        OrderDone { sentence, term, writer, took: Now::ZERO, is_changed }
    }
}

/// What comes of writing something to disk.
fn written(action: &Action) -> Option<Outcome> {
    match action {
        Action::Persist { number, .. } => Some(Outcome::Persisted { number: *number }),
        _ => None,
    }
}
