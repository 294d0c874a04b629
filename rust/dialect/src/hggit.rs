//! The dialect of hg-git.
//!
//! The rules are those of hg-git 1.2.0 with Mercurial 7.1.2 and dulwich 0.22.8.
//! `docs/decisions/hggit.rst` has the cases in which they are not followed.

mod commit;
mod delta;
mod difflib;
mod gitconfig;
mod identity;
mod import;
mod metadata;
mod paths;
mod submodules;
mod subrepositories;
mod texts;

use self::import::ParsedCommit;
pub use self::submodules::{SpecialFile, Submodule, SubrepoFiles, SubrepoSources};
use crate::{
    ChangesetHistory, ChangesetInput, CommitInput, Dialect, FileChange, Files, ImportRules,
    InheritedFile, JudgedCommit, MOST_COMMIT_BYTES, ManifestEdits, MetadataKind, Reason,
    Unreadable,
};

/// The dialect.
#[derive(Debug, Default)]
pub struct HgGit;

impl Dialect for HgGit {
    const NAME: &'static str = "hggit";
    const METADATA: Option<MetadataKind> = None;
    const HAS_UNIQUE_COMMITS: bool = false;
    const READS_COPIES: bool = true;
    const EDITS_TREES: bool = true;
    const INHERITED: Option<InheritedFile> =
        Some(InheritedFile { name: paths::MODULES, sources: [paths::SUB, paths::STATE] });
    const IMPORT: Option<ImportRules> = Some(ImportRules {
        texts: |content, settings| ParsedCommit::of(content).texts(settings),
        accepts: import::accepts,
        gitmodules: submodules::gitmodules,
        subrepo_files: submodules::subrepo_files,
    });

    fn write_commit(
        &mut self,
        input: &CommitInput<'_>,
        history: &dyn ChangesetHistory,
        out: &mut Vec<u8>,
    ) -> Result<bool, Unreadable> {
        commit::write(out, input, history)
    }

    fn is_edited(path: &[u8]) -> bool {
        paths::is_edited(path)
    }

    fn edit_tree(
        &mut self,
        changes: &[FileChange<'_>],
        before: Option<&dyn Files>,
        files: &dyn Files,
    ) -> Result<ManifestEdits, Unreadable> {
        subrepositories::edits(changes, before, files)
    }

    fn judge(content: &[u8]) -> JudgedCommit<'_> {
        let ParsedCommit { tree, parents, .. } = ParsedCommit::of(content);
        let is_long = content.len() > MOST_COMMIT_BYTES;
        let refused = is_long.then_some((Reason::CommitSize, &b""[..]));
        JudgedCommit { tree, parents, refused }
    }

    fn changeset(_content: &[u8], _made: &ChangesetInput<'_>) -> Option<Vec<u8>> {
        None
    }
}
