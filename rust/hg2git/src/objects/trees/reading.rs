//! The entries of stored trees, in either form.

use gitpack::Oid;
use gitpack::tree::Mode;

use super::{Lead, Purpose, TreeForm};

/// git's modes, in the order of [`TreeForm::leads`].
const MODES: [Mode; 4] = [Mode::DIRECTORY, Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK];

/// An entry as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredEntry<'c> {
    /// git's mode, in either form.
    pub mode: Mode,
    pub name: &'c [u8],
    /// A tree, a blob, or the node of a file.
    pub id: Oid,
}

/// The entries of a tree's content; `None` if it does not have this form.
pub(crate) fn stored_entries<'c>(
    form: &'static TreeForm,
    content: &'c [u8],
) -> Option<Vec<StoredEntry<'c>>> {
    let mut entries = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let gitlink = (form.purpose == Purpose::Git).then_some((&Lead::GITLINK, Mode::GITLINK));
        let leads = form.leads.iter().zip(MODES).chain(gitlink);
        let mut found = leads.filter_map(|(lead, mode)| {
            let (text, _) = lead.text.split_at(lead.len);
            Some((mode, rest.strip_prefix(text)?))
        });
        let (mode, after) = found.next()?;
        let (name, after) = after.split_at_checked(memchr::memchr(0, after)?)?;
        let (id, after) = after.split_first()?.1.split_first_chunk()?;
        entries.push(StoredEntry { mode, name, id: Oid::from_bytes(*id) });
        rest = after;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metadata::MANIFEST_TREES;

    #[test]
    fn entries_are_read_in_both_forms() {
        let id = Oid::from_bytes([7; 20]);
        let entry = |mode, name| StoredEntry { mode, name, id };
        let content = |leads: [&[u8]; 4]| {
            let names = [&b"dir\0"[..], b"file\0", b"program\0", b"with space\0"];
            let entries = leads.into_iter().zip(names);
            entries.flat_map(|(lead, name)| [lead, name, &[7; 20]].concat()).collect::<Vec<_>>()
        };
        let expected = [
            entry(Mode::DIRECTORY, &b"dir"[..]),
            entry(Mode::FILE, b"file"),
            entry(Mode::EXECUTABLE, b"program"),
            entry(Mode::SYMLINK, b"with space"),
        ];
        let git = content([b"40000 ", b"100644 ", b"100755 ", b"120000 "]);
        let aside = content([b"40000 _", b"160644 _", b"160755 _", b"160000 _"]);
        assert_eq!(stored_entries(&TreeForm::GIT, &git).as_deref(), Some(&expected[..]));
        assert_eq!(stored_entries(&MANIFEST_TREES, &aside).as_deref(), Some(&expected[..]));
        assert_eq!(stored_entries(&MANIFEST_TREES, &git), None);
        assert_eq!(stored_entries(&TreeForm::GIT, &git[..git.len() - 1]), None);
        assert_eq!(stored_entries(&TreeForm::GIT, b"160000 sub\0"), None);
        assert_eq!(stored_entries(&TreeForm::GIT, b"").as_deref(), Some(&[][..]));
    }

    proptest! {
        #[test]
        fn any_content_is_read_or_refused(content: Vec<u8>) {
            let lead = [&b"100644 "[..], &content].concat();
            let _ = (stored_entries(&TreeForm::GIT, &content), stored_entries(&TreeForm::GIT, &lead));
        }
    }
}
