//! Which node of a configuration is which of the one before, when the list of nodes changes: a [`NodeId`] is a place in that list.

use crate::NodeId;
use crate::settings::NodeSettings;

/// The places of the nodes before and after a change of the list. A node is the same one if its name and its address are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Of each place before: the place after, or `None` for a node that was removed.
    after: Vec<Option<NodeId>>,
    /// The number of nodes after.
    count: usize,
}

impl Places {
    /// From one list to another.
    pub fn between(before: &[NodeSettings], after: &[NodeSettings]) -> Self {
        let place = |node: &NodeSettings| {
            let is_same = |other: &NodeSettings| (&other.name, &other.address) == (&node.name, &node.address);
            // A list has at most 255 nodes.
            (0..=u8::MAX).zip(after).find(|(_, other)| is_same(other)).map(|(place, _)| NodeId(place))
        };
        Self { after: before.iter().map(place).collect(), count: after.len() }
    }

    /// The place of a node after the change; `None` if it was removed.
    pub fn of(&self, before: NodeId) -> Option<NodeId> {
        self.after.get(usize::from(before.0)).copied().flatten()
    }

    /// Every node has the place that it had, and none was added.
    pub fn is_same(&self) -> bool {
        self.after.len() == self.count
            && (0..=u8::MAX).zip(&self.after).all(|(place, after)| *after == Some(NodeId(place)))
    }

    /// The places, before the change, of the nodes that were removed.
    pub fn removed(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..=u8::MAX).map(NodeId).zip(&self.after).filter(|(_, after)| after.is_none()).map(|(id, _)| id)
    }

    /// How many nodes were added.
    pub fn added(&self) -> usize {
        self.count - self.after.iter().flatten().count()
    }

    /// One value for each node, in the order after the change. `new` makes that of a node that was added.
    pub fn arrange<T>(&self, before: Vec<T>, mut new: impl FnMut(NodeId) -> T) -> Vec<T> {
        let mut kept: Vec<Option<T>> = (0..self.count).map(|_| None).collect();
        for (value, after) in before.into_iter().zip(&self.after) {
            if let Some(slot) = after.and_then(|after| kept.get_mut(usize::from(after.0))) {
                *slot = Some(value);
            }
        }
        let places = (0..=u8::MAX).map(NodeId);
        kept.into_iter().zip(places).map(|(value, id)| value.unwrap_or_else(|| new(id))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<NodeSettings> {
        let node =
            |name: &&str| NodeSettings { name: (*name).into(), address: format!("{name}:1"), priority: 0 };
        names.iter().map(node).collect()
    }

    #[test]
    fn values_go_with_their_nodes() {
        let places = Places::between(&list(&["a", "b", "c"]), &list(&["c", "d", "a"]));
        assert!(!places.is_same());
        assert_eq!([0, 1, 2].map(|id| places.of(NodeId(id))), [Some(NodeId(2)), None, Some(NodeId(0))]);
        assert_eq!((places.removed().collect::<Vec<_>>(), places.added()), (vec![NodeId(1)], 1));
        assert_eq!(places.arrange(vec!["a", "b", "c"], |_| "new"), ["c", "new", "a"]);
    }

    #[test]
    fn another_address_is_another_node() {
        let before = list(&["a"]);
        let mut after = before.clone();
        assert!(Places::between(&before, &after).is_same());
        after[0].address = "b:1".into();
        let places = Places::between(&before, &after);
        assert_eq!((places.of(NodeId(0)), places.added()), (None, 1));
    }
}
