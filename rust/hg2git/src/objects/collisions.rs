//! The search for SHA-1 collision attacks, and the choice of objects to search.
//!
//! An object is written once, even if many revisions have it. So one of two contents with the same
//! SHA-1 would be lost silently. Both carry traces of the attack, which git looks for in all that
//! it receives. Small exports search every object. Large ones search the objects whose id is known
//! from this export or from the store (`docs/decisions/sha1.rst`).
//!
//! Knows neither the source of contents nor how they are written.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use gitpack::{ObjectKind, Oid};
use hashbrown::HashSet;
use revlog::Node;
use sha1lanes::{Message, collides};

use crate::objects::storeids::StoreIds;
use crate::read::files::FileId;

/// Shortest attack, in bytes: two differing blocks of SHA-1.
const SHORTEST_ATTACK: usize = 128;

/// An object or text with traces of a SHA-1 collision attack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attack {
    what: &'static str,
    id: String,
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} carries a SHA-1 collision attack", self.what, self.id)
    }
}

/// Searches messages for attacks, on any thread.
#[derive(Debug)]
pub(crate) enum CollisionCheck {
    /// All messages.
    Each,
    /// Messages whose id is known.
    Known(Known),
}

/// The known ids.
#[derive(Debug)]
pub(crate) struct Known {
    met: Mutex<MetIds>,
    store: StoreIds,
    /// File revisions whose node more than one path has.
    shared: HashSet<FileId>,
}

impl CollisionCheck {
    /// A check that searches objects whose id was met before or is in `store`, and the texts of
    /// `shared` files, whose nodes more than one path has.
    pub fn of_known(store: StoreIds, shared: HashSet<FileId>) -> Self {
        Self::Known(Known { met: Mutex::default(), store, shared })
    }

    /// Checks an object that is about to be written, or left out because its id is known. `message`
    /// has its header.
    ///
    /// # Errors
    ///
    /// [`Attack`] if another object may have the id.
    pub fn object(&self, kind: ObjectKind, oid: Oid, message: Message<'_>) -> Result<(), Attack> {
        if message.body.len() < SHORTEST_ATTACK || !self.is_in_scope(oid) {
            return Ok(());
        }
        Self::any_object(kind, oid, message)
    }

    /// Checks an object of a kind that is always searched.
    ///
    /// # Errors
    ///
    /// As [`Self::object`].
    pub fn any_object(kind: ObjectKind, oid: Oid, message: Message<'_>) -> Result<(), Attack> {
        search(message).map_err(|()| Attack { what: kind.name(), id: oid.to_string() })
    }

    /// Checks a file revision. `message` is its text behind its parents.
    ///
    /// # Errors
    ///
    /// [`Attack`] if another text may have the node.
    pub fn text(&self, file: FileId, node: Node, message: Message<'_>) -> Result<(), Attack> {
        match self {
            Self::Known(known) if !known.shared.contains(&file) => Ok(()),
            _ => search(message).map_err(|()| Attack { what: "node", id: node.to_string() }),
        }
    }

    /// Returns whether to search the object with this id, and remembers the id.
    fn is_in_scope(&self, oid: Oid) -> bool {
        let Self::Known(Known { met, store, .. }) = self else { return true };
        let is_met = met.lock().unwrap_or_else(PoisonError::into_inner).meet(&oid);
        is_met || store.may_have(&oid)
    }
}

/// The ids met so far. A false match costs a needless search, no more.
#[derive(Debug, Default)]
struct MetIds {
    /// The first 8 bytes of the first ids.
    first: HashSet<u64>,
    /// Filters with the later ids. Each has room for four times as many as the one before.
    later: Vec<StoreIds>,
    /// Room left in the last of them.
    room: usize,
}

/// Most ids kept by their first 8 bytes: 9 MB.
const FIRST_IDS: usize = (1 << 20) / 8 * 7;
/// Room of the first filter with later ids: 8 MB.
const LATER_IDS: usize = 1 << 22;

impl MetIds {
    /// Remembers an id. Returns whether it, or perhaps another id, was met before.
    fn meet(&mut self, oid: &Oid) -> bool {
        let (beginning, _) = oid.as_bytes().split_first_chunk().expect("ids are longer");
        let beginning = u64::from_ne_bytes(*beginning);
        if self.first.len() < FIRST_IDS {
            return !self.first.insert(beginning);
        }
        if self.first.contains(&beginning) || self.later.iter().any(|ids| ids.may_have(oid)) {
            return true;
        }
        if self.room == 0 {
            self.room = LATER_IDS << (2 * self.later.len());
            self.later.push(StoreIds::with_room_for(self.room));
        }
        self.room -= 1;
        if let Some(last) = self.later.last_mut() {
            last.add(oid);
        }
        false
    }
}

