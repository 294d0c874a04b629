//! Fuzz targets: one function for each parser of bytes that may be hostile.
//!
//! `make fuzz` calls them with libFuzzer (`rust/fuzz`, which is not part of the workspace), and `cargo
//! test` with the committed seeds and with all inputs that ever failed (`tests/replay.rs`). A
//! target may refuse its input. It must not panic, take more than [`MOST_TIME`] of a processor, or
//! allocate more than [`Target::most_bytes`]: [`Target::run`] checks that.
//!
//! Owns what is asserted. Does not know who calls it, nor how inputs are found.

mod bounds;
mod exports;
mod maps;
mod packs;
mod pushes;
mod records;
mod revlogs;
mod roundtrip;
mod scratch;

use std::time::Duration;

pub use bounds::Counting;

/// Processor time that an input may take.
pub const MOST_TIME: Duration = Duration::from_secs(1);

/// A parser to be fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As `cargo fuzz run` and the directories of seeds call it.
    pub name: &'static str,
    /// Passes the input to the parser.
    pub parse: fn(&[u8]),
    /// Bytes that may be allocated whatever the input is.
    pub base_bytes: usize,
    /// Bytes that may be allocated besides for each byte of the input.
    pub bytes_per_byte: usize,
}

/// Memory for texts, in bytes: the part of `amalgam.git.memory` that targets leave to buffers.
pub(crate) const TEXT_BYTES: usize = 1 << 20;

/// All targets: those of single records, then those of whole files.
pub const TARGETS: [Target; 21] = [
    record("chunk", revlogs::chunk),
    record("patch", records::patch),
    record("chain", revlogs::chain),
    record("changeset", records::changeset),
    record("changegroup", records::changegroup),
    record("manifest", records::manifest),
    record("filelog", records::filelog),
    record("path", records::path),
    record("git_delta", records::git_delta),
    record("git_tree", records::git_tree),
    record("message", records::message),
    record("pushed_commit", pushes::commit),
    record("pushed_tree", pushes::tree),
    file("revlog", revlogs::revlog),
    file("nodemap", maps::nodemap),
    file("upstream_nodemap", maps::upstream_nodemap),
    file("segment", maps::segment),
    file("packs", packs::objects),
    file("pushed_history", pushes::history),
    file("round_trip", roundtrip::changegroup),
    // tables of a run, whatever it converts: packs, compressors, threads
    Target { base_bytes: 24 << 20, ..file("export", exports::export) },
];

/// What it makes of a record may be long, and is then no memory.
const fn record(name: &'static str, parse: fn(&[u8])) -> Target {
    Target { name, parse, base_bytes: 2 * TEXT_BYTES, bytes_per_byte: 64 }
}

const fn file(name: &'static str, parse: fn(&[u8])) -> Target {
    Target { name, parse, base_bytes: 4 * TEXT_BYTES, bytes_per_byte: 64 }
}

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Bytes that may be allocated at one time for an input of `len` bytes.
    #[must_use]
    pub const fn most_bytes(&self, len: usize) -> usize {
        self.base_bytes + self.bytes_per_byte * len
    }

    /// Parses `input`. Memory is only counted in a program whose allocator is [`Counting`].
    ///
    /// # Panics
    ///
    /// If the parser does, or took more time or memory than it may.
    pub fn run(&self, input: &[u8]) {
        let spent = bounds::measure(|| (self.parse)(input));
        let Self { name, .. } = self;
        assert!(spent.time <= MOST_TIME, "{name} took {:?}", spent.time);
        let most = self.most_bytes(input.len());
        assert!(spent.peak_bytes <= most, "{name} took {} bytes of {most}", spent.peak_bytes);
    }
}
