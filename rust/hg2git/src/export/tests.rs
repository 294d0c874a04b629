//! Whole runs over small stores: SHA-1 collision attacks that end them, their files, and the
//! metadata commit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dialect::{Authors, Cinnabar};
use gitpack::Readers;
use revlog::node::node_of;
use revlog::{Encoding, MappedIndexes, Node};

use super::converting::SEARCHED_WHOLE;
use super::*;
use crate::map::segment::NO_COMMIT;
use crate::objects::collisions::tests::{ATTACK, ATTACK_ON_NODE};
use crate::read::changelog::Selection;
use crate::request::{EarlierTrees, MetadataFiles, PublishedFiles};

/// Padding that makes a marked text long enough for an attack.
const PADDING: &str = "...............................................................................\
    .................................................";

/// A changeset based on the one before, with all of its files.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenChangeset {
    pub files: BTreeMap<String, String>,
    pub extra: String,
    pub description: String,
}

pub(super) fn changeset(files: &[(&str, &str)]) -> WrittenChangeset {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    WrittenChangeset { files: files.collect(), ..WrittenChangeset::default() }
}

/// Ordinary changesets, each with its own text in `file`.
fn ordinary(numbers: std::ops::Range<usize>) -> Vec<WrittenChangeset> {
    let of = |number| changeset(&[("file", &format!("text {number}\n"))]);
    numbers.map(of).collect()
}

/// A revlog in which each revision is a full text and the child of the one before.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    nodes: Vec<Node>,
    stored_bytes: u64,
    last: String,
}

impl Written {
    fn add(&mut self, text: &str, link_rev: usize) -> Node {
        let number = self.nodes.len();
        let parent = self.nodes.last().copied().unwrap_or(Node::NULL);
        let node = node_of(parent, Node::NULL, text.as_bytes());
        let word = |number: usize| u32::try_from(number).expect("short").to_be_bytes();
        let before = i32::try_from(number).expect("few") - 1;
        // the first has version and features of the revlog: inline, with bases of any kind
        let place = if number == 0 { 0x3_0001 << 32 } else { self.stored_bytes << 16 };
        self.bytes.extend(place.to_be_bytes());
        for field in [word(text.len() + 1), word(text.len()), word(number), word(link_rev)] {
            self.bytes.extend(field);
        }
        self.bytes.extend(before.to_be_bytes());
        self.bytes.extend([0xff; 4]);
        self.bytes.extend(node.as_bytes());
        self.bytes.extend([0; 12]);
        self.bytes.push(b'u');
        self.bytes.extend(text.as_bytes());
        self.stored_bytes += text.len() as u64 + 1;
        self.nodes.push(node);
        text.clone_into(&mut self.last);
        node
    }
}

/// A repository, and its published files.
pub(super) struct Repository {
    root: tempfile::TempDir,
    made: Option<PublishedFiles>,
    keeps_metadata: bool,
    commit_of_first: bool,
    pub(super) authors: Authors,
}

fn no_progress(_: Phase, _: u64, _: u64) -> bool {
    false
}

impl Repository {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().expect("temporary directory");
        for name in ["store/data", "packs", "map"] {
            std::fs::create_dir_all(root.path().join(name)).expect("is writable");
        }
        let authors = Authors::default();
        Self { root, made: None, keeps_metadata: true, commit_of_first: false, authors }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes `changesets`, which begin with the earlier ones, and exports.
    fn export(&mut self, changesets: &[WrittenChangeset]) -> Result<Report> {
        self.export_as::<Cinnabar>(changesets)
    }

    /// As [`Self::export`], by another dialect.
    pub(super) fn export_as<D: Dialect>(
        &mut self,
        changesets: &[WrittenChangeset],
    ) -> Result<Report> {
        let tip = write(&self.path("store"), changesets);
        let selection = Selection {
            len: u32::try_from(changesets.len()).expect("few"),
            tip,
            excluded: Vec::new(),
            known_below: 0,
        };
        let report =
            self.with_request(selection, |request| export::<D>(request, &mut no_progress))?;
        self.made.clone_from(&report.published);
        Ok(report)
    }

