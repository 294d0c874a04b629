//! Our own node map on disk: runs, each the sorted nodes of consecutive revisions.
//!
//! Format (docs/formats/nodemap.rst), integers big-endian. A file is a sequence of pages of 4096
//! bytes. The first 4 bytes of a page are a CRC-32 of the file's uid, the number of the page in the
//! file as eight bytes, and the other 4092 bytes of the page. A run of `n` revisions is
//!
//! ```text
//! fence pages   1023 x u32: the first key of each block page, in order
//! block pages   511 x u32 keys, ascending; 511 x u32 revisions of these keys; 4 bytes 0
//! ```
//!
//! where a key is the first four bytes of a node. Unused space in the last page of either kind is
//! 0. Equal keys are in the order of their revisions. A lookup reads one or two fence pages and,
//! since nodes are hashes, one block page. No other structure reads fewer pages with a cold cache,
//! and lookups are correct for any nodes.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use crc32fast::Hasher;

use super::bytes::NodeBytes;
use super::{Error, IndexEntries};
use crate::mapping::Touches;
use crate::prefix::Prefix;

const PAGE_LEN: usize = 4096;
const SUM_LEN: usize = 4;
/// Keys in a fence page.
const FENCES: usize = (PAGE_LEN - SUM_LEN) / 4;
/// Revisions in a block page.
const BLOCK: usize = (PAGE_LEN - SUM_LEN) / 8;
/// Digits of a key.
const KEY_DIGITS: usize = 8;

/// Place and revisions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First byte in the file, at the start of a page.
    pub offset: u64,
    /// First revision.
    pub first: u32,
    /// Number of revisions, at least one.
    pub revs: u32,
}

impl Place {
    fn blocks(&self) -> usize {
        (self.revs as usize).div_ceil(BLOCK)
    }

    fn fence_pages(&self) -> usize {
        self.blocks().div_ceil(FENCES)
    }

    /// Keys and revisions in the `page` of a block.
    fn halves<'a>(&self, page: &'a [u8; PAGE_LEN], block: usize) -> (&'a [[u8; 4]], &'a [[u8; 4]]) {
        let count = (self.revs as usize - block * BLOCK).min(BLOCK);
        let (words, _rest) = page[SUM_LEN..].as_chunks::<4>();
        (&words[..count], &words[BLOCK..BLOCK + count])
    }

    /// Length in the file.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        (self.fence_pages() + self.blocks()) * PAGE_LEN
    }
}

/// Writes to `out` the run at `place` of a file with `uid`.
///
/// # Errors
///
/// [`Error::Damaged`] if `out` has another length than the run, the run does not start at a page,
/// or the index lacks the revisions.
pub fn write(
    out: &mut [u8],
    uid: &[u8],
    place: Place,
    entries: IndexEntries<'_>,
) -> Result<(), Error> {
    let Some(end) = place.first.checked_add(place.revs).filter(|&end| end <= entries.len()) else {
        return Err(Error::Damaged("revisions of the run are not in the index"));
    };
    if out.len() != place.len_bytes() || !place.offset.is_multiple_of(PAGE_LEN as u64) {
        return Err(Error::Damaged("the run has another place"));
    }
    let mut sorted = Vec::with_capacity(place.revs as usize);
    for rev in place.first..end {
        let node = entries.node(rev).ok_or(Error::Damaged("an entry is missing"))?;
        sorted.push(u64::from(key_of(node)) << 32 | u64::from(rev));
    }
    sorted.sort_unstable();

    out.fill(0);
    let (pages, _none) = out.as_chunks_mut::<PAGE_LEN>();
    let (fences, blocks) = pages.split_at_mut(place.fence_pages());
    for (at, (page, chunk)) in blocks.iter_mut().zip(sorted.chunks(BLOCK)).enumerate() {
        let halves = chunk.iter().map(|both| both.to_be_bytes());
        for (slot, both) in halves.enumerate() {
            let at = SUM_LEN + slot * 4;
            page[at..at + 4].copy_from_slice(&both[..4]);
            let at = at + BLOCK * 4;
            page[at..at + 4].copy_from_slice(&both[4..]);
        }
        let first = SUM_LEN + at % FENCES * 4;
        fences[at / FENCES][first..first + 4].copy_from_slice(&chunk[0].to_be_bytes()[..4]);
    }
    let first_page = place.offset / PAGE_LEN as u64;
    for (page, number) in pages.iter_mut().zip(first_page..) {
        let sum = sum_of(uid_sum(uid), number, page).to_be_bytes();
        page[..SUM_LEN].copy_from_slice(&sum);
    }
    Ok(())
}

