//! The choice of objects that are searched for SHA-1 collision attacks.
//!
//! An object is written once, however many revisions have it. So if two contents were made to have
//! one SHA-1, one of them would be lost silently. Both carry traces of the attack, which git looks
//! for in everything that it receives. Small exports search every object. Large ones search those
//! whose id is known from this export or from the store (`docs/decisions/sha1.rst`).
//!
//! Knows neither where contents come from nor how they are written.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use gitpack::{ObjectKind, Oid};
use hashbrown::HashSet;
use revlog::Node;
use sha1lanes::{Message, collides};

use crate::objects::storeids::StoreIds;
use crate::read::files::FileId;

/// No attack fits in fewer bytes: it takes two blocks of SHA-1 that differ.
const SHORTEST_ATTACK: usize = 128;

/// An object or text that was made to have the SHA-1 of another one.
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
    /// Those whose id is known.
    Known(Known),
}

/// What is known of ids.
#[derive(Debug)]
pub(crate) struct Known {
    met: Mutex<MetIds>,
    store: StoreIds,
    /// File revisions whose node is that of more than one path.
    shared: HashSet<FileId>,
}

impl CollisionCheck {
    /// Searches objects that come again or have an id of `store`, and the texts of `shared` files,
    /// whose nodes more than one path has.
    pub fn of_known(store: StoreIds, shared: HashSet<FileId>) -> Self {
        Self::Known(Known { met: Mutex::default(), store, shared })
    }

    /// Passes an object, `message` with its header, that is about to be written, or that is left out
    /// because its id is there.
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

    /// The same for an object of a kind that is searched whatever its id.
    ///
    /// # Errors
    ///
    /// As [`Self::object`].
    pub fn any_object(kind: ObjectKind, oid: Oid, message: Message<'_>) -> Result<(), Attack> {
        search(message).map_err(|()| Attack { what: kind.name(), id: oid.to_string() })
    }

    /// Passes a file revision, `message` being its text behind its parents.
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

    /// Whether an object with this id is searched. The id is known from then on.
    fn is_in_scope(&self, oid: Oid) -> bool {
        let Self::Known(Known { met, store, .. }) = self else { return true };
        let is_met = met.lock().unwrap_or_else(PoisonError::into_inner).meet(&oid);
        is_met || store.may_have(&oid)
    }
}

/// The ids met so far. One that is taken for another costs a needless search, no more.
#[derive(Debug, Default)]
struct MetIds {
    /// The beginnings of the first ones.
    first: HashSet<u64>,
    /// Those after them, in sets of which each has room for four times as many as the one before.
    later: Vec<StoreIds>,
    /// For how many the last of those has room.
    room: usize,
}

/// So many ids are kept by their beginnings: 9 MB.
const FIRST_IDS: usize = (1 << 20) / 8 * 7;
/// The first set of later ids has room for so many: 8 MB.
const LATER_IDS: usize = 1 << 22;

impl MetIds {
    /// Whether this id, or perhaps another one, was met before. It is met from then on.
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

/// Also in tests, messages with a mark: no published attack is one of git's objects, and to make one
/// takes 2^61 hashes.
#[cfg(test)]
fn carries_attack(message: Message<'_>) -> bool {
    let has = |mark: &str| memchr::memmem::find(message.body, mark.as_bytes()).is_some();
    let is_text = message.head.len() == 40;
    has(tests::ATTACK) || is_text && has(tests::ATTACK_ON_NODE) || collides(message)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A text that has this counts as an attack.
    pub const ATTACK: &str = "an attack, say tests";
    /// A text that has this counts as an attack on the id that Mercurial gives it.
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
