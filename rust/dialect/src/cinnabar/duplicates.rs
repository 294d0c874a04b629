//! Duplicates: changesets that want the same commit, made different by line feeds.
//!
//! git-cinnabar's rule: a commit whose id is taken gets line feeds at its end, one by one, until
//! its id is free. A search from the start would cost n hashes for the n-th duplicate. Taken ids
//! stay taken for the rest of the run, so each search continues where an earlier one ended, with
//! the same result. Ids of earlier runs are searched once a run.

use std::collections::HashMap;

use gitpack::Oid;

/// Taken ids that searches have met, at most one for each duplicate.
///
/// The state of a run.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    /// For a taken id, the number of line feeds to the next id that may be free.
    steps: HashMap<Oid, usize>,
}

impl Duplicates {
    /// Appends the fewest line feeds to `payload` that give it a free id. Reserves and returns the
    /// id.
    ///
    /// Ids for which `is_taken` returns `true` are not free.
    pub fn place(
        &mut self,
        payload: &mut Vec<u8>,
        mut oid_of: impl FnMut(&[u8]) -> Oid,
        mut is_taken: impl FnMut(Oid) -> bool,
    ) -> Oid {
        let mut passed = Vec::new();
        let oid = loop {
            let oid = oid_of(payload);
            let step = match self.steps.get(&oid) {
                Some(&step) => step,
                None if is_taken(oid) => 1,
                None => break oid,
            };
            passed.push((oid, payload.len()));
            payload.resize(payload.len() + step, b'\n');
        };
        let next = payload.len() + 1;
        self.steps.extend(passed.into_iter().map(|(oid, len)| (oid, next - len)));
        oid
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use sha1lanes::{Message, digest_one};

    use super::*;

    fn oid_of(payload: &[u8]) -> Oid {
        Oid::from_bytes(digest_one(Message { head: &[], body: payload }))
    }

    fn named(base: u8, line_feeds: usize) -> Vec<u8> {
        [vec![b'a' + base], vec![b'\n'; line_feeds]].concat()
    }

    /// Places all payloads, and returns their lengths and the number of hashes.
    fn placed(wanted: impl IntoIterator<Item = Vec<u8>>, store: &[Oid]) -> (Vec<usize>, usize) {
        let mut taken: HashSet<Oid> = store.iter().copied().collect();
        let (mut duplicates, mut hashed, mut lens) = (Duplicates::default(), 0, Vec::new());
        for mut payload in wanted {
            let count = |payload: &[u8]| {
                hashed += 1;
                oid_of(payload)
            };
            let oid = duplicates.place(&mut payload, count, |oid| taken.contains(&oid));
            assert!(taken.insert(oid) && oid == oid_of(&payload));
            lens.push(payload.len());
        }
        (lens, hashed)
    }

    #[test]
    fn the_cost_of_many_duplicates_is_linear() {
        let (lens, hashed) = placed((0..2000).map(|_| named(0, 0)), &[]);
        assert_eq!(lens, (1..=2000).collect::<Vec<_>>());
        assert!(hashed <= 2 * 2000, "{hashed}");
    }

    #[test]
    fn duplicates_of_an_earlier_run_are_passed_over_once() {
        let store: Vec<_> = (0..1000).map(|more| oid_of(&named(0, more))).collect();
        let (lens, hashed) = placed((0..1000).map(|_| named(0, 0)), &store);
        assert_eq!(lens, (1001..=2000).collect::<Vec<_>>());
        assert!(hashed <= 1000 + 2 * 1000, "{hashed}");
    }

    #[test]
    fn line_feeds_of_their_own_do_not_make_it_dear() {
        // after the duplicates, each further commit wants the id of one of them
        let duplicates = (0..1000).map(|_| named(0, 0));
        let (lens, hashed) = placed(duplicates.chain((0..1000).map(|more| named(0, more))), &[]);
        assert_eq!(lens.len(), lens.iter().collect::<HashSet<_>>().len());
        assert!(hashed <= 10 * 2000, "{hashed}");
    }

    proptest! {
        #[test]
        fn ids_are_those_of_the_plain_rule(
            store in proptest::collection::vec((0..2_u8, 0..12_usize), 0..20),
            wanted in proptest::collection::vec((0..2_u8, 0..6_usize), 0..60),
        ) {
            let store: Vec<_> = store.into_iter().map(|(base, more)| named(base, more)).collect();
            let wanted: Vec<_> = wanted.into_iter().map(|(base, more)| named(base, more)).collect();
            let mut taken: HashSet<Vec<u8>> = store.iter().cloned().collect();
            let expected: Vec<_> = wanted.iter().map(|payload| {
                let mut payload = payload.clone();
                while !taken.insert(payload.clone()) {
                    payload.push(b'\n');
                }
                payload.len()
            }).collect();
            let store: Vec<_> = store.iter().map(|payload| oid_of(payload)).collect();
            prop_assert_eq!(placed(wanted, &store).0, expected);
        }
    }
}
