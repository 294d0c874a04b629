//! Private parsers, for `fuzztargets` alone.

use gitpack::Oid;
use revlog::{Changeset, Node};

use crate::dialect::cinnabar::{commit, note};
use crate::objects::blobs::pointer_of;

/// Makes the commit and the note of a changeset, whose text is `text`.
///
/// # Panics
///
/// If the commit cannot be read back.
pub fn commit_and_note(changeset: &Changeset<'_>, text: &[u8]) {
    let mut content = Vec::new();
    commit::write(&mut content, Oid::EMPTY_TREE, &[Oid::EMPTY_BLOB], changeset);
    let note = note::note(Node::NULL, changeset, text, &content);
    assert!(note.is_some(), "our own commits can be read back");
}

/// Reads a pointer to content in LFS; one that was made of it is read alike.
///
/// # Panics
///
/// If it is not.
pub fn pointer(text: &[u8]) {
    if let Some(pointer) = pointer_of(text).filter(|pointer| !pointer.is_empty()) {
        assert!(pointer.len() <= 200);
        assert_eq!(pointer_of(&pointer).as_ref(), Some(&pointer));
    }
}