    /// Commits of the changesets, in their order; `None` for those without.
    pub(super) fn commits(&self) -> Vec<Option<Oid>> {
        let store = Store::new(&self.path("store"), Encoding::DotEncode);
        let changelog = store.open(RevlogKind::Changelog).expect("is there");
        let map = parallel::Directory::open(&self.path("map")).expect("is there");
        let segments = &self.made.as_ref().expect("is exported").segments;
        let map = OidMap::open(&map, segments, &[]).expect("can be read");
        let index = changelog.index();
        let oid = |rev| map.oid(Table::Changesets, &index.node(rev)).expect("is converted");
        index.revs().map(oid).map(|oid| Some(oid).filter(|oid| *oid != NO_COMMIT)).collect()
    }

    /// Makes the metadata commit of all exported changesets.
    fn metadata_commit(&self) -> Option<(PublishedCommit, u64)> {
        let selection = Selection { len: 0, tip: Node::NULL, excluded: Vec::new(), known_below: 0 };
        let made = self.with_request(selection, |request| {
            metadata_commit::<Cinnabar>(request, &mut no_progress)
        });
        made.expect("nothing is wrong")
    }

    fn with_request<R>(&self, selection: Selection, run: impl FnOnce(&Request<'_>) -> R) -> R {
        let (store, packs, map) = (self.path("store"), self.path("packs"), self.path("map"));
        let [packs, map] =
            [packs, map].map(|path| parallel::Directory::open(&path).expect("is there"));
        let before = self.made.clone();
        run(&Request {
            store: &store,
            indexes: MappedIndexes::default(),
            encoding: Encoding::DotEncode,
            tree_manifests: false,
            packs: &packs,
            replaced_packs: Vec::new(),
            map: &map,
            prefix: "map",
            readers: Readers::BY_UMASK,
            segments: before.as_ref().map(|made| made.segments.clone()).unwrap_or_default(),
            base: 0,
            metadata: self.keeps_metadata.then(|| {
                let before = before.and_then(|made| made.metadata);
                let segments = before.map(|known| known.segments).unwrap_or_default();
                MetadataFiles { segments, base: 0, commit_of_first: self.commit_of_first }
            }),
            unmapped: Vec::new(),
            selection,
            check_texts: true,
            check_each_manifest: false,
            threads: 2,
            memory_bytes: 192 << 20,
            level: 1,
            authors: self.authors.clone(),
            adopted: None,
            earlier: EarlierTrees::OfManifests,
            imported: None,
            other: None,
        })
    }

    /// The message of the error that ends an export of `changesets`. The export leaves no file
    /// behind.
    fn refusal(&mut self, changesets: &[WrittenChangeset]) -> String {
        let files = |path: PathBuf| {
            let names =
                path.read_dir().expect("is there").map(|entry| entry.expect("is there").path());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        let before = [files(self.path("packs")), files(self.path("map"))];
        let said = self.export(changesets).expect_err("an attack").to_string();
        assert_eq!([files(self.path("packs")), files(self.path("map"))], before, "{said}");
        said
    }
}

/// Writes a store, and returns its tip.
fn write(store: &Path, changesets: &[WrittenChangeset]) -> Node {
    let (mut changelog, mut manifest) = (Written::default(), Written::default());
    let mut filelogs: BTreeMap<&str, Written> = BTreeMap::new();
    for (number, WrittenChangeset { files, extra, description }) in changesets.iter().enumerate() {
        let (mut listing, mut changed) = (String::new(), String::new());
        for (name, text) in files {
            let filelog = filelogs.entry(name).or_default();
            let node = match filelog.nodes.last() {
                Some(node) if filelog.last == *text => *node,
                _ => {
                    writeln!(changed, "{name}").expect("is memory");
                    filelog.add(text, number)
                }
            };
            writeln!(listing, "{name}\0{node}").expect("is memory");
        }
        let node = manifest.add(&listing, number);
        let extra = if extra.is_empty() { String::new() } else { format!(" {extra}") };
        changelog.add(&format!("{node}\nme\n0 0{extra}\n{changed}\n{description}"), number);
    }
    let encoded = |name: &str| format!("data/{name}.i").replace("/.", "/~2e");
    let filelogs = filelogs.iter().map(|(name, log)| (encoded(name), log));
    let others = [("00changelog.i", &changelog), ("00manifest.i", &manifest)];
    for (name, log) in filelogs.chain(others.map(|(name, log)| (name.to_owned(), log))) {
        let path = store.join(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("is writable");
        std::fs::write(path, &log.bytes).expect("is writable");
    }
    *changelog.nodes.last().expect("there is one")
}

/// Texts, names and messages that carry an attack, and the start and end of the error.
fn attacks() -> [(WrittenChangeset, &'static str, &'static str); 6] {
    let text = |beginning: &str| format!("{beginning}{PADDING}\n");
    let metadata = format!("\x01\ncopy: {}\ncopyrev: {:040}\n\x01\n", text(ATTACK).trim(), 0);
    let name = format!("{ATTACK} {}", &PADDING[..60].replace('.', "x"));
    [
        (changeset(&[("file", &text(ATTACK))]), "filelog file: revision 2", "node"),
        (changeset(&[("file", &text(ATTACK_ON_NODE))]), "filelog file: revision 2", "node"),
        (changeset(&[("file", &metadata)]), "filelog file: revision 2", "node"),
        (changeset(&[("file", "text"), (&name, "text")]), "manifest: revision 2", "tree"),
        (
            WrittenChangeset { description: text(ATTACK), ..changeset(&[("file", "a")]) },
            "changelog: revision 2",
            "commit",
        ),
        (
            WrittenChangeset { extra: format!("key:{ATTACK}"), ..changeset(&[("file", "b")]) },
            "changelog: revision 2",
            "blob",
        ),
    ]
}

#[test]
fn a_small_export_with_an_attack_ends_and_leaves_nothing() {
    for (attack, place, what) in attacks() {
        let mut repository = Repository::new();
        repository.export(&ordinary(0..2)).expect("nothing is wrong");
        let changesets = [ordinary(0..2), vec![attack], ordinary(3..5)].concat();
        let said = repository.refusal(&changesets);
        assert!(said.starts_with(&format!("{place}: {what} ")), "{said}");
        assert!(said.ends_with(" carries a SHA-1 collision attack"), "{said}");
    }
}

#[test]
fn a_large_export_finds_an_attack_on_an_id_of_an_earlier_one() {
    // the first text of a pair is not noticed, and the store has its id
    let text = |number: usize| format!("{number} {ATTACK} {PADDING}");
    let with = |number: usize| changeset(&[("file", &text(number))]);
    let first = [vec![with(0)], ordinary(1..SEARCHED_WHOLE + 2)].concat();
    let more = ordinary(SEARCHED_WHOLE + 2..2 * SEARCHED_WHOLE + 4);

    let mut repository = Repository::new();
    repository.export(&first).expect("its id is new");
    let said = repository.refusal(&[&first[..], &more, &[with(0)]].concat());
    assert!(said.starts_with("filelog file: revision 2004: blob "), "{said}");
    repository.export(&[&first[..], &more, &[with(1)]].concat()).expect("its id is new");
}

#[test]
fn a_large_export_finds_an_attack_whose_id_comes_again() {
    let attacks = attacks();
    let [(text, ..), .., (described, ..), _] = &attacks;
    let (name, ..) = &attacks[3];
    let rest = ordinary(0..SEARCHED_WHOLE + 1);
    let between = changeset(&[("file", "between")]);
    let twice = |attack: &WrittenChangeset| {
        [&rest[..], &[attack.clone(), between.clone(), attack.clone()]].concat()
    };
    for (attack, kind) in [(text, "blob"), (name, "tree"), (described, "commit")] {
        let said = Repository::new().refusal(&twice(attack));
        assert!(said.contains(&format!(": {kind} ")), "{said}");
    }
}

#[test]
fn a_large_export_finds_an_attack_on_a_node_that_two_paths_have() {
    let text = format!("{ATTACK_ON_NODE} {PADDING}");
    let rest = ordinary(0..SEARCHED_WHOLE + 1);
    let one = [&rest[..], &[changeset(&[("a", &text)])]].concat();
    Repository::new().export(&one).expect("one path has the node");
    let two = [&rest[..], &[changeset(&[("a", &text), ("b", &text)])]].concat();
    let said = Repository::new().refusal(&two);
    assert!(said.starts_with("filelog a: revision 0: node "), "{said}");
}

#[test]
fn without_metadata_commits_are_the_same_and_nothing_is_beside_them() {
    let mut with = Repository::new();
    let mut without = Repository { keeps_metadata: false, ..Repository::new() };
    for count in [2, 5] {
        let changesets = ordinary(0..count);
        let [all, bare] = [&mut with, &mut without]
            .map(|repository| repository.export(&changesets).expect("nothing is wrong"));
        // a blob, a tree and a commit; a tree and a commit of the manifest, and a note
        assert!(bare.objects == 3 * bare.changesets && all.objects == 6 * all.changesets);
        let [all, bare] = [all, bare].map(|report| report.published.expect("some are new"));
        // names follow from contents
        assert_eq!(all.segments, bare.segments);
        assert!(all.metadata.is_some() && bare.metadata.is_none());
    }
    assert!(without.metadata_commit().is_none());
    let names = without.path("map").read_dir().expect("is there");
    let names = names.map(|entry| entry.expect("is there").file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().contains("metadata")));
}

#[test]
fn the_metadata_commit_is_the_same_at_once_and_later() {
    let mut at_once = Repository { commit_of_first: true, ..Repository::new() };
    let changesets = ordinary(0..SEARCHED_WHOLE + 5);
    let made = at_once.export(&changesets).expect("nothing is wrong").published;
    let commit = made.and_then(|made| made.metadata).and_then(|metadata| metadata.commit);
    let commit = commit.expect("it was asked for");

    let mut later = Repository::new();
    assert!(later.metadata_commit().is_none(), "there is nothing to name");
    for count in [SEARCHED_WHOLE, changesets.len()] {
        let made = later.export(&changesets[..count]).expect("nothing is wrong").published;
        assert!(made.is_some_and(|made| made.metadata.is_some_and(|made| made.commit.is_none())));
    }
    let (made, covered) = later.metadata_commit().expect("there are changesets");
    assert_eq!((made, covered), (commit, changesets.len() as u64));

    // only the first run makes it at once, since others do not know the earlier heads
    let more = ordinary(0..SEARCHED_WHOLE + 6);
    let made = at_once.export(&more).expect("nothing is wrong").published;
    assert!(made.is_some_and(|made| made.metadata.is_some_and(|made| made.commit.is_none())));
}

#[test]
fn git_keeps_every_pack() {
    let mut repository = Repository { commit_of_first: true, ..Repository::new() };
    repository.export(&ordinary(0..SEARCHED_WHOLE)).expect("nothing is wrong");
    let files = repository.path("packs").read_dir().expect("is there");
    let paths: Vec<_> = files.map(|entry| entry.expect("is there").path()).collect();
    let with = |extension: &str| {
        let found =
            paths.iter().filter(|path| path.extension().is_some_and(|own| own == extension));
        found.map(|path| path.with_extension("")).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(with("pack").len(), 3);
    assert_eq!(with("pack"), with("keep"));
}
