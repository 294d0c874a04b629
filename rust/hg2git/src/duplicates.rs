//! Contents that come again, and whether they only pretend to.
//!
//! An object is written once, whatever number of revisions has it; so two contents that were made
//! to have one SHA-1 would lose one of them silently. A content whose id was met before is
//! therefore searched for traces of such an attack, as git does with everything it receives:
//! `docs/decisions/sha1.rst`.

use std::sync::{Mutex, PoisonError};

use gitpack::Oid;
use hashbrown::HashSet;
use sha1lanes::{Message, collides};

/// No attack fits in fewer bytes: it takes two blocks of SHA-1 that differ.
const SHORTEST_ATTACK: usize = 128;

/// The beginnings of the ids met so far, by any thread. Two that begin alike cost a needless
/// search, no more.
#[derive(Debug, Default)]
pub(crate) struct Met(Mutex<HashSet<u64>>);

impl Met {
    /// Notes that `message` has this id. `false` if another content may have it, too.
    pub fn is_sound(&self, oid: Oid, message: Message<'_>) -> bool {
        if message.body.len() < SHORTEST_ATTACK {
            return true;
        }
        let (beginning, _) = oid.as_bytes().split_first_chunk().expect("ids are longer");
        let beginning = u64::from_ne_bytes(*beginning);
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(beginning);
        is_new || !collides(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contents_are_sound() {
        let met = Met::default();
        let body = [7; 500];
        let message = Message { head: b"", body: &body };
        assert!(met.is_sound(Oid::EMPTY_BLOB, message));
        assert!(met.is_sound(Oid::EMPTY_BLOB, message));
    }
}
