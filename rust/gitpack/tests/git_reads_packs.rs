//! Verification of our packs by git.
//!
//! git must read every object, and write the same indexes for our pack.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gitpack::delta::{self, Op};
use gitpack::tree::{Mode, entry_order, push_entry};
use gitpack::{
    Deflater, Differ, Entry, ObjectKind, Offset, Oid, PackWriter, Published, QuickDeflater,
    Readers, object_header,
};
use parallel::Directory;
use sha1::{Digest, Sha1};
use tempfile::TempDir;

/// A bare repository, and git without other configuration.
struct Repository {
    dir: TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { dir: tempfile::tempdir().expect("temporary directory") };
        repository.git(&["init", "-q", "--bare"], b"");
        repository
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn packs(&self) -> PathBuf {
        self.path().join("objects/pack")
    }

    /// Standard output and standard error of a git command that must succeed.
    fn git_all(&self, args: &[&str], input: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let stdin = self.path().join("stdin");
        fs::write(&stdin, input).expect("is writable");
        let output = Command::new("git")
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::from(fs::File::open(&stdin).expect("was written")))
            .output()
            .expect("git is installed");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {args:?}: {message}");
        (output.stdout, output.stderr)
    }

    fn git(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        self.git_all(args, input).0
    }
}

/// A pack being written, and the contents of its objects by id.
struct Store {
    writer: PackWriter,
    contents: BTreeMap<Oid, (ObjectKind, Vec<u8>)>,
    /// Bases of the objects that are stored as deltas.
    bases: BTreeMap<Oid, Oid>,
    deflater: Deflater,
    differ: Differ,
}

impl Store {
    fn new(dir: &Path) -> Self {
        Self {
            writer: PackWriter::create(&Directory::open(dir).expect("is there"), Readers::BY_UMASK)
                .expect("is writable")
                .without_sync(),
            contents: BTreeMap::new(),
            bases: BTreeMap::new(),
            deflater: Deflater::new(6),
            differ: Differ::new(),
        }
    }

    /// Adds an entry. `payload` is the content or the delta.
    fn put(&mut self, kind: ObjectKind, content: &[u8], entry: Entry, payload: &[u8]) -> Oid {
        let oid = oid(kind, content);
        let mut deflated = Vec::new();
        self.deflater.deflate(payload, &mut deflated);
        let added = self.writer.add(oid, entry, payload.len() as u64, &deflated);
        assert_eq!(
            self.writer.position(&oid).expect("is readable"),
            Some(added.expect("is writable"))
        );
        self.contents.insert(oid, (kind, content.to_vec()));
        oid
    }

    fn add(&mut self, kind: ObjectKind, content: &[u8]) -> Oid {
        let oid = oid(kind, content);
        if self.writer.position(&oid).expect("is readable").is_some() {
            oid
        } else {
            self.add_full(kind, content)
        }
    }

    fn add_full(&mut self, kind: ObjectKind, content: &[u8]) -> Oid {
        self.put(kind, content, Entry::Full(kind), content)
    }

    /// Adds `content` as a delta of `base` if that is short, otherwise as a full object.
    fn add_near(&mut self, kind: ObjectKind, content: &[u8], base: Option<Oid>) -> Oid {
        let Some(base) = base
            .filter(|_| self.writer.position(&oid(kind, content)).expect("is readable").is_none())
        else {
            return self.add(kind, content);
        };
        let mut delta = Vec::new();
        let limit = content.len() / 2;
        if !self.differ.diff(&self.contents[&base].1, content, limit, &mut delta) {
            return self.add_full(kind, content);
        }
        self.put_delta(kind, content, base, &delta)
    }

    fn put_delta(&mut self, kind: ObjectKind, content: &[u8], base: Oid, delta: &[u8]) -> Oid {
        let entry = Entry::Delta { base: self.offset(base) };
        let oid = self.put(kind, content, entry, delta);
        self.bases.insert(oid, base);
        oid
    }

    fn offset(&self, oid: Oid) -> Offset {
        self.writer.position(&oid).expect("is readable").expect("was added")
    }
}

fn oid(kind: ObjectKind, content: &[u8]) -> Oid {
    let header = object_header(kind, content.len() as u64);
    let sha1 = Sha1::new_with_prefix(&*header).chain_update(content).finalize();
    Oid::from_bytes(sha1.into())
}

/// Pseudo-random bytes, which do not compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}

