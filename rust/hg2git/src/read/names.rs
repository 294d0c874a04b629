//! Interned byte strings, numbered.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The number of a string in its [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NameId(pub u32);

/// Bytes of a string that [`Names::window`] reads at once.
pub(crate) const WINDOW: usize = 32;

/// Strings by number and numbers by string.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    /// End of each string, which begins at the end of the one before.
    ends: Vec<usize>,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Names {
    /// The number of `name`. A new name gets one.
    ///
    /// # Panics
    ///
    /// After 2^32 different strings.
    pub fn number(&mut self, name: &[u8]) -> NameId {
        let hash = self.hasher.hash_one(name);
        let (bytes, ends) = (&self.bytes, &self.ends);
        let found = self.numbers.find(hash, |&number| string(bytes, ends, number) == name);
        if let Some(&number) = found {
            return NameId(number);
        }
        let number = u32::try_from(self.ends.len()).expect("fewer than 2^32 names");
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
        let (bytes, ends, hasher) = (&self.bytes, &self.ends, &self.hasher);
        let rehash = |&number: &u32| hasher.hash_one(string(bytes, ends, number));
        self.numbers.insert_unique(hash, number, rehash);
        NameId(number)
    }

    /// The number of `name`, if it has one.
    pub fn find(&self, name: &[u8]) -> Option<NameId> {
        let hash = self.hasher.hash_one(name);
        let is_named = |&number: &u32| string(&self.bytes, &self.ends, number) == name;
        self.numbers.find(hash, is_named).map(|&number| NameId(number))
    }

    /// All strings, by number.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|number| {
            let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[number]]
        })
    }

    /// The first bytes of the string with this number, with the following strings; `None` near the
    /// end.
    pub fn window(&self, NameId(number): NameId) -> Option<&[u8; WINDOW]> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        self.bytes[start..].first_chunk()
    }

    /// The string with this number.
    pub fn get(&self, NameId(number): NameId) -> &[u8] {
        string(&self.bytes, &self.ends, number)
    }
}

fn string<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_one_number() {
        let mut names = Names::default();
        let numbers: Vec<_> =
            [&b"a"[..], b"", b"b", b"a", b""].map(|name| names.number(name)).into();
        assert_eq!(numbers, [0, 1, 2, 0, 1].map(NameId));
        assert_eq!(names.get(NameId(2)), b"b");
        assert_eq!([&b"b"[..], b"c"].map(|name| names.find(name)), [Some(NameId(2)), None]);
        assert!(names.iter().eq([&b"a"[..], b"", b"b"]));
    }
}
