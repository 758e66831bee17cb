//! A map that drops entries which were not used for a long time. It stores the state of recorded connections, since a log does not show
//! when they end.

use std::collections::HashMap;
use std::hash::Hash;

/// Holds at most `2 * half_max` entries; the `half_max` most recently used ones are always present.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half_max: usize,
}

impl<K: Hash + Eq, V> Recent<K, V> {
    pub(crate) fn new(half_max: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), half_max }
    }

    pub(crate) fn get(&mut self, key: K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(&key) {
            self.insert(key, value);
        }
        self.young.get_mut(&key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.half_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays() {
        let mut recent = Recent::new(2);
        for key in 0..10 {
            recent.insert(key, key);
            assert_eq!(recent.get(0).copied(), Some(0), "at {key}");
        }
        assert_eq!(recent.get(3), None);
        assert!(recent.young.len() + recent.old.len() <= 4);
    }
}
