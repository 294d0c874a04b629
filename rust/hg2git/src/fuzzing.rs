//! Private parsers, for `fuzztargets` alone.

use gitpack::Oid;
use revlog::{Changeset, Node};
use sha1lanes::{Message, digest_one};

use crate::dialect::cinnabar::state::MetadataState;
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

/// Reads a state that has `body` before its checksum; one that is read is written alike.
///
/// # Panics
///
/// If it is not.
pub fn state(body: &[u8]) {
    let sum = digest_one(Message { head: &[], body });
    let bytes = [body, &sum].concat();
    if let Ok(state) = MetadataState::from_bytes(&bytes) {
        assert_eq!(MetadataState::from_bytes(&state.to_bytes()).as_ref(), Ok(&state));
    }
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
