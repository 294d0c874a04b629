//! Commit objects.
//!
//! Each changeset has one commit: tree, parents in stored order, author, committer, the description
//! verbatim. A commit contains neither the branch nor other extras, so two changesets may have the
//! same bytes. `duplicates` makes them differ.

use gitpack::Oid;
use parallel::hex::hex;
use revlog::Changeset;

use super::identity::{Date, push_committer, push_ident};

/// Appends the tree and parent lines of a commit.
pub fn push_tree_and_parents(out: &mut Vec<u8>, tree: Oid, parents: impl IntoIterator<Item = Oid>) {
    let mut push_line = |name: &[u8], oid: Oid| {
        out.extend_from_slice(name);
        out.extend_from_slice(&hex(oid.as_bytes()));
        out.push(b'\n');
    };
    push_line(b"tree ", tree);
    for parent in parents {
        push_line(b"parent ", parent);
    }
}

/// Replaces `out` by the content of the commit of `changeset`.
pub fn write(
    out: &mut Vec<u8>,
    tree: Oid,
    parents: impl IntoIterator<Item = Oid>,
    changeset: &Changeset<'_>,
) {
    out.clear();
    push_tree_and_parents(out, tree, parents);
    let date = Date { seconds: changeset.seconds, offset_seconds: changeset.offset_seconds };
    out.extend_from_slice(b"author ");
    push_ident(out, changeset.user, date);
    out.extend_from_slice(b"\ncommitter ");
    let committer = changeset.extras().filter(|(key, _)| *key == b"committer").last();
    push_committer(out, committer.map(|(_, value)| value), changeset.user, date);
    out.extend_from_slice(b"\n\n");
    out.extend_from_slice(changeset.description);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_changeset_of_the_tiny_vector() {
        let text = b"b371960ec604e7eed7420846f7b1171091f92cab\nAlice Example <alice@example.org>\n\
            1000000000 0\na.txt\n\nfirst";
        let changeset = Changeset::parse(text).expect("well-formed");
        let mut out = Vec::new();
        write(&mut out, Oid::EMPTY_TREE, [], &changeset);
        let expected = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
            author Alice Example <alice@example.org> 1000000000 +0000\n\
            committer Alice Example <alice@example.org> 1000000000 +0000\n\nfirst";
        assert_eq!(String::from_utf8(out).expect("ascii"), expected);
    }
}
