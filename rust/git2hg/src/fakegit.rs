//! git for tests: objects in memory, printed as by `git cat-file`.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use gitpack::staged::Readers;
use gitpack::tree::{Mode, push_entry};
use gitpack::{Deflater, Entry, ObjectKind, Oid, PackWriter, object_header};
use parallel::Directory;
use revlog::Node;
use sha1lanes::{Message, digest_one};

/// Objects in memory.
#[derive(Clone, Default)]
pub(crate) struct Git(Arc<Mutex<GitState>>);

#[derive(Default)]
struct GitState {
    objects: HashMap<Oid, Vec<u8>>,
    asked: Vec<u8>,
}

impl Git {
    pub fn add(&self, kind: ObjectKind, content: &[u8]) -> Oid {
        let head = object_header(kind, content.len() as u64);
        let oid = Oid::from_bytes(digest_one(Message { head: &head, body: content }));
        let mut answer = format!("{oid} {} {}\n", kind.name(), content.len()).into_bytes();
        answer.extend_from_slice(content);
        answer.push(b'\n');
        self.state().objects.insert(oid, answer);
        oid
    }

    pub fn tree(&self, entries: &[(Mode, &str, Oid)]) -> Oid {
        let mut content = Vec::new();
        for (mode, name, oid) in entries {
            push_entry(&mut content, *mode, name.as_bytes(), oid);
        }
        self.add(ObjectKind::Tree, &content)
    }

    pub fn commit(&self, tree: Oid, parents: &[Oid], author: &str, message: &str) -> Oid {
        let parents: Vec<String> =
            parents.iter().map(|parent| format!("parent {parent}\n")).collect();
        let rest = format!("author {author}\ncommitter C <c@x> 9 -0100\n\n{message}");
        let text = format!("tree {tree}\n{}{rest}", parents.concat());
        self.add(ObjectKind::Commit, text.as_bytes())
    }

    /// Moves every second tree and blob to a pack.
    pub fn pack(&self, directory: &Directory) {
        let pack = PackWriter::create(directory, Readers::BY_UMASK).expect("is writable");
        let (mut pack, mut number) = (pack.without_sync(), 0);
        self.state().objects.retain(|oid, answer| {
            let end = answer.iter().position(|byte| *byte == b'\n').expect("has a first line");
            let kind = match answer[41] {
                b't' => ObjectKind::Tree,
                b'b' => ObjectKind::Blob,
                _ => return true,
            };
            number += 1;
            if number % 2 == 0 {
                return true;
            }
            let (content, mut stream) = (&answer[end + 1..answer.len() - 1], Vec::new());
            Deflater::new(6).deflate(content, &mut stream);
            let (entry, len) = (Entry::Full(kind), content.len() as u64);
            pack.add(*oid, entry, len, &stream).expect("is writable");
            false
        });
        pack.seal().and_then(gitpack::SealedPack::publish).expect("is writable");
    }

    /// Output of `git cat-file --batch` for these commits.
    pub fn listed(&self, commits: &[Oid]) -> Vec<u8> {
        let state = self.state();
        commits.iter().flat_map(|oid| state.objects[oid].clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, GitState> {
        self.0.lock().expect("nobody panics")
    }

    pub fn pipes(&self) -> (FakeRequests, FakeAnswers) {
        let answers = FakeAnswers::default();
        (FakeRequests(self.clone(), Arc::clone(&answers.0)), answers)
    }
}

pub(crate) struct FakeRequests(Git, Arc<Mutex<VecDeque<u8>>>);

#[derive(Default)]
pub(crate) struct FakeAnswers(Arc<Mutex<VecDeque<u8>>>);

impl Write for FakeRequests {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        state.asked.extend_from_slice(bytes);
        let asked = String::from_utf8(std::mem::take(&mut state.asked)).expect("is ascii");
        let (whole, rest) = asked.rsplit_once('\n').unwrap_or(("", &asked));
        for line in whole.lines().filter(|line| *line != "flush") {
            let digits = line.strip_prefix("contents ").expect("is the only command");
            let oid = Node::from_hex(digits.as_bytes()).expect("is an id");
            let answer = &state.objects[&Oid::from_bytes(*oid.as_bytes())];
            self.1.lock().expect("nobody panics").extend(answer);
        }
        state.asked = rest.as_bytes().to_vec();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for FakeAnswers {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").read(out)
    }
}
