//! A whole export of a store whose three revlogs are the input.

use std::fs;

use dialect::{Authors, Cinnabar};
use gitpack::Readers;
use hg2git::{EarlierTrees, MetadataFiles, Request, Selection};
use parallel::Directory;
use revlog::{Encoding, MappedIndexes, Node, RevlogKind, Store};

use crate::scratch::{Planted, cut, directory};

/// Changelog, manifest and one filelog, all inline. Texts are not compared with their nodes, which
/// no input would survive.
pub(crate) fn export(input: &[u8]) {
    let (changelog, rest) = cut(input);
    let (manifest, filelog) = cut(rest);
    let root = directory();
    let store = root.join("store");
    let (packs, map) = (root.join("packs"), root.join("map"));
    for made in [&store.join("data"), &packs, &map] {
        fs::create_dir_all(made).expect("room for it");
    }
    let _planted = [
        Planted::new(store.join("00changelog.i"), changelog),
        Planted::new(store.join("00manifest.i"), manifest),
        Planted::new(store.join("data").join("f.i"), filelog),
    ];
    let Ok(seen) = Store::new(&store, Encoding::DotEncode).open(RevlogKind::Changelog) else {
        return;
    };
    let index = seen.index();
    let tip = index.revs().next_back().map_or(Node::NULL, |rev| index.node(rev));
    let opened = [&packs, &map].map(|path| Directory::open(path).expect("it was made here"));
    let request = Request {
        store: &store,
        indexes: MappedIndexes::default(),
        encoding: Encoding::DotEncode,
        tree_manifests: false,
        packs: &opened[0],
        replaced_packs: Vec::new(),
        map: &opened[1],
        prefix: "fuzz",
        readers: Readers::BY_UMASK,
        segments: Vec::new(),
        base: 0,
        metadata: Some(MetadataFiles { commit_of_first: true, ..MetadataFiles::default() }),
        unmapped: Vec::new(),
        selection: Selection { len: index.len(), tip, excluded: Vec::new(), known_below: 0 },
        check_texts: false,
        check_each_manifest: false,
        threads: 1,
        memory_bytes: 4 << 20,
        level: 1,
        authors: Authors::default(),
        adopted: None,
        earlier: EarlierTrees::OfManifests,
        imported: None,
        other: None,
    };
    if let Err(problem) = hg2git::export::<Cinnabar>(&request, &mut |_, _, _| false) {
        assert!(problem.to_string().len() <= 10_000, "a message is read by people");
    }
    for made in [packs, map] {
        fs::remove_dir_all(made).expect("it was made here");
    }
}