fn range(bytes: &[u8], offset: u64, len: u64) -> &[u8] {
    let number = |n: u64| usize::try_from(n).expect("is within the bytes");
    &bytes[number(offset)..][..number(len)]
}

fn lines(seed: u64, count: usize) -> Vec<u8> {
    let numbers = noise(seed, count);
    let line = |(at, byte): (usize, &u8)| format!("line {at} of {seed}, which says {byte}\n");
    numbers.iter().enumerate().flat_map(|pair| line(pair).into_bytes()).collect()
}

fn tree(entries: &mut [(&str, Mode, Oid)]) -> Vec<u8> {
    entries.sort_by(|a, b| {
        let (a_name, b_name) = (a.0.as_bytes(), b.0.as_bytes());
        entry_order(a_name, a.1.is_directory(), b_name, b.1.is_directory())
    });
    let mut content = Vec::new();
    for (name, mode, oid) in entries {
        push_entry(&mut content, *mode, name.as_bytes(), oid);
    }
    content
}

/// The state of a history: the base of the next commit.
#[derive(Default)]
struct Tip {
    commit: Option<Oid>,
    small: Option<Oid>,
    large: Option<Oid>,
    subtree: Option<Oid>,
    tree: Option<Oid>,
}

/// A length that exceeds one copy.
const LARGE: usize = 100_000;

/// Adds a commit that changes a little of a small and a large file.
fn add_commit(store: &mut Store, tip: &Tip, number: usize) -> Tip {
    let mut small = lines(1, 400);
    let mut large = noise(2, LARGE);
    for change in 0..number {
        let at = change * 7919;
        small.splice(at % 9000..at % 9000, lines(100 + change as u64, 2));
        large[(at * 31) % LARGE] ^= 0x55;
    }
    let small = store.add_near(ObjectKind::Blob, &small, tip.small);
    let large = store.add_near(ObjectKind::Blob, &large, tip.large);
    let script = store.add(ObjectKind::Blob, b"#!/bin/sh\n");
    let link = store.add(ObjectKind::Blob, b"sub/small");
    let subtree = tree(&mut [("small", Mode::FILE, small), ("script", Mode::EXECUTABLE, script)]);
    let subtree = store.add_near(ObjectKind::Tree, &subtree, tip.subtree);
    let top = tree(&mut [
        ("sub", Mode::DIRECTORY, subtree),
        ("sub.c", Mode::FILE, small),
        ("sub0", Mode::FILE, large),
        ("link", Mode::SYMLINK, link),
        ("module", Mode::GITLINK, oid(ObjectKind::Commit, b"elsewhere")),
        ("empty", Mode::FILE, Oid::EMPTY_BLOB),
    ]);
    store.add(ObjectKind::Blob, b"");
    let top = store.add_near(ObjectKind::Tree, &top, tip.tree);
    let parent = tip.commit.map(|oid| format!("parent {oid}\n")).unwrap_or_default();
    let author = format!("A U Thor <author@example.com> {} +0000", 1_600_000_000 + number);
    let commit = format!("tree {top}\n{parent}author {author}\ncommitter {author}\n\nnumber\n");
    let commit = store.add(ObjectKind::Commit, commit.as_bytes());
    Tip {
        commit: Some(commit),
        small: Some(small),
        large: Some(large),
        subtree: Some(subtree),
        tree: Some(top),
    }
}

/// A published pack of a history, with its contents.
fn history(repository: &Repository) -> (Published, Store) {
    let mut store = Store::new(&repository.packs());
    let mut tip = Tip::default();
    for number in 0..40 {
        tip = add_commit(&mut store, &tip, number);
    }
    let head = tip.commit.expect("there are commits");
    let published = publish(&mut store, &repository.packs());
    repository.git(&["update-ref", "HEAD", &head.to_string()], b"");
    (published, store)
}

fn publish(store: &mut Store, dir: &Path) -> Published {
    let next = PackWriter::create(&Directory::open(dir).expect("is there"), Readers::BY_UMASK)
        .expect("is writable")
        .without_sync();
    let writer = std::mem::replace(&mut store.writer, next);
    let (len, bytes) = (writer.len(), writer.bytes());
    let sealed = writer.seal().expect("is writable");
    assert_eq!((sealed.objects() as usize, sealed.bytes()), (len, bytes + 20));
    sealed.publish().expect("is writable")
}

