//! Values that were used lately, of so many bytes together.

use std::hash::Hash;

use hashbrown::HashMap;

/// Keeps what was asked for in two generations: one that is not asked for while the younger fills is
/// dropped with the older.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    young_bytes: usize,
    most_bytes: usize,
}

impl<K: Copy + Eq + Hash, V: Clone> Recent<K, V> {
    /// Keeps values of about `most_bytes` together, and the last one.
    pub fn new(most_bytes: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), young_bytes: 0, most_bytes }
    }

    /// The value of `key`, if it is there.
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
        let mut recent = Recent::new(100);
        for number in 0..1000 {
            recent.put(number, number, 10);
            assert_eq!(recent.get(&number), Some(number));
            assert_eq!(recent.get(&0), Some(0));
            assert!(recent.young.len() + recent.old.len() <= 12);
        }
        assert_eq!(recent.get(&900), None);
    }
}