fn search(message: Message<'_>) -> Result<(), ()> {
    let is_attack = message.body.len() >= SHORTEST_ATTACK && carries_attack(message);
    if is_attack { Err(()) } else { Ok(()) }
}

#[cfg(not(test))]
fn carries_attack(message: Message<'_>) -> bool {
    collides(message)
}

/// The search of tests, which also finds marked messages. No published attack is a git object, and
/// a new one takes 2^61 hashes.
#[cfg(test)]
fn carries_attack(message: Message<'_>) -> bool {
    let has = |mark: &str| memchr::memmem::find(message.body, mark.as_bytes()).is_some();
    let is_text = message.head.len() == 40;
    has(tests::ATTACK) || is_text && has(tests::ATTACK_ON_NODE) || collides(message)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Mark of a text that counts as an attack.
    pub const ATTACK: &str = "an attack, say tests";
    /// Mark of a text that counts as an attack on Mercurial's id.
    pub const ATTACK_ON_NODE: &str = "an attack on a node, say tests";

    const OID: Oid = Oid::EMPTY_BLOB;

    fn body(beginning: &str) -> Vec<u8> {
        [beginning.as_bytes(), &[b'x'; SHORTEST_ATTACK]].concat()
    }

    #[test]
    fn small_exports_find_an_attack_at_once() {
        let (attack, harmless) = (body(ATTACK), body("text"));
        let check = CollisionCheck::Each;
        let object = |body| check.object(ObjectKind::Tree, OID, Message { head: b"", body });
        assert_eq!(object(&harmless), Ok(()));
        let said = object(&attack).expect_err("an attack").to_string();
        assert_eq!(said, format!("tree {OID} carries a SHA-1 collision attack"));
        let text = |body| check.text(FileId(3), Node::NULL, Message { head: b"", body });
        assert_eq!(text(&harmless), Ok(()));
        let said = text(&attack).expect_err("an attack").to_string();
        assert_eq!(said, format!("node {} carries a SHA-1 collision attack", Node::NULL));
    }

    #[test]
    fn large_exports_find_an_attack_when_its_id_comes_again() {
        let attack = body(ATTACK);
        let check = CollisionCheck::of_known(StoreIds::default(), HashSet::new());
        let message = Message { head: b"", body: &attack };
        assert!(check.object(ObjectKind::Blob, OID, message).is_ok());
        assert!(check.object(ObjectKind::Blob, Oid::EMPTY_TREE, message).is_ok());
        assert!(check.object(ObjectKind::Blob, OID, message).is_err());
        let oid = Oid::from_bytes([1; 20]);
        assert!(CollisionCheck::any_object(ObjectKind::Commit, oid, message).is_err());
    }

    #[test]
    fn large_exports_find_an_attack_on_an_id_of_the_store() {
        let attack = body(ATTACK);
        let check = CollisionCheck::of_known(StoreIds::of([OID]), HashSet::new());
        let message = Message { head: b"", body: &attack };
        assert!(check.object(ObjectKind::Blob, OID, message).is_err());
        assert!(check.object(ObjectKind::Blob, Oid::EMPTY_TREE, message).is_ok());
    }

    #[test]
    fn large_exports_search_texts_whose_node_two_paths_have() {
        let attack = body(ATTACK);
        let shared = HashSet::from_iter([FileId(7)]);
        let check = CollisionCheck::of_known(StoreIds::default(), shared);
        let message = Message { head: b"", body: &attack };
        assert!(check.text(FileId(6), Node::NULL, message).is_ok());
        assert!(check.text(FileId(7), Node::NULL, message).is_err());
    }

    #[test]
    fn no_id_that_was_met_is_forgotten() {
        let oid = |number: usize| {
            let mut bytes = [3; 20];
            for (at, chunk) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let odd = 0x9E37_79B9_7F4A_7C15 + 2 * at as u64;
                *chunk = (number as u64).wrapping_mul(odd).swap_bytes().to_ne_bytes();
            }
            Oid::from_bytes(bytes)
        };
        let mut met = MetIds::default();
        let count = FIRST_IDS + 100_000;
        let taken = (0..count).filter(|number| met.meet(&oid(*number))).count();
        assert!(taken < 1000, "{taken}");
        assert_eq!((met.first.len(), met.later.len()), (FIRST_IDS, 1));
        assert!((0..count).step_by(101).all(|number| met.meet(&oid(number))));
        assert!(met.meet(&oid(count - 1)));
    }

    #[test]
    fn what_is_too_short_for_an_attack_is_not_searched() {
        let body = &body(ATTACK)[..SHORTEST_ATTACK - 1];
        let message = Message { head: b"", body };
        assert!(CollisionCheck::Each.object(ObjectKind::Blob, OID, message).is_ok());
        assert!(CollisionCheck::Each.text(FileId(0), Node::NULL, message).is_ok());
    }
}
