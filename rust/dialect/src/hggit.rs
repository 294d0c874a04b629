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
mod judge;
mod metadata;
mod paths;
mod submodules;
mod subrepositories;
mod texts;

use revlog::Changeset;

use self::import::ParsedCommit;
pub use self::submodules::{SpecialFile, Submodule, SubrepoFiles, SubrepoSources};
use crate::{
    Authors, ChangesetHistory, ChangesetInput, CommitInput, Dialect, FileChange, Files,
    ImportRules, ImportSettings, InheritedFile, JudgedCommit, ManifestEdits, MetadataKind,
    Unreadable,
};

/// The dialect.
#[derive(Debug, Default)]
pub struct HgGit {
    authors: Authors,
}

impl Dialect for HgGit {
    const NAME: &'static str = "hggit";
    const METADATA: Option<MetadataKind> = None;
    const HAS_UNIQUE_COMMITS: bool = false;
    const READS_COPIES: bool = true;
    const EDITS_TREES: bool = true;
    const INHERITED: Option<InheritedFile> =
        Some(InheritedFile { name: paths::MODULES, sources: [paths::SUB, paths::STATE] });
    const IMPORT: Option<ImportRules> = Some(ImportRules {
        judge: judge::judge_length,
        texts: |content, settings| ParsedCommit::of(content).texts(settings),
        accepts: import::accepts,
        write_commit: |input, history, out| commit::write(out, input, history, &Authors::default()),
        difference: judge::difference,
        gitmodules: submodules::gitmodules,
        subrepo_files: submodules::subrepo_files,
    });

    fn set_authors(&mut self, authors: Authors) {
        self.authors = authors;
    }

    fn write_commit(
        &mut self,
        input: &CommitInput<'_>,
        history: &dyn ChangesetHistory,
        out: &mut Vec<u8>,
    ) -> Result<bool, Unreadable> {
        commit::write(out, input, history, &self.authors)
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
        judge::judge(content)
    }

    fn stands_for(changeset: &Changeset<'_>, content: &[u8]) -> bool {
        let made = ParsedCommit::of(content).texts(ImportSettings::default());
        (&*made.user, i128::from(made.seconds), made.west_seconds, &*made.description)
            == (changeset.user, changeset.seconds, changeset.offset_seconds, changeset.description)
    }

    fn changeset(_content: &[u8], _made: &ChangesetInput<'_>) -> Option<Vec<u8>> {
        None
    }
}
