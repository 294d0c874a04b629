//! The request of the examples: an export of a whole repository, with metadata.

use std::error::Error;
use std::fs;
use std::path::Path;

use gitpack::Readers;
use hg2git::{EarlierTrees, MetadataFiles, Request, Selection};
use parallel::Directory;
use revlog::{Encoding, MappedIndexes, Node, RevlogKind, Store};

/// Input and output of an example.
pub struct WholeRequest<'a> {
    store: &'a Path,
    outdir: Directory,
    packs: Directory,
    selection: Selection,
}

impl<'a> WholeRequest<'a> {
    /// A request for the directory `.hg/store` at `store`, with output to `outdir`, which is
    /// created.
    ///
    /// # Errors
    ///
    /// The changelog cannot be read, or the directory cannot be created.
    pub fn new(store: &'a Path, outdir: &Path) -> Result<Self, Box<dyn Error>> {
        let packs = outdir.join("objects/pack");
        fs::create_dir_all(&packs)?;
        let changelog = Store::new(store, Encoding::DotEncode).open(RevlogKind::Changelog)?;
        let index = changelog.index();
        let selection = Selection {
            len: index.len(),
            tip: index.revs().next_back().map_or(Node::NULL, |rev| index.node(rev)),
            excluded: Vec::new(),
            known_below: 0,
        };
        let (outdir, packs) = (Directory::open(outdir)?, Directory::open(&packs)?);
        Ok(Self { store, outdir, packs, selection })
    }

    /// The request, as the extension makes it by default.
    pub fn request(&self) -> Request<'_> {
        Request {
            store: self.store,
            indexes: MappedIndexes::default(),
            encoding: Encoding::DotEncode,
            tree_manifests: false,
            packs: &self.packs,
            replaced_packs: Vec::new(),
            map: &self.outdir,
            prefix: "map",
            readers: Readers::BY_UMASK,
            segments: Vec::new(),
            base: 0,
            metadata: Some(MetadataFiles { commit_of_first: true, ..MetadataFiles::default() }),
            unmapped: Vec::new(),
            selection: self.selection.clone(),
            check_texts: true,
            check_each_manifest: false,
            threads: 0,
            memory_bytes: 192 << 20,
            level: 1,
            authors: dialect::Authors::default(),
            adopted: None,
            earlier: EarlierTrees::OfManifests,
            imported: None,
            other: None,
        }
    }
}
