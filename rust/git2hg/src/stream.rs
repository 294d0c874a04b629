//! A changegroup as the revlogs that Mercurial makes of it in an empty repository.
//!
//! They are written as the files of a stream clone: version 2 of the format, see
//! `mercurial/streamclone.py`. The index of the changelog comes last, so a store that got a part of
//! the files has no changesets. Mercurial encodes the names. `revlogs` writes one revlog, and
//! `bases` chooses its delta bases.

mod bases;
mod revlogs;

use std::fs::File;
use std::io::{BufWriter, Write};

use changegroup::GroupVersion;
use hashbrown::HashMap;
use parallel::Directory;
use revlog::Node;
use revlog::writing::Compression;

use crate::error::{Error, Result};
use crate::progress::{ConversionStage, ConversionWatch};
use crate::verify::chunks::GroupFile;
use crate::verify::fault::{Fault, Problem};

use self::revlogs::{Kind, NewRevlog};

/// Settings of the written revlogs.
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings<'a> {
    /// Format of the changegroup.
    pub version: GroupVersion,
    /// Compression of the repository.
    pub compression: Compression,
    /// Length limit of delta chains.
    pub longest_chain: u32,
    /// Directory of temporary files.
    pub dir: &'a Directory,
    /// Memory for texts.
    pub memory_bytes: usize,
}

/// Files that were written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Streamed {
    /// Names, as Mercurial has them before it encodes them. They have no newline.
    pub names: Vec<Vec<u8>>,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Number of changesets.
    pub changesets: u64,
    /// Number of file revisions.
    pub revisions: u64,
    /// Number of files with revisions.
    pub files: u64,
    /// Names of branches, escaped as in extras.
    pub branches: Vec<Vec<u8>>,
    /// For each changeset, twice the number of its branch, and one more if it closes it.
    pub branch_of: Vec<u32>,
}

/// Writes the revlogs of the changegroup from `start` on in `group` to `out`.
///
/// # Errors
///
/// Errors of files, [`Error::Wrong`] for a changegroup that has no such revlogs, and
/// [`Error::Cancelled`].
pub fn stream(
    (group, start): (&File, u64),
    out: &File,
    settings: &StreamSettings<'_>,
    watch: ConversionWatch<'_>,
) -> Result<Streamed> {
    let mut group = GroupFile::new(group, start, settings.version);
    let mut files = StreamedFiles { out: BufWriter::new(out), streamed: Streamed::default() };
    let mut changelog = NewRevlog::new(Kind::Changelog, settings)?;
    let mut manifest = NewRevlog::new(Kind::Manifest, settings)?;
    let mut filelog = NewRevlog::new(Kind::Filelog, settings)?;
    let mut done = 0;
    let mut tick = |more: u32| {
        done += u64::from(more);
        if watch(ConversionStage::Store, done) { Err(Error::Cancelled) } else { Ok(()) }
    };
    let mut links: HashMap<Node, u32> = HashMap::new();
    changelog.read(&mut group, |node| {
        let number = u32::try_from(links.len()).ok()?;
        Some(*links.entry(node).or_insert(number))
    })?;
    let link = |node| links.get(&node).copied();
    tick(changelog.len())?;
    let branches = std::mem::take(&mut changelog.branches);
    (files.streamed.branches, files.streamed.branch_of) = (branches.names, branches.of);
    manifest.read(&mut group, link)?;
    group.end_of_manifests().map_err(wrong)?;
    tick(0)?;
    while let Some(name) = group.file_name().map_err(wrong)? {
        filelog.read(&mut group, link)?;
        files.streamed.revisions += u64::from(filelog.len());
        files.streamed.files += 1;
        files.add(&[b"data/", &*name].concat(), &mut filelog)?;
        tick(0)?;
    }
    group.check_end().map_err(wrong)?;
    files.streamed.changesets = u64::from(changelog.len());
    files.add(b"00manifest", &mut manifest)?;
    files.add(b"00changelog", &mut changelog)?;
    files.out.flush().map_err(Error::Output)?;
    Ok(files.streamed)
}

fn wrong(problem: Problem) -> Error {
    match problem {
        Problem::Error(error) => error,
        Problem::Fault(Fault { message, .. }) => Error::Wrong(message),
    }
}

/// Files of a stream clone.
struct StreamedFiles<'a> {
    out: BufWriter<&'a File>,
    streamed: Streamed,
}

impl StreamedFiles<'_> {
    /// Adds the files of a revlog, and empties it.
    fn add(&mut self, name: &[u8], revlog: &mut NewRevlog<'_>) -> Result<()> {
        if revlog.len() > 0 {
            let data = revlog.data_len();
            if !revlog.is_inline() {
                self.start([name, b".d"].concat(), data)?;
                revlog.write_data(&mut self.out)?;
            }
            self.start([name, b".i"].concat(), revlog.index_len())?;
            revlog.write_index(&mut self.out)?;
        }
        revlog.clear()
    }

    /// Starts a file of `len` bytes.
    fn start(&mut self, name: Vec<u8>, len: u64) -> Result<()> {
        let mut head = vec![b's'];
        push_number(name.len() as u64, &mut head);
        push_number(len, &mut head);
        head.extend_from_slice(&name);
        self.out.write_all(&head).map_err(Error::Output)?;
        self.streamed.bytes += len;
        self.streamed.names.push(name);
        Ok(())
    }
}

/// Appends a number as `mercurial.util.uvarintencode` does: 7 bits a byte, lowest first.
fn push_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}
