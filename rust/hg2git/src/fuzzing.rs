//! Private parsers, for the crate `fuzztargets`.

use dialect::cinnabar::{commit, note};
use gitpack::Oid;
use revlog::{Changeset, Node};

use crate::metadata::MANIFEST_TREES;
use crate::objects::blobs::pointer_of;
use crate::objects::trees::{TreeForm, stored_entries};

/// Makes the commit and the note of a changeset with this `text`.
///
/// # Panics
///
/// If the commit cannot be read back.
pub fn commit_and_note(changeset: &Changeset<'_>, text: &[u8]) {
    let mut content = Vec::new();
    commit::write(&mut content, Oid::EMPTY_TREE, [Oid::EMPTY_BLOB], changeset);
    let note = note(Node::NULL, changeset, text, &content);
    assert!(note.is_some(), "our own commits can be read back");
}

/// Reads an LFS pointer, and reads git-lfs's form of it again.
///
/// # Panics
///
/// If the two readings differ.
pub fn pointer(text: &[u8]) {
    if let Some(pointer) = pointer_of(text).filter(|pointer| !pointer.is_empty()) {
        assert!(pointer.len() <= 200);
        assert_eq!(pointer_of(&pointer).as_ref(), Some(&pointer));
    }
}

/// Reads the entries of a tree in both forms.
///
/// # Panics
///
/// If the entries do not fit the content.
pub fn tree(content: &[u8]) {
    for form in [&TreeForm::GIT, &MANIFEST_TREES] {
        if let Some(entries) = stored_entries(form, content) {
            let shortest = b"40000 \0".len() + Oid::EMPTY_TREE.as_bytes().len();
            let names: usize = entries.iter().map(|entry| entry.name.len()).sum();
            assert!(names + shortest * entries.len() <= content.len());
            assert!(entries.iter().all(|entry| !entry.name.contains(&0)));
        }
    }
}
