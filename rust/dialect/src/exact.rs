//! Extras with the parts of commits that a dialect cannot express, so that each commit comes back.
//!
//! [`COMMIT`] has the commit object as a difference from the changeset. Its value names the id of
//! the commit, and counts only if the rebuilt commit has this id. So a changeset that was amended
//! or rebased, and a forged extra, are exported as if the extra was not there. [`TREE`] has entries
//! of trees that a manifest does not have, such as submodules. Format:
//! `docs/formats/exact.rst`. Knows no dialect: a dialect says which commits need the extra, and
//! which commits a changeset may stand for.

mod commit;
mod difference;
mod escape;
mod fsck;
mod octopus;
pub mod tree;

pub use commit::{CommitFields, commit, commit_value, has_commit};
pub use escape::{escape, unescape};
pub use fsck::judge;
pub use octopus::{MOST_LINKED, Octopus, linked_parents};

use gitpack::Oid;
use revlog::Node;

/// Key of the extra with a commit object.
pub const COMMIT: &[u8] = b"git.commit";
/// Key of the extra with tree entries.
pub const TREE: &[u8] = b"git.tree";

/// Id that a value names, in lower case.
fn named_oid(digits: &[u8]) -> Option<Oid> {
    let node = Node::from_hex(digits).filter(|_| !digits.iter().any(u8::is_ascii_uppercase))?;
    Some(Oid::from_bytes(*node.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_form() {
        assert_eq!(named_oid(&[b'a'; 40]), Some(Oid::from_bytes([0xaa; 20])));
        assert_eq!(named_oid(&[b'A'; 40]), None);
        assert_eq!(named_oid(&[b'a'; 39]), None);
    }
}
