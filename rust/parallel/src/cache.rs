//! Cache of recently used values, bounded in bytes.

use std::hash::Hash;

use hashbrown::HashMap;

/// Cache in two generations: values not used while the younger one fills are dropped with the older
/// one.
#[derive(Debug)]
pub struct Cache<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    young_bytes: usize,
    most_bytes: usize,
}

impl<K: Copy + Eq + Hash, V: Clone> Cache<K, V> {
    /// Keeps values of about `most_bytes` together, and the last one.
    #[must_use]
    pub fn new(most_bytes: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), young_bytes: 0, most_bytes }
    }

    /// Value of `key`, if it is cached.
    pub fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (value, bytes) = self.old.remove(key)?;
        self.put(*key, value.clone(), bytes);
        Some(value)
    }

    /// Adds a value of `bytes` bytes.
    pub fn put(&mut self, key: K, value: V, bytes: usize) {
        if self.young_bytes + bytes > self.most_bytes / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, (value, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays() {
        let mut recent = Cache::new(100);
        for number in 0..1000 {
            recent.put(number, number, 10);
            assert_eq!(recent.get(&number), Some(number));
            assert_eq!(recent.get(&0), Some(0));
            assert!(recent.young.len() + recent.old.len() <= 12);
        }
        assert_eq!(recent.get(&900), None);
    }
}
