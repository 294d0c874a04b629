//! Verification of many texts at once against their nodes.
//!
//! A processor hashes several texts side by side in the time of one (`sha1lanes`). A changegroup
//! names all nodes, so no text waits for the hash of another.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::{mem, panic};

use gitpack::{ObjectKind, Oid, object_header};
use parallel::Buffer;
use revlog::node::{nodes_of_pieces, parents_prefix};
use revlog::{Node, split_metadata};
use sha1lanes::{Message, best};

use crate::build::manifesttext::ManifestText;

/// Texts hashed at once: more are no faster.
const MOST_TEXTS: usize = 64;

/// Revision of a changegroup, whose text is not verified yet.
#[derive(Clone, Debug)]
pub(crate) struct UnverifiedText<X = Arc<Buffer>> {
    pub node: Node,
    pub parents: [Node; 2],
    pub text: X,
}

/// Text to be hashed.
pub(crate) trait HashedText {
    /// Its bytes, in pieces.
    fn pieces(&self) -> Vec<&[u8]>;

    /// Memory that nobody else counts, about.
    fn own_bytes(&self) -> usize;
}

/// Text of a changeset or a manifest.
#[derive(Clone, Debug)]
pub(crate) enum RevisionText {
    Changeset(Arc<Buffer>),
    Manifest(ManifestText),
}

impl HashedText for RevisionText {
    fn pieces(&self) -> Vec<&[u8]> {
        match self {
            Self::Changeset(text) => text.pieces(),
            Self::Manifest(text) => text.pieces(),
        }
    }

    fn own_bytes(&self) -> usize {
        match self {
            Self::Changeset(text) => text.own_bytes(),
            Self::Manifest(_) => 0,
        }
    }
}

impl HashedText for Arc<Buffer> {
    fn pieces(&self) -> Vec<&[u8]> {
        vec![self]
    }

    fn own_bytes(&self) -> usize {
        self.len()
    }
}

/// Pending texts, each with a value of the caller.
#[derive(Debug)]
pub(crate) struct HashBatch<T, X = Arc<Buffer>> {
    waiting: Vec<(T, UnverifiedText<X>)>,
    bytes: usize,
    most_bytes: usize,
}

/// Revision whose text does not match its node, with the value of the caller.
#[derive(Debug)]
pub(crate) struct TextMismatch<T> {
    pub of: T,
    pub node: Node,
}

impl<T, X: HashedText> HashBatch<T, X> {
    /// Starts empty, with a limit of about `most_bytes`.
    pub const fn new(most_bytes: usize) -> Self {
        Self { waiting: Vec::new(), bytes: 0, most_bytes }
    }

    /// Adds a text. Returns true when they should be verified.
    pub fn add(&mut self, of: T, made: UnverifiedText<X>) -> bool {
        self.bytes += made.text.own_bytes();
        self.waiting.push((of, made));
        self.waiting.len() >= MOST_TEXTS || self.bytes >= self.most_bytes
    }

    /// Verifies and drops all texts. Returns the first mismatch.
    pub fn check(&mut self) -> Result<(), TextMismatch<T>> {
        self.bytes = 0;
        let waiting = mem::take(&mut self.waiting);
        let nodes = nodes_of_pieces(waiting.iter().map(|(_, it)| (it.parents, it.text.pieces())));
        compared(waiting, nodes).map(|_| ())
    }
}

/// Batches of texts: one is verified on another thread while the next is collected.
#[derive(Debug)]
pub(crate) struct HashesBeside<T, X> {
    batch: HashBatch<T, X>,
    before: Option<JoinHandle<Result<(), TextMismatch<T>>>>,
}

impl<T: Send + 'static, X: HashedText + Send + 'static> HashesBeside<T, X> {
    /// Starts empty, with batches of about `most_bytes`.
    pub const fn new(most_bytes: usize) -> Self {
        Self { batch: HashBatch::new(most_bytes), before: None }
    }

    /// Adds a text. Returns true when they should be verified.
    pub fn add(&mut self, of: T, made: UnverifiedText<X>) -> bool {
        self.batch.add(of, made)
    }

    /// Verifies the texts on another thread. Returns the first mismatch before them.
    pub fn pass_on(&mut self) -> Result<(), TextMismatch<T>> {
        self.join()?;
        let next = HashBatch::new(self.batch.most_bytes);
        let batch = Arc::new(Mutex::new(mem::replace(&mut self.batch, next)));
        let passed = Arc::clone(&batch);
        let check = |batch: &Mutex<HashBatch<T, X>>| {
            batch.lock().unwrap_or_else(PoisonError::into_inner).check()
        };
        match Builder::new().spawn(move || check(&passed)) {
            Ok(thread) => {
                self.before = Some(thread);
                Ok(())
            }
            // the system starts no thread
            Err(_) => check(&batch),
        }
    }