/// Runs of a file.
#[derive(Debug)]
pub(super) struct NodeRuns {
    bytes: NodeBytes,
    uid_sum: u32,
    places: Vec<Place>,
    /// One bit for each page with a verified checksum.
    right: Vec<AtomicU64>,
    touches: Touches,
}

impl NodeRuns {
    pub(super) fn open(file: &File, uid: &[u8], places: &[Place]) -> Result<Self, Error> {
        let (mut revs, mut len) = (0u32, 0);
        for place in places {
            if place.first != revs || place.revs == 0 {
                return Err(Error::Damaged("its runs do not cover all revisions"));
            }
            revs = revs.checked_add(place.revs).ok_or(Error::Damaged("it is too long"))?;
            if !place.offset.is_multiple_of(PAGE_LEN as u64) {
                return Err(Error::Damaged("a run begins within a page"));
            }
            let end = place.offset.checked_add(place.len_bytes() as u64);
            len = end.ok_or(Error::Damaged("it is too long"))?.max(len);
        }
        let bytes = NodeBytes::map(file, len)?.ok_or(Error::Damaged("it is cut"))?;
        let pages = bytes.len() / PAGE_LEN;
        let right = (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let touches = Touches::none(bytes.len());
        Ok(Self { bytes, uid_sum: uid_sum(uid), places: places.to_vec(), right, touches })
    }

    /// Number of revisions covered.
    pub(super) fn revs(&self) -> u32 {
        self.places.last().map_or(0, |place| place.first + place.revs)
    }

    pub(super) fn visit(
        &self,
        entries: IndexEntries<'_>,
        limit: u32,
        prefix: Prefix,
        visit: &mut dyn FnMut(u32, &[u8; 20]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let least = key_of(prefix.least());
        let free = 4 * (KEY_DIGITS.saturating_sub(prefix.digits()));
        let most = least | u32::MAX.checked_shr(32 - u32::try_from(free).unwrap_or(0)).unwrap_or(0);
        for place in &self.places {
            if place.first >= limit {
                break;
            }
            let mut block = self.first_block(place, least)?;
            'run: while block < place.blocks() {
                let page = self.page(place, place.fence_pages() + block)?;
                let (keys, revs) = place.halves(page, block);
                for at in keys.partition_point(|key| u32::from_be_bytes(*key) < least)..keys.len() {
                    if u32::from_be_bytes(keys[at]) > most {
                        break 'run;
                    }
                    let rev = u32::from_be_bytes(revs[at]);
                    if rev >= limit {
                        continue;
                    }
                    let node = entries.node(rev).ok_or(Error::Damaged("a revision is missing"))?;
                    if key_of(node) != u32::from_be_bytes(keys[at]) {
                        return Err(Error::Damaged("it is of another history"));
                    }
                    if prefix.begins(node) && visit(rev, node).is_break() {
                        return Ok(());
                    }
                }
                block += 1;
            }
        }
        Ok(())
    }

    /// First block that may have `key`.
    fn first_block(&self, place: &Place, key: u32) -> Result<usize, Error> {
        let (mut least, mut most) = (0, place.blocks());
        while least < most {
            let middle = usize::midpoint(least, most);
            let page = self.page(place, middle / FENCES)?;
            if word(page, SUM_LEN + middle % FENCES * 4) < key {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        Ok(least.saturating_sub(1))
    }

    /// Page of a run. Its checksum is verified once.
    fn page(&self, place: &Place, at: usize) -> Result<&[u8; PAGE_LEN], Error> {
        let start = usize::try_from(place.offset).unwrap_or(usize::MAX) / PAGE_LEN;
        let number = start + at;
        let (pages, _none) = self.bytes.as_chunks::<PAGE_LEN>();
        let page = pages.get(number).ok_or(Error::Damaged("it is cut"))?;
        let (word_at, bit) = (number / 64, 1 << (number % 64));
        if self.right[word_at].load(Ordering::Relaxed) & bit == 0 {
            self.touches.count(&self.bytes);
            if word(page, 0) != sum_of(self.uid_sum, number as u64, page) {
                return Err(Error::Damaged("a checksum is wrong"));
            }
            self.right[word_at].fetch_or(bit, Ordering::Relaxed);
        }
        Ok(page)
    }
}

fn key_of(node: &[u8; 20]) -> u32 {
    word(node, 0)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn uid_sum(uid: &[u8]) -> u32 {
    crc32fast::hash(uid)
}

/// Checksum of a page: of its place and its content.
fn sum_of(uid_sum: u32, number: u64, page: &[u8; PAGE_LEN]) -> u32 {
    let mut sum = Hasher::new_with_initial(uid_sum);
    sum.update(&number.to_be_bytes());
    sum.update(&page[SUM_LEN..]);
    sum.finalize()
}
