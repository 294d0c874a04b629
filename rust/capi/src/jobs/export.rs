//! Jobs `export` and `metadata`: from changesets to packs and maps, and the metadata commit.

use std::iter;
use std::path::Path;

use dialect::Authors;
use gitpack::Readers;
use gitpack::staged::Owner;
use hg2git::{
    Access, AdoptedFile, EarlierTrees, Error, ImportedStore, MetadataFiles, OtherStore, Phase,
    ProgressFn, PublishedCommit, PublishedFiles, PublishedMetadata, Request, Selection,
};
use parallel::Directory;
use revlog::Node;

use super::{Call, directory, encoding, nodes, optional_directory};
use crate::failure::Failure;
use crate::message::Fields;

/// Converts selected changesets that are not in the map to packs, and a segment of each map.
///
/// The final names of the packs, separated by LF, are written to `PREFIX.pending` in the map's
/// directory. Then the packs get these names, and then the segments theirs. The names of the
/// metadata's files begin with `PREFIX-metadata`. Phases: 0 changesets read, 1 manifests read, 2
/// file revisions, 3 changesets written.
pub(super) fn export(mut message: Fields<'_>, call: &Call) -> Result<Vec<u8>, Failure> {
    let report = with_dialect!(message, D => with_request(message, call, hg2git::export::<D>))?;
    let displaced: Vec<u8> = (report.displaced.iter())
        .flat_map(|found| [*found.later.as_bytes(), *found.earlier.as_bytes()])
        .flatten()
        .collect();
    let answer = Fields::default()
        .with("changesets", report.changesets)
        .with("objects", report.objects)
        .with("pack_bytes", report.pack_bytes)
        .with("adopted", report.adopted)
        .with("exact", report.exact)
        .with("displaced", &displaced[..])
        .with_some("foreign", report.foreign.as_ref().map(Node::as_bytes))
        .with_some("unfit", report.unfit.as_ref().map(|unfit| unfit.node.as_bytes()))
        .with_some("misfit", report.unfit.map(|unfit| unfit.misfit as u32))
        .with_some("published", report.published.as_ref().map(published));
    Ok(answer.encode())
}

/// Makes the metadata commit of all changesets in the map, in a pack of its own. Converts nothing.
///
/// Ignores the selection of the request. Writes the name of the pack to `PREFIX.pending`, as
/// [`export`] does. Phases: 0 changesets read.
pub(super) fn metadata_commit(mut message: Fields<'_>, call: &Call) -> Result<Vec<u8>, Failure> {
    let made =
        with_dialect!(message, D => with_request(message, call, hg2git::metadata_commit::<D>))?;
    let mut answer = Fields::default();
    if let Some((made, covered)) = &made {
        answer = answer.with("commit", commit(made)).with("covered", *covered);
    }
    Ok(answer.encode())
}

fn published(files: &PublishedFiles) -> Fields<'_> {
    let PublishedFiles { pack, aside_pack, segments, metadata } = files;
    Fields::default()
        .with_some("pack", pack.as_deref())
        .with_some("aside_pack", aside_pack.as_deref())
        .with("segments", &segments[..])
        .with_some("metadata", metadata.as_ref().map(published_metadata))
}

fn published_metadata(
    PublishedMetadata { segments, commit: made }: &PublishedMetadata,
) -> Fields<'_> {
    Fields::default().with("segments", &segments[..]).with_some("commit", made.as_ref().map(commit))
}

fn commit(PublishedCommit { oid, pack }: &PublishedCommit) -> Fields<'_> {
    Fields::default().with("oid", oid.as_bytes()).with("pack", pack.as_str())
}

/// Runs `job` with the request in `message`.
fn with_request<R: Send>(
    mut message: Fields<'_>,
    call: &Call,
    job: impl FnOnce(&Request<'_>, &mut ProgressFn<'_>) -> hg2git::Result<R> + Send,
) -> Result<R, Failure> {
    let (packs, map) = (directory(&mut message, "packs")?, directory(&mut message, "map")?);
    let adopted: Option<Fields<'_>> = message.take("adopted")?;
    let adopted = adopted.map(Adopted::of).transpose()?;
    let other: Option<Fields<'_>> = message.take("other")?;
    let other = other.map(Other::of).transpose()?;
    let imported: Option<Fields<'_>> = message.take("imported")?;
    let imported = imported.map(Imported::of).transpose()?;
    let mut metadata: Option<Fields<'_>> = message.take("metadata")?;
    let mut owner: Fields<'_> = message.take("owner")?;
    let mut selection: Fields<'_> = message.take("selection")?;
    let request = Request {
        store: message.take("store")?,
        indexes: call.indexes.clone(),
        encoding: encoding(message.take("encoding")?)?,
        tree_manifests: message.take("tree_manifests")?,
        packs: &packs,
        replaced_packs: message.take("replaced_packs")?,
        map: &map,
        prefix: message.take("prefix")?,
        readers: Readers::of_mode(message.take("file_mode")?)
            .owned_by(Owner { user: owner.take("user")?, group: owner.take("group")? }),
        segments: message.take("segments")?,
        base: message.take("base")?,
        metadata: metadata.as_mut().map(metadata_files).transpose()?,
        unmapped: message.take("unmapped")?,
        selection: Selection {
            len: selection.take("len")?,
            tip: selection.take::<Option<_>>("tip")?.unwrap_or(Node::NULL),
            excluded: nodes(selection.take("excluded")?),
            known_below: selection.take("known_below")?,
        },
        check_texts: message.take("check_texts")?,
        check_each_manifest: message.take("check_each_manifest")?,
        threads: message.take("threads")?,
        memory_bytes: message.take("memory_bytes")?,
        level: message.take("level")?,
        authors: authors(message.take::<Option<&[u8]>>("authors")?.unwrap_or_default()),
        adopted: adopted.as_ref().map(Adopted::file),
        earlier: if message.take("has_exact")? {
            EarlierTrees::Exact
        } else {
            EarlierTrees::OfManifests
        },
        imported: imported.as_ref().map(Imported::store),
        other: other.as_ref().map(Other::store),
    };
    for read in [message, owner, selection].into_iter().chain(metadata) {
        read.end()?;
    }
    call.supervise(|progress| {
        let mut watch = |phase: Phase, done, total| progress.set(phase as u32, done, total);
        job(&request, &mut watch).map_err(Failure::from)
    })
}