    /// Verifies all texts. Returns the first mismatch.
    pub fn check(&mut self) -> Result<(), TextMismatch<T>> {
        self.join()?;
        self.batch.check()
    }

    /// Waits for the other thread.
    fn join(&mut self) -> Result<(), TextMismatch<T>> {
        let found = self.before.take().map(JoinHandle::join);
        found.unwrap_or(Ok(Ok(()))).unwrap_or_else(|panic| panic::resume_unwind(panic))
    }
}

impl<T, X> Drop for HashesBeside<T, X> {
    fn drop(&mut self) {
        // after an error, nobody asks for the result
        let _ = self.before.take().map(JoinHandle::join);
    }
}

impl<T> HashBatch<T> {
    /// Like [`Self::check`], for file revisions. Returns their blobs.
    pub fn check_files(&mut self) -> Result<Vec<(T, Node, Oid)>, TextMismatch<T>> {
        self.bytes = 0;
        let waiting = mem::take(&mut self.waiting);
        let contents: Vec<&[u8]> =
            waiting.iter().map(|(_, made)| split_metadata(&made.text).content).collect();
        let heads: Vec<_> = waiting
            .iter()
            .zip(&contents)
            .map(|((_, made), content)| {
                let [p1, p2] = made.parents;
                (parents_prefix(p1, p2), object_header(ObjectKind::Blob, content.len() as u64))
            })
            .collect();
        let texts = waiting.iter().zip(&heads);
        let nodes = texts.map(|((_, made), (head, _))| Message { head, body: &made.text });
        let blobs = contents.iter().zip(&heads);
        let blobs = blobs.map(|(content, (_, head))| Message { head, body: content });
        let messages: Vec<Message<'_>> = nodes.chain(blobs).collect();
        let mut digests = vec![[0; 20]; messages.len()];
        best().digest(&messages, &mut digests);
        let blobs = digests.split_off(contents.len());
        let nodes = digests.into_iter().map(Node::from_bytes);
        let files = compared(waiting, nodes)?.into_iter().zip(blobs);
        Ok(files.map(|((of, node), blob)| (of, node, Oid::from_bytes(blob))).collect())
    }
}

fn compared<T, X>(
    waiting: Vec<(T, UnverifiedText<X>)>,
    nodes: impl IntoIterator<Item = Node>,
) -> Result<Vec<(T, Node)>, TextMismatch<T>> {
    let compare = |((of, made), node): ((T, UnverifiedText<X>), Node)| {
        if node == made.node { Ok((of, node)) } else { Err(TextMismatch { of, node: made.node }) }
    };
    waiting.into_iter().zip(nodes).map(compare).collect()
}

impl<T> TextMismatch<T> {
    /// Description for a message.
    pub fn message(&self) -> String {
        let node = self.node;
        format!("revision {node} has another text")
    }
}

#[cfg(test)]
mod tests {
    use revlog::node::node_of;

    use super::*;

    fn made(text: &str) -> UnverifiedText {
        let parents = [Node::from_bytes([7; 20]), Node::NULL];
        let node = node_of(parents[0], parents[1], text.as_bytes());
        UnverifiedText { node, parents, text: Arc::new(Buffer::from(text.as_bytes().to_vec())) }
    }

    #[test]
    fn the_first_other_text_is_answered() {
        let mut hashes = HashBatch::new(100);
        for number in 0..20 {
            let mut made = made(&number.to_string());
            if number % 7 == 6 {
                made.text = Arc::default();
            }
            assert!(!hashes.add(number, made));
        }
        let found = hashes.check().expect_err("is found");
        assert_eq!(found.of, 6);
        hashes.check().expect("nothing is left");
    }

    #[test]
    fn batches_before_and_after_are_verified() {
        for wrong in 0..9 {
            let mut hashes = HashesBeside::new(100);
            let mut found = Vec::new();
            for number in 0..9 {
                let mut made = made(&number.to_string());
                if number >= wrong {
                    made.text = Arc::default();
                }
                hashes.add(number, made);
                if number % 3 == 1 {
                    found.extend(hashes.pass_on().err());
                }
            }
            found.extend(hashes.check().err());
            assert_eq!(found[0].of, wrong);
        }
    }

    #[test]
    fn blobs_have_no_metadata() {
        let mut hashes = HashBatch::new(12);
        assert!(!hashes.add("plain", made("")));
        assert!(hashes.add("copy", made("\x01\ncopy: a\n\x01\n")));
        let found = hashes.check_files().expect("are right");
        assert!(found.iter().all(|(_, _, oid)| *oid == Oid::EMPTY_BLOB));
        let names: Vec<_> = found.iter().map(|(of, ..)| *of).collect();
        assert_eq!(names, ["plain", "copy"]);
    }
}
