//! The conversion: `amalgam_export_run`.
//!
//! Over 350 lines: arguments of C are converted one by one.

use std::ffi::c_void;
use std::path::Path;

use gitpack::Readers;
use gitpack::staged::Owner;
use hg2git::{
    Access, AdoptedFile, Error, MetadataFiles, Phase, ProgressFn, PublishedCommit, PublishedFiles,
    PublishedMetadata, Report, Request, Selection, export, metadata_commit,
};
use parallel::Directory;
use revlog::{MappedIndexes, Node};

use crate::buffers::{self, Bytes};
use crate::changegroup::encoding;
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::report::{Progress, ReportFn, Reporter};
use crate::snapshot::Mapped;

/// What `check_texts` is if each manifest is to be compared.
const CHECK_EACH: u32 = 2;

/// What to convert, from where, to where. All bytes are lent for the call.
#[repr(C)]
#[derive(Debug)]
pub struct ExportRequest {
    /// The directory `.hg/store`.
    pub store: Bytes,
    /// The index of the changelog, if it is mapped: then it is not read. Null otherwise.
    pub changelog: *const Mapped,
    /// The same of the manifest, that of the root if each directory has one.
    pub manifest: *const Mapped,
    /// How names are encoded in it: 0 escaped, 1 with long names hashed, 2 with leading dots
    /// escaped as well, 3 plain.
    pub encoding: u32,
    /// Whether each directory has a manifest of its own: 0 or 1.
    pub tree_manifests: u32,
    /// A descriptor of the directory `objects/pack` of the git repository.
    pub packs: i32,
    /// A descriptor of the directory of the oid map.
    pub map: i32,
    /// What messages call the first.
    pub packs_path: Bytes,
    /// What messages call the second.
    pub map_path: Bytes,
    /// First part of the names of the map's files, ASCII.
    pub prefix: Bytes,
    /// Permission bits: who may read a file with these may read what is written, whatever the umask;
    /// 0 leaves it to the umask.
    pub file_mode: u32,
    /// The user to whom files are given; all ones leaves them with who runs this.
    pub user: u32,
    /// The same of the group.
    pub group: u32,
    /// File names of the map's segments, oldest first.
    pub segments: *const Bytes,
    /// How many there are.
    pub segments_len: usize,
    /// How many of them, the first, belong to a base: built on, and left as they are.
    pub base_len: usize,
    /// The same of the metadata's map.
    pub metadata_segments: *const Bytes,
    /// How many there are.
    pub metadata_segments_len: usize,
    /// How many of them belong to a base.
    pub metadata_base_len: usize,
    /// File names of segments that are read instead of mapped, of either map.
    pub unmapped: *const Bytes,
    /// How many there are.
    pub unmapped_len: usize,
    /// Whether to make the metadata commit at once, if there are no segments: 0 or 1.
    pub commit_of_first: u32,
    /// How many changesets the caller saw.
    pub len: u32,
    /// All selected changesets before this revision are in the map.
    pub known_below: u32,
    /// Node of the last changeset that the caller saw, 20 bytes; not read if `len` is 0.
    pub tip: Bytes,
    /// Nodes that must not be converted, nor must their descendants; 20 bytes each.
    pub excluded: Bytes,
    /// Which texts to compare with their nodes. 0: none. 1: each, but of large manifests so many
    /// that each is, or one that was made from it. 2: each.
    pub check_texts: u32,
    /// Threads that work; 0 is one for each core.
    pub threads: u32,
    /// Compression level of objects, 1 to 12.
    pub level: u32,
    /// Bound of the anonymous memory, in bytes, but for what grows with the history alone.
    pub memory_bytes: u64,
    /// Whether to make no metadata: 0 or 1.
    pub without_metadata: u32,
    /// A descriptor of the directory with adopted commits; not used without a name.
    pub adopted: i32,
    /// What messages call that directory.
    pub adopted_path: Bytes,
    /// Name of the file with them, empty if there are none.
    pub adopted_name: Bytes,
    /// Whether that file is read instead of mapped: 0 or 1.
    pub adopted_unmapped: u32,
    /// Whether to tell which adopted commit is not the dialect's: 0 or 1.
    pub adopted_judged: u32,
}

