//! The conversion of file revisions to blobs, one filelog after the other.
//!
//! The storage of a revision is planned from the index alone ([`mod@plan`]). Normally it is the
//! stored delta, if its base is a parent, or else a new delta. A stored delta of lines that is too
//! long gives way to one of bytes. If the chain would get too long for git readers, the base is a
//! landmark. So any thread can convert pieces of a filelog in any order,
//! and the bytes are the same.

mod plan;
mod pointers;

use std::ops::Range;
use std::sync::Arc;

use gitpack::{Differ, ObjectKind, Oid, object_header};
use parallel::{Buffer, MemoryPlan};
use revlog::{
    FLAG_CENSORED, FLAG_EXTERNAL, KeptTexts, Node, Rev, Revision, Revlog, Scratch, Texts,
    split_metadata,
};
use sha1lanes::{Lanes, Message, digest_one};

use crate::error::{Error, Result};
use crate::objects::collisions::{Attack, CollisionCheck};
use crate::objects::compress::{Compressor, Streams};
use crate::objects::reused::Reused;
use crate::objects::translate::translate;
use crate::read::files::{FileId, RecordedCopy};
use crate::read::verify::Check;

pub(crate) use plan::{BlobPlan, Load, plan};
use plan::{Planned, PlannedStorage};
pub(crate) use pointers::pointer_of;

/// Revisions that fill half of the lanes of the widest hash, with two messages each.
const HALF_OF_LANES: usize = 8;
/// Most revisions hashed together.
const HASHED_AT_ONCE: usize = 8 * HALF_OF_LANES;
/// Bytes of text hashed together: the first is enough if the lanes are full, the second is the
/// most.
const HASHED_TEXT_BYTES: (usize, usize) = (512 << 10, 16 << 20);
/// Longest delta that is searched for, in bytes.
const LONGEST_SEARCHED: usize = 16 << 20;
/// Longest delta whose memory is kept, in bytes.
const LONGEST_KEPT: usize = 1 << 20;
/// Longest delta worth storing, as a part of its content. To compress both and take the shorter
/// gains 0.1 % of the pack and costs a fourth of all compression (octave, 2026-11).
const LONGEST_DELTA: (usize, usize) = (2, 3);

/// Flags of revisions whose node cannot be checked, since it was computed from another text. The
/// stored text is the reason for the censoring, or an LFS pointer.
const TEXT_REPLACED: u16 = FLAG_CENSORED | FLAG_EXTERNAL;

/// Consecutive revisions of one filelog.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub revlog: Arc<Revlog>,
    pub plan: Arc<BlobPlan>,
    /// Positions in the plan.
    pub range: Range<usize>,
}

/// A blob ready for the pack.
#[derive(Debug)]
pub(crate) struct Blob {
    pub file: FileId,
    pub oid: Oid,
    /// The revision whose blob is the base of the delta in the stream; if `None`, the stream is the
    /// content.
    pub base: Option<FileId>,
    /// Length of the inflated stream, in bytes.
    pub inflated_len: usize,
    /// Copy metadata as a blob, if metadata is kept. Its stream comes before the blob's.
    pub metadata: Option<FileMetadata>,
    /// Copy source that the revision records, if copies are read.
    pub copy: Option<RecordedCopy>,
}

/// A file revision's metadata as a blob.
#[derive(Debug)]
pub(crate) struct FileMetadata {
    pub oid: Oid,
    /// Length of the inflated stream, in bytes.
    pub inflated_len: usize,
}

/// Blobs with their streams.
#[derive(Debug)]
pub(crate) struct Blobs {
    pub made: Vec<Blob>,
    pub streams: Streams,
    /// Revisions whose blobs were copied, and the copies that they record.
    pub copies: Vec<(FileId, Option<RecordedCopy>)>,
}

/// The converter of one thread, used for many jobs.
pub(crate) struct Converter<'a> {
    scratch: Scratch,
    /// Texts of the filelog in whose middle the last job ended.
    kept: Option<(Arc<Revlog>, KeptTexts)>,
    kept_bytes: usize,
    hashed_bytes: usize,
    reused: &'a Reused,
    encoder: Encoder<'a>,
}

/// The part of a [`Converter`] that makes blobs from texts.
struct Encoder<'a> {
    differ: Differ,
    /// Buffers for the delta found last, by search or by translation.
    searched: Vec<u8>,
    translated: Buffer,
    compressor: Compressor,
    lanes: &'static dyn Lanes,
    check_texts: bool,
    keeps_metadata: bool,
    reads_copies: bool,
    collisions: &'a CollisionCheck,
}