/// Pairs of users, each followed by LF.
fn authors(text: &[u8]) -> Authors {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
    iter::from_fn(|| Some((lines.next()?, lines.next()?))).collect()
}

fn metadata_files(message: &mut Fields<'_>) -> Result<MetadataFiles, Failure> {
    Ok(MetadataFiles {
        segments: message.take("segments")?,
        base: message.take("base")?,
        commit_of_first: message.take("commit_of_first")?,
    })
}

/// The file of adopted commits, with its directory.
struct Adopted<'a> {
    directory: Directory,
    name: &'a str,
    access: Access,
    is_judged: bool,
}

impl<'a> Adopted<'a> {
    fn of(mut message: Fields<'a>) -> Result<Self, Failure> {
        let adopted = Self {
            directory: directory(&mut message, "directory")?,
            name: message.take("name")?,
            access: if message.take("is_mapped")? { Access::Mapped } else { Access::Read },
            is_judged: message.take("is_judged")?,
        };
        message.end()?;
        Ok(adopted)
    }

    fn file(&self) -> AdoptedFile<'_> {
        let Self { directory, name, access, is_judged } = self;
        AdoptedFile { directory, name, access: *access, is_judged: *is_judged }
    }
}

/// Imported commits, with the directories of their map and packs.
struct Imported {
    map: Directory,
    segments: Vec<String>,
    unmapped: Vec<String>,
    packs: Option<Directory>,
}

impl Imported {
    fn of(mut message: Fields<'_>) -> Result<Self, Failure> {
        let imported = Self {
            map: directory(&mut message, "map")?,
            segments: message.take("segments")?,
            unmapped: message.take("unmapped")?,
            packs: optional_directory(&mut message, "packs")?,
        };
        message.end()?;
        Ok(imported)
    }

    fn store(&self) -> ImportedStore<'_> {
        let Self { map, segments, unmapped, packs } = self;
        let (segments, unmapped) = (segments.clone(), unmapped.clone());
        ImportedStore { map, segments, unmapped, packs: packs.as_ref() }
    }
}

/// The store of another dialect, with the directory of its packs.
struct Other {
    directory: Directory,
    packs: Vec<String>,
    segments: Vec<String>,
}

impl Other {
    fn of(mut message: Fields<'_>) -> Result<Self, Failure> {
        let other = Self {
            directory: directory(&mut message, "directory")?,
            packs: message.take("packs")?,
            segments: message.take("segments")?,
        };
        message.end()?;
        Ok(other)
    }

    fn store(&self) -> OtherStore<'_> {
        let Self { directory, packs, segments } = self;
        OtherStore { directory, packs: packs.clone(), segments: segments.clone() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Store(revlog::Error::Io { path, source })
            | Error::Io { path, source }
            | Error::Write(gitpack::staged::Error { path, source }) => Self::io(path, source),
            Error::Store(revlog::Error::Corrupt { path, .. }) => Self::corrupt(error.to_string())
                .hint(format!("see 'hg verify'; file {}", path.display())),
            Error::Store(revlog::Error::Unsupported { .. }) => Self::unsupported(error.to_string()),
            Error::Map { path, what } => corrupt_map(path, what),
            Error::Adopted { path, what } => Self::corrupt(format!("adopted commits: {what}"))
                .at(path)
                .hint("restore it from a backup"),
            Error::Imported { path, what } => Self::corrupt(format!("imported commits: {what}"))
                .at(path)
                .hint("remove all of '.hg/amalgam' but 'adopted', and pull from git again"),
            Error::Unfit(_) => Self::bug(error.to_string()),
            Error::Moved => Self::moved(error.to_string()),
            Error::Cancelled => Self::cancelled(),
        }
    }
}

fn corrupt_map(path: &Path, what: &str) -> Failure {
    Failure::corrupt(format!("oid map: {what}")).at(path).hint("run 'hg git::export --rebuild'")
}
