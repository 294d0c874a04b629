//! The file revisions of a conversion: their numbers, their paths, and their blobs.
//!
//! A node names one text, under any path. So a revision that two paths share is one entry. Nodes
//! that an earlier run converted have their oid from the start.

use gitpack::Oid;
use hashbrown::{HashMap, HashSet, HashTable};
use revlog::{FLAG_EXTERNAL, Node, Rev, Revlog, copy_source, split_metadata};

use crate::read::names::NameId;

/// The number of a file revision in its [`FileTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(pub u32);

/// An error: a file revision without a known blob, since the caller converted too little.
#[derive(Debug)]
pub(crate) struct Unconverted(pub FileId);

/// The oid of a revision that is not converted yet.
const UNKNOWN: Oid = Oid::from_bytes([0; 20]);

/// File revisions by number and by node.
#[derive(Debug, Default)]
pub(crate) struct FileTable {
    nodes: Vec<Node>,
    paths: Vec<NameId>,
    oids: Vec<Oid>,
    numbers: HashTable<u32>,
    /// Revisions that a second path named before they had an oid.
    shared: HashSet<FileId>,
    /// Copies that the revisions converted by this run record, if copies are read.
    copies: HashMap<FileId, RecordedCopy>,
    /// Whether this run has read the copy of a revision, by number.
    are_copies_read: Vec<bool>,
}

/// Copy that a file revision records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedCopy {
    /// Path of the source.
    pub source: Box<[u8]>,
    /// Number of the changeset that introduced the revision.
    pub link_rev: u32,
}

impl RecordedCopy {
    /// The copy that the revision `rev` with this text records.
    pub fn of(filelog: &Revlog, rev: Rev, text: &[u8]) -> Option<Self> {
        let is_external = filelog.index().unusual_flags(rev) & FLAG_EXTERNAL != 0;
        let source = if is_external {
            copy_source_of_pointer(text)?
        } else {
            split_metadata(text).metadata.and_then(copy_source)?
        };
        let link_rev = filelog.index().link(rev);
        Self::may_be(filelog, rev).then(|| Self { source: source.into(), link_rev })
    }

    /// Whether the revision `rev` can record a copy: Mercurial looks at no other ones.
    pub fn may_be(filelog: &Revlog, rev: Rev) -> bool {
        filelog.index().parents(rev).0.is_none()
    }
}

/// The source of a copy whose content is in LFS: Mercurial keeps it in the pointer, as
/// `hgext/lfs/wrapper.py` writes it.
fn copy_source_of_pointer(text: &[u8]) -> Option<&[u8]> {
    text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"x-hg-copy "))
}

impl FileTable {
    /// The number of `node`. A new node is recorded at `path`, and `known` returns its oid if an
    /// earlier run converted it.
    ///
    /// # Panics
    ///
    /// After 2^32 revisions.
    pub fn number(
        &mut self,
        node: Node,
        path: NameId,
        known: impl FnOnce(&Node) -> Option<Oid>,
    ) -> FileId {
        let nodes = &self.nodes;
        if let Some(&number) = self.numbers.find(hash(&node), |&at| nodes[at as usize] == node) {
            return FileId(number);
        }
        let number = u32::try_from(self.nodes.len()).expect("fewer than 2^32 file revisions");
        let oid = known(&node);
        self.nodes.push(node);
        self.paths.push(path);
        self.oids.push(oid.unwrap_or(UNKNOWN));
        let nodes = &self.nodes;
        self.numbers.insert_unique(hash(&node), number, |&at| hash(&nodes[at as usize]));
        FileId(number)
    }

    /// Frees the lookup by node. No more nodes can be numbered afterwards.
    pub fn forget_numbers(&mut self) {
        self.numbers = HashTable::new();
    }

    /// Notes that a second path has this revision.
    pub fn share(&mut self, file: FileId) {
        self.shared.insert(file);
    }

    /// Takes the revisions noted by [`Self::share`].
    pub fn take_shared(&mut self) -> HashSet<FileId> {
        std::mem::take(&mut self.shared)
    }

    /// Memory in use, without shared revisions and copies.
    pub fn bytes(&self) -> u64 {
        let each = size_of::<Node>() + size_of::<NameId>() + size_of::<Oid>();
        (self.nodes.capacity() * each + self.numbers.allocation_size()) as u64
    }

    /// The node of a revision.
    pub fn node(&self, file: FileId) -> Node {
        *self.node_in_place(file)
    }

    /// The node of a revision, borrowed to avoid a copy.
    pub fn node_in_place(&self, file: FileId) -> &Node {
        &self.nodes[file.0 as usize]
    }

    /// A path that the revision is stored under.
    pub fn path(&self, file: FileId) -> NameId {
        self.paths[file.0 as usize]
    }

    /// The blob of a revision, if it is converted.
    pub fn oid(&self, file: FileId) -> Option<Oid> {
        self.oid_in_place(file).copied()
    }

    /// The blob of a revision, borrowed to avoid a copy.
    pub fn oid_in_place(&self, file: FileId) -> Option<&Oid> {
        Some(&self.oids[file.0 as usize]).filter(|oid| **oid != UNKNOWN)
    }

    /// Notes the blob of a revision.
    pub fn set_oid(&mut self, file: FileId, oid: Oid) {
        self.oids[file.0 as usize] = oid;
    }

    /// Notes the copy that a revision records, if any.
    pub fn set_copy(&mut self, file: FileId, copy: Option<RecordedCopy>) {
        let at = file.0 as usize;
        self.are_copies_read.resize(self.are_copies_read.len().max(at + 1), false);
        self.are_copies_read[at] = true;
        self.copies.extend(copy.map(|copy| (file, copy)));
    }

    /// Whether this run has read the copy that a revision may record.
    pub fn is_copy_read(&self, file: FileId) -> bool {
        self.are_copies_read.get(file.0 as usize).is_some_and(|is_read| *is_read)
    }

    /// The copy that a revision records, if this run has read one.
    pub fn recorded_copy(&self, file: FileId) -> Option<&RecordedCopy> {
        self.copies.get(&file)
    }

    /// All revisions without an oid, in the order of their numbers.
    pub fn unknown(&self) -> impl Iterator<Item = FileId> {
        let all = (0u32..).map(FileId).zip(&self.oids);
        all.filter(|(_, oid)| **oid == UNKNOWN).map(|(file, _)| file)
    }
}

/// The first 8 bytes of a node, which is a digest already.
fn hash(node: &Node) -> u64 {
    let (beginning, _) = node.as_bytes().split_first_chunk().expect("nodes are longer");
    u64::from_ne_bytes(*beginning)
}