/// What an export did.
#[repr(C)]
#[derive(Debug)]
pub struct ExportReport {
    /// Changesets converted.
    pub changesets: u64,
    /// Objects written.
    pub objects: u64,
    /// Bytes of the packs.
    pub pack_bytes: u64,
    /// Length of `pack`, 0 if there was nothing to convert.
    pub pack_len: u32,
    /// Length of `segments`.
    pub segments_len: u32,
    /// Name of the pack, without a suffix.
    pub pack: [u8; 64],
    /// File names of the segments that now make the map, oldest first, each followed by LF.
    pub segments: [u8; 8192],
    /// Length of `aside_pack`, 0 if there is none.
    pub aside_pack_len: u32,
    /// Name of the pack of what is only for git-cinnabar: without one, that is in `pack`.
    pub aside_pack: [u8; 64],
    /// Length of `metadata_segments`, 0 if there was nothing to do: then all names are empty.
    pub metadata_segments_len: u32,
    /// As `segments`, of the metadata's map.
    pub metadata_segments: [u8; 8192],
    /// Length of `metadata_pack`, 0 if the metadata commit was not made.
    pub metadata_pack_len: u32,
    /// Name of the pack of the metadata commit, without a suffix.
    pub metadata_pack: [u8; 64],
    /// Oid of the metadata commit.
    pub metadata_commit: [u8; 20],
    /// How many pairs are in `displaced`. If there are any, nothing was written.
    pub displaced_len: u32,
    /// Pairs of nodes, not necessarily all: a changeset of the map, and an earlier one that should
    /// have got its commit.
    pub displaced: [u8; 2560],
    /// How many of the changesets have adopted commits.
    pub adopted: u64,
    /// Node of the first changeset whose commit is not the dialect's, if that was asked; else zeros.
    pub foreign: [u8; 20],
    /// Node of a changeset whose adopted commit is not one of it. Then nothing was written.
    pub unfit: [u8; 20],
    /// What is wrong with that commit. 0: nothing. 1: its tree. 2: its parents. 3: its form. 4: another
    /// changeset has it.
    pub misfit: u32,
}

/// A metadata commit that was made.
#[repr(C)]
#[derive(Debug)]
pub struct MetadataReport {
    /// Changesets that it covers, 0 if there are none: then nothing was made.
    pub covered: u64,
    /// Length of `pack`.
    pub pack_len: u32,
    /// Name of its pack, without a suffix.
    pub pack: [u8; 64],
    /// Its oid.
    pub commit: [u8; 20],
}