fn assert_same_indexes_as_git(repository: &Repository, published: &Published, options: &[&str]) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let pack = dir.path().join("copy.pack");
    fs::hard_link(&published.pack, &pack)
        .or_else(|_| fs::copy(&published.pack, &pack).map(drop))
        .expect("pack was published");
    let mut args = vec!["index-pack", "--rev-index"];
    args.extend_from_slice(options);
    args.push(pack.to_str().expect("path is UTF-8"));
    let name = repository.git(&args, b"");
    assert_eq!(name.trim_ascii(), published.checksum.to_string().as_bytes());
    for (ours, extension) in [(&published.idx, "idx"), (&published.rev, "rev")] {
        let gits = fs::read(pack.with_extension(extension)).expect("git wrote it");
        assert!(fs::read(ours).expect("was published") == gits, "{extension} differs from git's");
    }
}

#[test]
fn git_finds_a_history_whole() {
    let repository = Repository::new();
    history(&repository);
    let (stdout, stderr) = repository.git_all(&["fsck", "--full", "--strict"], b"");
    assert_eq!(String::from_utf8_lossy(&stdout), "");
    assert_eq!(String::from_utf8_lossy(&stderr), "");
    let log = repository.git(&["log", "--format=%s", "--name-status", "--", "sub"], b"");
    assert_eq!(log.split(|&byte| byte == b'\n').filter(|line| *line == b"number").count(), 40);
}

#[test]
fn git_verifies_the_pack_and_its_index() {
    let repository = Repository::new();
    let (published, store) = history(&repository);
    assert!(published.objects > 150);
    assert_eq!(published.objects as usize, store.contents.len());
    let idx = published.idx.to_str().expect("path is UTF-8");
    let listing = repository.git(&["verify-pack", "-v", idx], b"");
    let listing = String::from_utf8(listing).expect("is ASCII");
    assert!(listing.contains("chain length = 30"), "{listing}");
}

#[test]
fn git_would_have_written_the_same_indexes() {
    let repository = Repository::new();
    let (published, _) = history(&repository);
    assert_same_indexes_as_git(&repository, &published, &["--strict"]);
}

#[test]
fn git_reads_every_content_back() {
    let repository = Repository::new();
    let (_, store) = history(&repository);
    let format = "--batch-check=%(objectname) %(objecttype) %(objectsize) %(deltabase)";
    let listing = repository.git(&["cat-file", "--batch-all-objects", format], b"");
    let no_base = Oid::from_bytes([0; 20]);
    let lines = store.contents.iter().map(|(oid, (kind, content))| {
        let base = store.bases.get(oid).unwrap_or(&no_base);
        format!("{oid} {} {} {base}\n", kind.name(), content.len())
    });
    let expected = lines.collect::<Vec<_>>().concat();
    assert_eq!(String::from_utf8(listing).expect("is ASCII"), expected);
    assert!(store.bases.len() > 100, "{} deltas", store.bases.len());

    let contents = repository.git(&["cat-file", "--batch-all-objects", "--batch"], b"");
    let mut expected = Vec::new();
    for (oid, (kind, content)) in &store.contents {
        let header = format!("{oid} {} {}\n", kind.name(), content.len());
        expected.extend_from_slice(header.as_bytes());
        expected.extend_from_slice(content);
        expected.push(b'\n');
    }
    assert!(contents == expected, "contents differ");
}

#[test]
fn git_reads_contents_of_all_sizes() {
    let repository = Repository::new();
    let mut store = Store::new(&repository.packs());
    for len in [0, 1, 15, 16, 2047, 2048, 0xffff, 0x1_0000, 0x1_0001, 3_000_000] {
        store.add(ObjectKind::Blob, &noise(3, len));
        store.add(ObjectKind::Blob, &vec![b'x'; len]);
    }
    let published = publish(&mut store, &repository.packs());
    assert_same_indexes_as_git(&repository, &published, &[]);
    let oids: Vec<_> = store.contents.keys().map(|oid| format!("{oid}\n")).collect();
    let oids = oids.concat();
    let listing = repository.git(&["cat-file", "--batch-check=%(objectname)"], oids.as_bytes());
    assert_eq!(String::from_utf8(listing).expect("is ASCII"), oids);
    repository.git(&["fsck", "--full", "--strict"], b"");
}

