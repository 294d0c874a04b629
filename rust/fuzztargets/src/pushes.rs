//! Output of `git cat-file` for pushed commits and trees.

use std::convert::Infallible;
use std::io;

use dialect::exact::tree::{HiddenFile, TreeStore, TreeValue, edited};
use dialect::hggit::SubrepoSources;
use dialect::{
    ChangesetInput, Cinnabar, Decoder, Dialect, ExactCommit, HgGit, ImportSettings, ImportedExtras,
    JudgedCommit, Reason, exact,
};
use git2hg::judge::tree::{self, TreeRules};
use git2hg::{PipedDecoder, survey};
use gitpack::Oid;
use revlog::{Changeset, Node};

use crate::scratch::cut;

/// A commit object. An accepted one has a tree and at most two parents.
pub(crate) fn commit(input: &[u8]) {
    let judged = Cinnabar::judge(input);
    if judged.refused.is_none() {
        assert!(judged.tree.is_some());
        assert!(judged.parents.len() <= 2);
    }
}

/// A changeset with extras, and a commit object that comes back by its extra.
pub(crate) fn exact_commit(input: &[u8]) {
    let (oid, tree) = (Oid::EMPTY_TREE, Oid::EMPTY_TREE);
    if let Ok(changeset) = Changeset::parse(input) {
        let _ = exact::commit(&changeset, (tree, &[]), |_, _| true, |_| oid);
    }
    let JudgedCommit { tree: Some(tree), parents, refused: None } = exact::judge(input) else {
        return;
    };
    let exact = Some(ExactCommit { oid, tree, parents: &parents, tree_value: None, octopus: None });
    let made = ChangesetInput { manifest: Node::NULL, branch: None, files: &[], exact };
    let text = Cinnabar::changeset(input, &made).expect("is accepted");
    let changeset = Changeset::parse(&text).expect("is made here");
    let back = exact::commit(&changeset, (tree, &parents), Cinnabar::stands_for, |_| oid);
    assert_eq!(back.is_some(), exact::has_commit(&changeset));
    assert!(back.is_none_or(|(_, content)| content == input));
}

/// A changeset with edits of trees, and a tree that is each tree of its first parent.
pub(crate) fn exact_tree(input: &[u8]) {
    let (text, content) = cut(input);
    let Ok(changeset) = Changeset::parse(text) else { return };
    let Some(value) = TreeValue::of(&changeset) else { return };
    let stored = value.stored().expect("is as short as it was");
    assert_eq!(
        changeset.extras().filter(|(key, _)| *key == exact::TREE).last(),
        Some((exact::TREE, &*stored))
    );
    let _ = edited(&mut OneTree(content), Some(value.root), &[], Some(&value.edits));
}

struct OneTree<'a>(&'a [u8]);

impl TreeStore for OneTree<'_> {
    type Error = Infallible;

    fn read(&mut self, _path: &[u8], _oid: Oid) -> Result<Vec<u8>, Infallible> {
        Ok(self.0.to_vec())
    }

    fn hidden(&mut self, path: &[u8]) -> Result<Option<HiddenFile>, Infallible> {
        Ok((path.first() == Some(&b'.')).then_some(HiddenFile(None)))
    }

    fn write(&mut self, _base: Option<Oid>, _content: Vec<u8>) -> Oid {
        Oid::from_bytes([1; 20])
    }
}

/// A commit object in hg-git's dialect. Its changeset stands for it, and comes back by its extra.
pub(crate) fn hggit_commit(input: &[u8]) {
    let rules = HgGit::IMPORT.expect("is there");
    let texts = (rules.texts)(input, ImportSettings::default());
    let text = |commit| {
        let extras = ImportedExtras::Own { commit, tree: None };
        texts.changeset(Node::NULL, &[], None, extras)
    };
    let plain = text(Some(&b""[..]));
    let changeset = Changeset::parse(&plain).expect("is made here");
    assert!(HgGit::stands_for(&changeset, input));
    let judged = HgGit::judge(input);
    assert!(judged.refused.is_some() || judged.tree.is_some());
    let JudgedCommit { tree: Some(tree), parents, refused: None } = exact::judge(input) else {
        return;
    };
    let oid = Oid::EMPTY_TREE;
    let value = exact::commit_value(oid, input, &changeset, (tree, &parents));
    let made = text(Some(&value));
    let changeset = Changeset::parse(&made).expect("is made here");
    let back = exact::commit(&changeset, (tree, &parents), HgGit::stands_for, |_| oid);
    assert_eq!(back.map(|(_, content)| content).as_deref(), Some(input));
}

/// A `.gitmodules`, and files of subrepositories.
pub(crate) fn submodules(input: &[u8]) {
    let rules = HgGit::IMPORT.expect("is there");
    let (modules, rest) = cut(input);
    let (sub, state) = cut(rest);
    let modules = (rules.gitmodules)(modules);
    let sources = SubrepoSources {
        modules: modules.as_deref(),
        sub,
        state,
        parent_state: Some(state),
        ..SubrepoSources::default()
    };
    let made = (rules.subrepo_files)(&sources);
    assert_eq!(made.hides_modules, modules.is_some());
}

/// Answers of a decoder.
pub(crate) fn decoder(input: &[u8]) {
    let decoder = PipedDecoder::new(io::sink(), input);
    while decoder.decode(b"x", b"y").is_some() {}
    let _ = decoder.check();
}

/// A tree object. Each finding names one of its entries.
pub(crate) fn tree(input: &[u8]) {
    let judged = tree::judge(input, TreeRules::default());
    for reason in Reason::ALL {
        let culprit = tree::culprit(input, reason, false, TreeRules::default());
        assert_eq!(judged.reasons.has(reason), culprit.is_some());
    }
    assert!(judged.directories.iter().all(|(name, _)| !name.contains(&0)));
}

/// The output of two `git cat-file`: commits, and trees for any request.
pub(crate) fn history(input: &[u8]) {
    let (commits, trees) = cut(input);
    let watch = |_| false;
    let all = [
        survey::<Cinnabar>(false, commits, io::sink(), trees, &watch),
        survey::<HgGit>(false, commits, io::sink(), trees, &watch),
        survey::<HgGit>(true, commits, io::sink(), trees, &watch),
    ];
    for found in all.into_iter().flatten() {
        let refused: u64 = found.findings().iter().map(|finding| finding.commits).sum();
        assert_eq!(found.refused().count() as u64, refused);
        assert!(refused <= found.commits());
    }
}