/// A revision that waits to be hashed with others, also of other filelogs.
struct Waiting<'a> {
    piece: &'a Piece,
    planned: Planned,
    revision: Revision,
    /// The blob's content instead of the text's, if the content is in LFS.
    pointer: Option<Vec<u8>>,
    base: Option<Base>,
}

/// The base of a delta.
struct Base {
    text: Arc<Buffer>,
    /// The base's content instead of the text's, if the content is in LFS.
    pointer: Option<Vec<u8>>,
}

impl Base {
    fn content(&self) -> &[u8] {
        content(&self.text, self.pointer.as_deref())
    }
}

fn content<'a>(text: &'a [u8], pointer: Option<&'a [u8]>) -> &'a [u8] {
    pointer.unwrap_or_else(|| split_metadata(text).content)
}

/// The pointer that becomes the blob of a revision, if its content is in LFS.
fn pointer(revlog: &Revlog, rev: Rev, text: &[u8]) -> Result<Option<Vec<u8>>> {
    if revlog.index().unusual_flags(rev) & TEXT_REPLACED != FLAG_EXTERNAL {
        return Ok(None);
    }
    let pointer = pointer_of(text);
    pointer.map(Some).ok_or_else(|| revlog.corrupt(rev, "its text is not an LFS pointer").into())
}

impl<'a> Converter<'a> {
    /// A converter. All converters of a run share `collisions`. The second pair: whether copy
    /// metadata becomes blobs, and whether copy sources are read.
    pub fn new(
        (level, check_texts): (u8, bool),
        (keeps_metadata, reads_copies): (bool, bool),
        (collisions, reused): (&'a CollisionCheck, &'a Reused),
        memory_plan: &MemoryPlan,
    ) -> Self {
        let encoder = Encoder {
            differ: Differ::default(),
            searched: Vec::new(),
            translated: Buffer::new(Some(Arc::clone(&memory_plan.budget))),
            compressor: Compressor::new(level, &memory_plan.budget),
            lanes: sha1lanes::best(),
            check_texts,
            keeps_metadata,
            reads_copies,
            collisions,
        };
        Self {
            scratch: Scratch::of(memory_plan),
            kept: None,
            kept_bytes: memory_plan.kept_bytes,
            hashed_bytes: memory_plan.hashed_bytes.min(HASHED_TEXT_BYTES.1),
            reused,
            encoder,
        }
    }

    /// Converts the revisions of all `pieces`, in order.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] with the first revision that cannot be read, does not match its
    /// node, has unknown flags, is in LFS without a valid pointer, or carries a collision attack.
    pub fn convert(&mut self, pieces: &[Piece]) -> Result<Blobs> {
        let Self { scratch, kept, encoder, kept_bytes, hashed_bytes, reused } = self;
        let streams = encoder.compressor.streams();
        let mut blobs = Blobs { made: Vec::new(), streams, copies: Vec::new() };
        let mut waiting = Vec::new();
        let mut waiting_bytes = 0;
        for piece in pieces {
            let (known, old) = match kept.take() {
                Some((revlog, kept)) if Arc::ptr_eq(&revlog, &piece.revlog) => {
                    (kept, KeptTexts::default())
                }
                other => {
                    (KeptTexts::default(), other.map_or_else(KeptTexts::default, |(_, kept)| kept))
                }
            };
            scratch.recycle_kept(old);
            let mut texts = Texts::resume(&piece.revlog, scratch, *kept_bytes, known);
            for planned in &piece.plan.0[piece.range.clone()] {
                if reused.has(planned.file) {
                    match encoder.copy(piece, planned.rev, &mut texts) {
                        Ok(copy) => blobs.copies.push((planned.file, copy)),
                        Err(problem) => {
                            return encoder.finish(&waiting, &mut blobs).and(Err(problem));
                        }
                    }
                    continue;
                }
                let waited = match Waiting::new(piece, *planned, &mut texts) {
                    Ok(waited) => waited,
                    // revisions that wait may be wrong, and take precedence
                    Err(problem) => return encoder.finish(&waiting, &mut blobs).and(Err(problem)),
                };
                waiting_bytes += waited.bytes_beside(&waiting);
                waiting.push(waited);
                if is_enough(waiting.len(), waiting_bytes, *hashed_bytes) {
                    encoder.finish(&waiting, &mut blobs)?;
                    waiting.drain(..).for_each(|waited| {
                        drop(waited.base);
                        texts.recycle(waited.revision.text);
                        texts.recycle_delta(waited.revision.delta);
                    });
                    waiting_bytes = 0;
                }
            }
            if piece.range.end < piece.plan.0.len() {
                *kept = Some((Arc::clone(&piece.revlog), texts.pause()));
            }
        }
        encoder.finish(&waiting, &mut blobs)?;
        Ok(blobs)
    }
}

