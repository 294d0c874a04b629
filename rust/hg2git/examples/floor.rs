//! The least time of a verified export: `floor STORE [THREADS]`.
//!
//! Rebuilds the text of every file revision of the directory `.hg/store`, and hashes it as node and
//! as blob, with the code of an export. Compares the nodes and writes nothing. Prints the number of
//! texts, their bytes, and the seconds, elapsed and of processors. Linux: reads `/proc`.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use gitpack::object_header;
use parallel::Buffer;
use revlog::node::parents_prefix;
use revlog::{
    Encoding, Node, Parents, Rev, Revlog, RevlogKind, Scratch, Store, Texts, split_metadata,
};
use sha1lanes::{Message, best};

/// `USER_HZ`: the unit of times in `/proc/self/stat`, the same on all Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// Approximate text that one job rebuilds, in bytes.
const JOB_TEXT_BYTES: u64 = 96 << 20;
/// Texts kept while walking a filelog, in bytes.
const KEPT_TEXT_BYTES: usize = 12 << 20;
/// Most texts hashed together, and their most bytes, as in an export.
const HASHED_AT_ONCE: usize = 16;
const HASHED_TEXT_BYTES: usize = 16 << 20;

type Problem = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Problem> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, rest @ ..] = arguments.as_slice() else {
        return Err("usage: floor STORE [THREADS]".into());
    };
    let threads = match rest.first() {
        Some(threads) => threads.parse()?,
        None => std::thread::available_parallelism()?.get(),
    };
    let (start, before) = (Instant::now(), core_seconds()?);
    let store = Path::new(store);
    let paths = filelog_paths(&fs::read(store.join("fncache"))?);
    let store = Store::new(store, Encoding::DotEncode);
    let jobs = in_threads(threads, &paths, |jobs: &mut Vec<Job>, path| {
        jobs.extend(cut(store.open(RevlogKind::Filelog(path))?));
        Ok(())
    })?;
    let mut jobs: Vec<Job> = jobs.into_iter().flatten().collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.text_bytes));
    let hashers = in_threads(threads, &jobs, Hasher::convert)?;
    let (mut texts, mut bytes) = (0, 0);
    for mut hasher in hashers {
        hasher.hash()?;
        texts += hasher.texts;
        bytes += hasher.bytes;
    }
    println!(
        "{texts} texts, {bytes} bytes, {threads} threads, {}: {:.3} s, {:.2} core-seconds",
        best().name(),
        start.elapsed().as_secs_f64(),
        core_seconds()? - before,
    );
    Ok(())
}

/// Distributes `items` to threads, and returns the results of each thread.
fn in_threads<T: Sync, K: Default + Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&mut K, &T) -> Result<(), Problem> + Sync,
) -> Result<Vec<K>, Problem> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut kept = K::default();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(&mut kept, item)?;
        }
        Ok(kept)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// The paths that have a filelog, from Mercurial's fncache.
fn filelog_paths(fncache: &[u8]) -> Vec<Vec<u8>> {
    let lines = fncache.split(|&byte| byte == b'\n');
    let names = lines.filter_map(|line| line.strip_prefix(b"data/")?.strip_suffix(b".i"));
    // Mercurial's decodedir
    let decoded = names.map(|name| {
        let mut path = Vec::with_capacity(name.len());
        for part in name.split_inclusive(|&byte| byte == b'/') {
            let is_encoded = [b".i.hg/".as_slice(), b".d.hg/", b".hg.hg/"]
                .iter()
                .any(|suffix| part.ends_with(suffix));
            if is_encoded {
                path.extend(&part[..part.len() - b".hg/".len()]);
                path.push(b'/');
            } else {
                path.extend(part);
            }
        }
        path
    });
    decoded.collect()
}

/// Consecutive revisions of a filelog.
struct Job {
    revlog: Arc<Revlog>,
    revs: Vec<Rev>,
    text_bytes: u64,
}

/// Cuts a filelog into jobs.
fn cut(revlog: Revlog) -> Vec<Job> {
    let revlog = Arc::new(revlog);
    let mut jobs = Vec::new();
    let mut job = Job { revlog: Arc::clone(&revlog), revs: Vec::new(), text_bytes: 0 };
    for rev in revlog.index().revs() {
        job.revs.push(rev);
        job.text_bytes += u64::from(revlog.index().text_len_hint(rev));
        if job.text_bytes >= JOB_TEXT_BYTES {
            let next = Job { revlog: Arc::clone(&revlog), revs: Vec::new(), text_bytes: 0 };
            jobs.push(std::mem::replace(&mut job, next));
        }
    }
    jobs.push(job);
    jobs
}

/// The state of one thread.
#[derive(Default)]
struct Hasher {
    scratch: Scratch,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    texts: u64,
    bytes: u64,
}

/// A text that waits to be hashed with others, also of other filelogs.
struct Waiting {
    text: Arc<Buffer>,
    hg_head: [u8; 40],
    node: Node,
}

impl Hasher {
    fn convert(&mut self, job: &Job) -> Result<(), Problem> {
        let index = job.revlog.index();
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut texts = Texts::new(&job.revlog, &mut scratch, KEPT_TEXT_BYTES);
        for &rev in &job.revs {
            let revision = texts.get(rev)?;
            texts.recycle_delta(revision.delta);
            let Parents(p1, p2) = index.parents(rev);
            let hg_head = parents_prefix(index.node_or_null(p1), index.node_or_null(p2));
            self.waiting_bytes += revision.text.len();
            self.waiting.push(Waiting { text: revision.text, hg_head, node: index.node(rev) });
            if self.waiting.len() == HASHED_AT_ONCE || self.waiting_bytes > HASHED_TEXT_BYTES {
                self.hash()?;
                self.waiting.drain(..).for_each(|waited| texts.recycle(waited.text));
            }
        }
        drop(texts);
        self.scratch = scratch;
        Ok(())
    }

    /// Hashes all waiting texts, as nodes and as blobs.
    fn hash(&mut self) -> Result<(), Problem> {
        let contents: Vec<&[u8]> =
            self.waiting.iter().map(|waited| split_metadata(&waited.text).content).collect();
        let git_heads: Vec<_> = contents
            .iter()
            .map(|content| object_header(gitpack::ObjectKind::Blob, content.len() as u64))
            .collect();
        let hg = self.waiting.iter();
        let hg = hg.map(|waited| Message { head: &waited.hg_head, body: &waited.text });
        let git = git_heads.iter().zip(contents);
        let git = git.map(|(head, body)| Message { head, body });
        let messages: Vec<_> = hg.chain(git).collect();
        let mut digests = vec![[0; 20]; messages.len()];
        best().digest(&messages, &mut digests);
        for (waited, digest) in self.waiting.iter().zip(std::hint::black_box(digests)) {
            if waited.node != Node::from_bytes(digest) {
                return Err(format!("text does not match its node {}", waited.node).into());
            }
        }
        self.texts += self.waiting.len() as u64;
        self.bytes += self.waiting_bytes as u64;
        self.waiting_bytes = 0;
        Ok(())
    }
}

/// Processor seconds that this process has used so far.
fn core_seconds() -> Result<f64, Problem> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // fields 14 and 15; the name before the bracket may have spaces
    let (_, fields) = stat.rsplit_once(')').ok_or("no stat")?;
    let times = fields.split(' ').skip(12).take(2).map(str::parse::<f64>);
    Ok(times.sum::<Result<f64, _>>()? / TICKS_PER_SECOND)
}