#[test]
fn git_reads_what_the_quick_compressor_makes() {
    let repository = Repository::new();
    let mut store = Store::new(&repository.packs());
    let mut quick = QuickDeflater::default();
    let digits: Vec<String> = noise(1, 4000).iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.concat();
    let entry = |at: usize| {
        [format!("160000 {}\0", &digits[at..at + 36]).as_bytes(), &noise(2, 20)].concat()
    };
    let mut contents: Vec<Vec<u8>> = vec![Vec::new(), noise(3, 60_000), lines(4, 1000)];
    for len in 1..60 {
        let (one, other) = digits[..90].split_at(len);
        contents.push(format!("tree {one}\nparent {other}\nauthor \n\nfix it").into());
        contents.push(format!("changeset {one}\nmanifest {other}\nfiles src/a.c").into());
        contents.push((0..len).map(|at| entry(36 * at)).collect::<Vec<_>>().concat());
        contents.extend([digits[..60 * len].into(), noise(5, len), lines(6, len)]);
    }
    for content in &contents {
        let mut stream = vec![0; QuickDeflater::bound(content.len())];
        let len = quick.deflate_to(content, &mut stream);
        let oid = oid(ObjectKind::Blob, content);
        if store.writer.position(&oid).expect("is readable").is_none() {
            let entry = Entry::Full(ObjectKind::Blob);
            let added = store.writer.add(oid, entry, content.len() as u64, &stream[..len]);
            added.expect("is writable");
        }
    }
    let published = publish(&mut store, &repository.packs());
    // zlib inflates them here
    assert_same_indexes_as_git(&repository, &published, &["--strict"]);
}

#[test]
fn git_reads_deltas_at_the_limits_of_the_format() {
    let repository = Repository::new();
    let mut store = Store::new(&repository.packs());
    let base = noise(4, 0x120_0000);
    let base_oid = store.add(ObjectKind::Blob, &base);
    let long = noise(5, 1000);
    let copy = |offset, len| Op::Copy { offset, len };
    let cases: [&[Op]; 9] = [
        &[copy(0, 1)],
        &[copy(0x01_0101, 0x1_0000)],
        &[copy(0x100_0000, 0xffff), copy(0, 0x1_0001)],
        &[copy(1, base.len() as u64 - 1)],
        &[copy(0, 0x2_0000), Op::Insert(b"x"), copy(0x2_0000, 0x100)],
        &[Op::Insert(&long)],
        &[Op::Insert(&long[..127])],
        &[Op::Insert(&long[..128]), copy(base.len() as u64 - 1, 1)],
        &[Op::Insert(b"y")],
    ];
    for ops in cases {
        let mut content = Vec::new();
        for op in ops {
            content.extend_from_slice(match *op {
                Op::Insert(bytes) => bytes,
                Op::Copy { offset, len } => range(&base, offset, len),
            });
        }
        let mut bytes = Vec::new();
        let (base_len, len) = (base.len() as u64, content.len() as u64);
        delta::encode(base_len, len, ops.iter().copied(), &mut bytes).expect("is legal");
        assert!(delta::apply(&base, &bytes, content.len()).as_ref() == Ok(&content));
        store.put_delta(ObjectKind::Blob, &content, base_oid, &bytes);
    }
    let published = publish(&mut store, &repository.packs());
    assert_same_indexes_as_git(&repository, &published, &[]);
    for oid in store.contents.keys() {
        let content = repository.git(&["cat-file", "blob", &oid.to_string()], b"");
        assert!(content == store.contents[oid].1, "{oid} differs");
    }
}

#[test]
fn the_same_additions_make_the_same_files() {
    let (one, other) = (Repository::new(), Repository::new());
    let (one, other) = (history(&one).0, history(&other).0);
    assert_eq!(one.name, other.name);
}

/// Writes 2.2 GB. Run it by name, with `--ignored`.
#[test]
#[ignore = "writes a pack of 2.2 GB, three times"]
fn git_reads_a_pack_of_more_than_2_gib() {
    let repository = Repository::new();
    let mut store = Store::new(&repository.packs());
    store.deflater = Deflater::new(0);
    let mut small = Vec::new();
    for number in 0..36 {
        store.add(ObjectKind::Blob, &noise(number, 60_000_000));
        store.contents.clear(); // takes as much memory
        small.push(store.add(ObjectKind::Blob, &noise(number, 60)));
    }
    assert!(store.offset(*small.last().expect("were added")).get() > 1 << 31);
    let published = publish(&mut store, &repository.packs());
    assert_same_indexes_as_git(&repository, &published, &[]);
    for (number, oid) in (0..).zip(small) {
        let content = repository.git(&["cat-file", "blob", &oid.to_string()], b"");
        assert_eq!(content, noise(number, 60));
    }
}