/// Returns whether to hash the waiting revisions now. If texts are long and `most_bytes` are near,
/// half of the lanes filled is better than waiting for more.
const fn is_enough(revisions: usize, bytes: usize, most_bytes: usize) -> bool {
    let with_more = bytes + bytes / revisions * HALF_OF_LANES;
    revisions == HASHED_AT_ONCE
        || bytes > most_bytes
        || revisions.is_multiple_of(2 * HALF_OF_LANES) && bytes > HASHED_TEXT_BYTES.0
        || revisions.is_multiple_of(HALF_OF_LANES) && with_more > most_bytes
}

impl<'a> Waiting<'a> {
    fn new(piece: &'a Piece, planned: Planned, texts: &mut Texts<'_>) -> Result<Self> {
        let revlog = &piece.revlog;
        if revlog.index().unusual_flags(planned.rev) & !TEXT_REPLACED != 0 {
            return Err(revlog.unsupported(planned.rev, "it has unknown flags").into());
        }
        let mut revision = texts.get(planned.rev)?;
        let pointer_of_rev = pointer(revlog, planned.rev, &revision.text)?;
        let base = match planned.storage {
            PlannedStorage::Full => None,
            PlannedStorage::Stored(base) | PlannedStorage::Searched(base) => {
                let base = piece.plan.0[base].rev;
                let is_usable = matches!(planned.storage, PlannedStorage::Stored(_))
                    && revision.delta.as_ref().is_some_and(|delta| delta.base == base);
                if !is_usable {
                    revision.delta = None;
                }
                let text = texts.get(base)?.text;
                let pointer = pointer(revlog, base, &text)?;
                if pointer.is_some() || pointer_of_rev.is_some() {
                    revision.delta = None; // valid for texts only
                }
                Some(Base { text, pointer })
            }
        };
        if planned.is_landmark {
            texts.hold(planned.rev, &revision.text);
        }
        Ok(Self { piece, planned, revision, pointer: pointer_of_rev, base })
    }

    fn content(&self) -> &[u8] {
        content(&self.revision.text, self.pointer.as_deref())
    }

    fn check(&self) -> Check<'a> {
        Check::new(&self.piece.revlog)
    }

    /// The error for a collision attack in this revision.
    fn corrupt(&self, attack: Attack) -> Error {
        self.piece.revlog.corrupt(self.planned.rev, attack).into()
    }

    /// Memory of this revision beside others, whose texts are often its base.
    fn bytes_beside(&self, others: &[Self]) -> usize {
        let is_held = |base: &Arc<Buffer>| {
            let mut held = others.iter().flat_map(|other| {
                let base = other.base.as_ref().map(|base| &base.text);
                std::iter::once(&other.revision.text).chain(base)
            });
            held.any(|text| Arc::ptr_eq(text, base))
        };
        let base = self.base.as_ref().map(|base| &base.text).filter(|base| !is_held(base));
        self.revision.text.len() + base.map_or(0, |base| base.len())
    }
}

