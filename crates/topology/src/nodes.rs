//! Which node is which, and what is kept of each. A [`NodeId`] is no place in a list: only the types here lead from an id to what is kept of its
//! node, and only [`Nodes::ids`] has the order of the configuration.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::NodeId;
use crate::belief::Belief;
use crate::settings::NodeSettings;

/// One value for each id that was ever given.
#[derive(Clone, Debug)]
pub(crate) struct ById<T>(Vec<T>);

impl<T: Clone + Default> ById<T> {
    /// For the first so many ids.
    pub fn new(nodes: usize) -> Self {
        Self(vec![T::default(); nodes])
    }
}

impl<T> ById<T> {
    /// Replaces the value of that id, or adds it for one that was just given.
    pub fn put(&mut self, id: NodeId, value: T) {
        match self.0.get_mut(usize::from(id.0)) {
            Some(known) => *known = value,
            None => self.0.push(value),
        }
    }

    /// Of all ids that were given, also of nodes that were removed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

impl<T> Index<NodeId> for ById<T> {
    type Output = T;

    fn index(&self, id: NodeId) -> &T {
        &self.0[usize::from(id.0)]
    }
}

impl<T> IndexMut<NodeId> for ById<T> {
    fn index_mut(&mut self, id: NodeId) -> &mut T {
        &mut self.0[usize::from(id.0)]
    }
}

/// The nodes of the configuration, in its order. What was believed of one that was removed is kept until it is added again.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    known: ById<Belief>,
    order: Arc<[NodeId]>,
}

impl Nodes {
    /// The first configuration's, whose ids are given in its order.
    pub fn new(beliefs: Vec<Belief>) -> Self {
        let order = (0..=u8::MAX).map(NodeId).take(beliefs.len()).collect();
        Self { known: ById(beliefs), order }
    }

    /// The ids of these nodes, with those that would be given to new ones. A node is the same one if its name and its address are the same.
    /// `None`: there are not so many ids.
    pub fn ids_of(&self, nodes: &[NodeSettings]) -> Option<Vec<NodeId>> {
        let mut new = self.known.0.len()..;
        let id = |node: &NodeSettings| {
            let is_it = |known: &Belief| known.name == node.name && known.address == node.address;
            let id = self.known.0.iter().position(is_it).or_else(|| new.next())?;
            u8::try_from(id).ok().map(NodeId)
        };
        nodes.iter().map(id).collect()
    }

    /// From now on these are the nodes, in this order.
    pub fn set_order(&mut self, order: Vec<NodeId>) {
        self.order = order.into();
    }

    /// What is believed from now on of a node that is being added.
    pub fn put(&mut self, id: NodeId, belief: Belief) {
        self.known.put(id, belief);
    }

    /// What is or was believed of the node with that id; `None` for an id that was never given.
    pub fn get(&self, id: NodeId) -> Option<&Belief> {
        self.known.0.get(usize::from(id.0))
    }

    /// Whether the configuration has the node.
    pub fn has(&self, id: NodeId) -> bool {
        self.order.contains(&id)
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// In the configuration's order. Does not borrow what is believed.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        let order = Arc::clone(&self.order);
        (0..order.len()).map(move |place| order[place])
    }

    /// In the configuration's order.
    pub fn iter(&self) -> impl Iterator<Item = &Belief> {
        self.order.iter().map(|id| &self.known[*id])
    }

    /// By their ids, also those of nodes that were removed.
    pub fn given(&self) -> impl Iterator<Item = (NodeId, &Belief)> {
        (0..=u8::MAX).map(NodeId).zip(&self.known.0)
    }

    /// In no order that has a meaning.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Belief> {
        let Self { known, order } = self;
        let given = (0..=u8::MAX).map(NodeId).zip(known.iter_mut());
        given.filter(|(id, _)| order.contains(id)).map(|(_, belief)| belief)
    }
}

impl Index<NodeId> for Nodes {
    type Output = Belief;

    fn index(&self, id: NodeId) -> &Belief {
        &self.known[id]
    }
}

impl IndexMut<NodeId> for Nodes {
    fn index_mut(&mut self, id: NodeId) -> &mut Belief {
        &mut self.known[id]
    }
}
