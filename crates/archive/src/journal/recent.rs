//! A cache of what was used last.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

/// A cache that keeps at least what was used last, up to a total weight, and at most twice as much.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    limit: usize,
    weight: usize,
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, weight: 0, young: HashMap::new(), old: HashMap::new() }
    }

    /// Returns what is cached under a key.
    pub(super) fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if let Some((key, (value, weight))) = self.old.remove_entry(key) {
            self.insert(key, value, weight);
        }
        self.young.get_mut(key).map(|(value, _)| value)
    }

    /// Caches a value. Weights are at least 1.
    pub(super) fn insert(&mut self, key: K, value: V, weight: usize) {
        if self.weight >= self.limit {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        self.weight = self.weight.saturating_add(weight.max(1));
        self.young.insert(key, (value, weight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays() {
        let mut recent = Recent::new(10);
        recent.insert(0, "used", 1);
        for n in 1..1000 {
            recent.insert(n, "once", 2);
            assert!(recent.get(&0).is_some());
            assert!(recent.young.len() + recent.old.len() < 20);
        }
        assert!(recent.get(&1).is_none());
        assert!(recent.get(&999).is_some());
    }
}