/// Converts what is selected and not yet in the map to packs, and a segment of each map.
///
/// The packs are in place before the rest is; their names, with LF between, are noted in
/// `PREFIX.pending` in the map's directory before that. The names of the metadata's files begin
/// with `PREFIX-metadata`. Phases: 0 changesets read, 1 manifests read, 2 file revisions, 3
/// changesets written.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `request` and all its bytes are lent for the call;
/// `report` may be called with `handle` until the call ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_export_run(
    out: *mut ExportReport,
    request: *const ExportRequest,
    report: ReportFn,
    handle: *mut c_void,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let report = unsafe { run(request, report, handle, export) }?;
        // SAFETY: as the caller promises.
        unsafe { buffers::put(out, ExportReport::try_from(&report)?) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Makes the metadata commit of all changesets in the map, in a pack of its own, and converts nothing.
///
/// Of the request, what selects changesets is not looked at. The name of the pack is noted as for
/// [`amalgam_export_run`]. Phases: 0 changesets read.
///
/// # Safety
///
/// As for [`amalgam_export_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_metadata_make(
    out: *mut MetadataReport,
    request: *const ExportRequest,
    report: ReportFn,
    handle: *mut c_void,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let made = unsafe { run(request, report, handle, metadata_commit) }?;
        let mut told = MetadataReport { covered: 0, pack_len: 0, pack: [0; 64], commit: [0; 20] };
        if let Some((PublishedCommit { oid, pack }, covered)) = made {
            told.pack_len = copy(&mut told.pack, &pack)?;
            (told.covered, told.commit) = (covered, *oid.as_bytes());
        }
        // SAFETY: as the caller promises.
        unsafe { buffers::put(out, told) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Does `job`, and tells `report` how far it is.
///
/// # Safety
///
/// As for [`amalgam_export_run`].
unsafe fn run<R: Send>(
    request: *const ExportRequest,
    report: ReportFn,
    handle: *mut c_void,
    job: impl FnOnce(&Request<'_>, &mut ProgressFn<'_>) -> hg2git::Result<R> + Send,
) -> Result<R, Failure> {
    // SAFETY: as the caller promises.
    let directories = unsafe { directories_of(request) }?;
    // SAFETY: as the caller promises.
    let adopted = unsafe { adopted_directory_of(request) }?;
    // SAFETY: as the caller promises.
    let request = unsafe { request_of(request, &directories, adopted.as_ref()) }?;
    // SAFETY: as the caller promises.
    let reporter = unsafe { Reporter::new(report, handle) };
    let progress = Progress::default();
    reporter.supervise(&progress, || {
        let mut tell = |phase: Phase, done, total| progress.tell(phase as u32, done, total);
        job(&request, &mut tell).map_err(Failure::from)
    })
}

/// The directories of packs and of the map.
///
/// # Safety
///
/// As for [`request_of`]; the descriptors are open.
unsafe fn directories_of(request: *const ExportRequest) -> Result<[Directory; 2], Failure> {
    // SAFETY: as the caller promises.
    let request = unsafe { request.as_ref() }.ok_or_else(|| Failure::bug("no request"))?;
    // SAFETY: as the caller promises.
    let directory = |fd, path: &Bytes| unsafe { buffers::directory(fd, path) };
    Ok([directory(request.packs, &request.packs_path)?, directory(request.map, &request.map_path)?])
}

/// The directory of adopted commits, if there are any.
///
/// # Safety
///
/// As for [`request_of`]; the descriptor is open if there are.
unsafe fn adopted_directory_of(
    request: *const ExportRequest,
) -> Result<Option<Directory>, Failure> {
    // SAFETY: as the caller promises.
    let request = unsafe { request.as_ref() }.ok_or_else(|| Failure::bug("no request"))?;
    if request.adopted_name.len == 0 {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { buffers::directory(request.adopted, &request.adopted_path) }.map(Some)
}

/// What C asks for.
///
/// # Safety
///
/// `request` is null or lent with all its bytes as long as the answer lives.
unsafe fn request_of<'a>(
    request: *const ExportRequest,
    [packs, map]: &'a [Directory; 2],
    adopted: Option<&'a Directory>,
) -> Result<Request<'a>, Failure> {
    // SAFETY: as the caller promises.
    let request = unsafe { request.as_ref() }.ok_or_else(|| Failure::bug("no request"))?;
    // SAFETY: as the caller promises, for this and each of the following.
    let bytes = |bytes: &Bytes| unsafe { buffers::slice::<u8>(bytes.data, bytes.len) };
    // SAFETY: likewise.
    let path = |bytes: &Bytes| unsafe { buffers::path(bytes.data, bytes.len) };
    // SAFETY: likewise.
    let segments = unsafe { buffers::list(request.segments, request.segments_len) }?;
    // SAFETY: likewise.
    let metadata_segments =
        unsafe { buffers::list(request.metadata_segments, request.metadata_segments_len) }?;
    let tip = match request.len {
        0 => Node::NULL,
        _ => *nodes(bytes(&request.tip)?)?.first().ok_or_else(|| Failure::bug("no tip"))?,
    };
    // SAFETY: likewise; the answer has a share of its own.
    let index = |mapped: *const Mapped| unsafe { mapped.as_ref() }.map(Mapped::share).transpose();
    Ok(Request {
        store: path(&request.store)?,
        indexes: MappedIndexes {
            changelog: index(request.changelog)?,
            manifest: index(request.manifest)?,
        },
        encoding: encoding(request.encoding)?,
        tree_manifests: request.tree_manifests != 0,
        packs,
        map,
        prefix: ascii(bytes(&request.prefix)?)?,
        readers: match request.file_mode {
            0 => Readers::BY_UMASK,
            bits => Readers::of_mode(bits),
        }
        .owned_by(Owner { user: id(request.user), group: id(request.group) }),
        segments: names(segments)?,
        base: request.base_len,
        metadata: (request.without_metadata == 0).then_some(MetadataFiles {
            segments: names(metadata_segments)?,
            base: request.metadata_base_len,
            commit_of_first: request.commit_of_first != 0,
        }),
        // SAFETY: as the caller promises.
        unmapped: names(unsafe { buffers::list(request.unmapped, request.unmapped_len) }?)?,
        selection: Selection {
            len: request.len,
            tip,
            excluded: nodes(bytes(&request.excluded)?)?,
            known_below: request.known_below,
        },
        check_texts: request.check_texts != 0,
        check_each_manifest: request.check_texts == CHECK_EACH,
        threads: request.threads as usize,
        memory_bytes: request.memory_bytes,
        level: u8::try_from(request.level).map_err(|_| Failure::bug("level is no byte"))?,
        adopted: match adopted {
            None => None,
            Some(directory) => Some(AdoptedFile {
                directory,
                name: ascii(bytes(&request.adopted_name)?)?,
                access: match request.adopted_unmapped {
                    0 => Access::Mapped,
                    _ => Access::Read,
                },
                is_judged: request.adopted_judged != 0,
            }),
        },
    })
}

/// A user or group, if one is named.
const fn id(number: u32) -> Option<u32> {
    if number == u32::MAX { None } else { Some(number) }
}

/// Names of ours in a list.
pub(crate) fn names(names: Vec<&[u8]>) -> Result<Vec<String>, Failure> {
    names.into_iter().map(|name| Ok(ascii(name)?.to_owned())).collect()
}

/// Names of ours, which are ASCII.
pub(crate) fn ascii(bytes: &[u8]) -> Result<&str, Failure> {
    str::from_utf8(bytes).map_err(|_| Failure::bug("name is not ASCII"))
}

/// Nodes in a row.
pub(crate) fn nodes(bytes: &[u8]) -> Result<Vec<Node>, Failure> {
    let (nodes, rest) = bytes.as_chunks::<20>();
    if !rest.is_empty() {
        return Err(Failure::bug("nodes are not 20 bytes each"));
    }
    Ok(nodes.iter().map(|node| Node::from_bytes(*node)).collect())
}

impl TryFrom<&Report> for ExportReport {
    type Error = Failure;

    fn try_from(report: &Report) -> Result<Self, Failure> {
        let mut told = Self {
            changesets: report.changesets,
            objects: report.objects,
            pack_bytes: report.pack_bytes,
            pack_len: 0,
            segments_len: 0,
            pack: [0; 64],
            segments: [0; 8192],
            aside_pack_len: 0,
            aside_pack: [0; 64],
            metadata_segments_len: 0,
            metadata_segments: [0; 8192],
            metadata_pack_len: 0,
            metadata_pack: [0; 64],
            metadata_commit: [0; 20],
            displaced_len: 0,
            displaced: [0; 2560],
            adopted: report.adopted,
            foreign: report.foreign.map_or([0; 20], |node| *node.as_bytes()),
            unfit: report.unfit.map_or([0; 20], |unfit| *unfit.node.as_bytes()),
            misfit: report.unfit.map_or(0, |unfit| unfit.misfit as u32),
        };
        let lines =
            |names: &[String]| -> String { names.iter().flat_map(|name| [name, "\n"]).collect() };
        if let Some(PublishedFiles { pack, aside_pack, segments, .. }) = &report.published {
            told.pack_len = copy(&mut told.pack, pack.as_deref().unwrap_or_default())?;
            told.segments_len = copy(&mut told.segments, &lines(segments))?;
            let aside_pack = aside_pack.as_deref().unwrap_or_default();
            told.aside_pack_len = copy(&mut told.aside_pack, aside_pack)?;
        }
        let metadata = report.published.as_ref().and_then(|published| published.metadata.as_ref());
        if let Some(PublishedMetadata { segments, commit }) = metadata {
            told.metadata_segments_len = copy(&mut told.metadata_segments, &lines(segments))?;
            if let Some(PublishedCommit { oid, pack }) = commit {
                told.metadata_pack_len = copy(&mut told.metadata_pack, pack)?;
                told.metadata_commit = *oid.as_bytes();
            }
        }
        let (rooms, _) = told.displaced.as_chunks_mut::<40>();
        for (room, displaced) in rooms.iter_mut().zip(&report.displaced) {
            room[..20].copy_from_slice(displaced.later.as_bytes());
            room[20..].copy_from_slice(displaced.earlier.as_bytes());
            told.displaced_len += 1;
        }
        Ok(told)
    }
}

fn copy(out: &mut [u8], text: &str) -> Result<u32, Failure> {
    let bytes = text.as_bytes();
    let room = out.get_mut(..bytes.len()).ok_or_else(|| Failure::bug("names are too long"))?;
    room.copy_from_slice(bytes);
    u32::try_from(bytes.len()).map_err(|_| Failure::bug("names are too long"))
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
            Error::Unfit(_) => Self::bug(error.to_string()),
            Error::Moved => Self::moved(error.to_string()),
            Error::Cancelled => Self::cancelled(),
        }
    }
}

fn corrupt_map(path: &Path, what: &str) -> Failure {
    Failure::corrupt(format!("oid map: {what}")).at(path).hint("run 'hg git::export --rebuild'")
}