impl Encoder<'_> {
    /// The copy that a revision records, if copies are read.
    fn copy(
        &self,
        Piece { revlog, .. }: &Piece,
        rev: Rev,
        texts: &mut Texts<'_>,
    ) -> Result<Option<RecordedCopy>> {
        // most texts need not be rebuilt
        if !self.reads_copies || !RecordedCopy::may_be(revlog, rev) {
            return Ok(None);
        }
        Ok(RecordedCopy::of(revlog, rev, &texts.get(rev)?.text))
    }

    /// Hashes all waiting revisions for git and for Mercurial, and makes their blobs.
    fn finish(&mut self, waiting: &[Waiting<'_>], blobs: &mut Blobs) -> Result<()> {
        let contents: Vec<&[u8]> = waiting.iter().map(Waiting::content).collect();
        let git_heads: Vec<_> = contents
            .iter()
            .map(|content| object_header(ObjectKind::Blob, content.len() as u64))
            .collect();
        let hg_heads: Vec<_> =
            waiting.iter().map(|waited| waited.check().head(waited.planned.rev)).collect();
        let mut messages: Vec<Message<'_>> = Vec::with_capacity(2 * waiting.len());
        for (head, body) in git_heads.iter().zip(&contents) {
            messages.push(Message { head, body });
        }
        if self.check_texts {
            for (head, waited) in hg_heads.iter().zip(waiting) {
                messages.push(Message { head, body: &waited.revision.text });
            }
        }
        let mut digests = vec![[0; 20]; messages.len()];
        self.lanes.digest(&messages, &mut digests);
        let (oids, nodes) = digests.split_at(waiting.len());
        let (git_messages, hg_messages) = messages.split_at(waiting.len());
        for ((waited, message), node) in waiting.iter().zip(hg_messages).zip(nodes) {
            let Planned { rev, file, .. } = waited.planned;
            if waited.piece.revlog.index().unusual_flags(rev) & TEXT_REPLACED == 0 {
                waited.check().digest(rev, *node)?;
                let passed = self.collisions.text(file, Node::from_bytes(*node), *message);
                passed.map_err(|attack| waited.corrupt(attack))?;
            }
        }
        for ((waited, message), oid) in waiting.iter().zip(git_messages).zip(oids) {
            let oid = Oid::from_bytes(*oid);
            let passed = self.collisions.object(ObjectKind::Blob, oid, *message);
            passed.map_err(|attack| waited.corrupt(attack))?;
            let blob = self.blob(waited, message.body, oid, &mut blobs.streams)?;
            blobs.made.push(blob);
        }
        Ok(())
    }

    /// Makes one blob, and appends its stream.
    fn blob(
        &mut self,
        waited: &Waiting<'_>,
        content: &[u8],
        oid: Oid,
        streams: &mut Streams,
    ) -> Result<Blob> {
        let file = waited.planned.file;
        let metadata = self.metadata(waited, streams)?;
        let planned_base = match waited.planned.storage {
            PlannedStorage::Full => None,
            PlannedStorage::Stored(base) | PlannedStorage::Searched(base) => {
                Some(waited.piece.plan.0[base].file)
            }
        };
        let found = self.find_delta(waited, content)?;
        let payload = match found {
            Found::Nothing => content,
            Found::Searched => &self.searched,
            Found::Translated => &self.translated,
        };
        self.compressor.deflate(payload, streams)?;
        let inflated_len = payload.len();
        if inflated_len > LONGEST_KEPT {
            self.searched = Vec::new();
            self.translated.discard();
        }
        let base = planned_base.filter(|_| !matches!(found, Found::Nothing));
        let Waiting { piece, planned, revision, .. } = waited;
        let copy = if self.reads_copies {
            RecordedCopy::of(&piece.revlog, planned.rev, &revision.text)
        } else {
            None
        };
        Ok(Blob { file, oid, base, inflated_len, metadata, copy })
    }

    fn metadata(
        &mut self,
        waited: &Waiting<'_>,
        streams: &mut Streams,
    ) -> Result<Option<FileMetadata>> {
        let text = &waited.revision.text;
        let metadata = split_metadata(text).metadata.filter(|_| self.keeps_metadata);
        let Some(content) = metadata else { return Ok(None) };
        let head = object_header(ObjectKind::Blob, content.len() as u64);
        let message = Message { head: &head, body: content };
        let oid = Oid::from_bytes(digest_one(message));
        let passed = self.collisions.object(ObjectKind::Blob, oid, message);
        passed.map_err(|attack| waited.corrupt(attack))?;
        self.compressor.deflate(content, streams)?;
        Ok(Some(FileMetadata { oid, inflated_len: content.len() }))
    }

    /// Finds a git delta from the content of the planned base to `content`, if it is worth storing.
    fn find_delta(&mut self, waited: &Waiting<'_>, content: &[u8]) -> Result<Found> {
        let Some(base) = waited.base.as_ref() else { return Ok(Found::Nothing) };
        let (base, base_text) = (base.content(), &base.text);
        let limit = content.len() / LONGEST_DELTA.1 * LONGEST_DELTA.0;
        // stored deltas apply to texts: they fit contents if neither text has metadata
        if let Some(stored) = &waited.revision.delta
            && base.len() == base_text.len()
            && content.len() == waited.revision.text.len()
        {
            let is_one = translate(stored, base.len(), content.len(), &mut self.translated)?
                && self.translated.len() <= limit;
            if is_one {
                return Ok(Found::Translated);
            }
            // of most lines a part is new: bytes have more in common than lines
        }
        let limit = limit.min(LONGEST_SEARCHED);
        let is_one = self.differ.diff(base, content, limit, &mut self.searched);
        Ok(if is_one { Found::Searched } else { Found::Nothing })
    }
}

/// The buffer of a found delta.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    Searched,
    Translated,
}

#[cfg(test)]
mod tests;
