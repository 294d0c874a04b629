//! Fuzz targets: one function for each parser of bytes that may be hostile.
//!
//! `make fuzz` calls them with libFuzzer (`rust/fuzz`, which is not part of the workspace), and
//! `cargo test` with the committed seeds and with all inputs that ever failed (`tests/replay.rs`).
//! A target may refuse its input. It must not panic, take more than [`MOST_TIME`] of a processor,
//! or allocate more than [`Target::most_bytes`]: [`Target::run`] checks that.
//!
//! Owns the assertions. Does not know its callers and their search for inputs.

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

/// Processor time limit of an input.
pub const MOST_TIME: Duration = Duration::from_secs(1);

/// Fuzz target of a parser.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name for `cargo fuzz run`, and of the directory of seeds.
    pub name: &'static str,
    /// Passes the input to the parser.
    pub parse: fn(&[u8]),
    /// Allocation limit of an empty input, in bytes.
    pub base_bytes: usize,
    /// Further allocation limit per byte of the input.
    pub bytes_per_byte: usize,
}

/// Memory for texts, in bytes: the share of buffers in `amalgam.git.memory`.
pub(crate) const TEXT_BYTES: usize = 1 << 20;

/// All targets: first the targets of single records, then the targets of whole files.
pub const TARGETS: [Target; 26] = [
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
    record("exact_commit", pushes::exact_commit),
    // the most directories of a value, which has few bytes for each
    Target { base_bytes: 96 << 20, ..record("exact_tree", pushes::exact_tree) },
    record("hggit_commit", pushes::hggit_commit),
    record("submodules", pushes::submodules),
    record("decoder", pushes::decoder),
    record("pushed_tree", pushes::tree),
    file("revlog", revlogs::revlog),
    file("nodemap", maps::nodemap),
    file("upstream_nodemap", maps::upstream_nodemap),
    file("segment", maps::segment),
    file("packs", packs::objects),
    file("pushed_history", pushes::history),
    file("round_trip", roundtrip::changegroup),
    // fixed memory of every run: packs, compressors, threads
    Target { base_bytes: 24 << 20, ..file("export", exports::export) },
];

/// Target of a single record.
const fn record(name: &'static str, parse: fn(&[u8])) -> Target {
    Target { name, parse, base_bytes: 2 * TEXT_BYTES, bytes_per_byte: 64 }
}

/// Target of a file.
const fn file(name: &'static str, parse: fn(&[u8])) -> Target {
    Target { name, parse, base_bytes: 4 * TEXT_BYTES, bytes_per_byte: 64 }
}

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Allocation limit of an input of `len` bytes.
    #[must_use]
    pub const fn most_bytes(&self, len: usize) -> usize {
        self.base_bytes + self.bytes_per_byte * len
    }

    /// Parses `input`. Memory is counted only if the allocator is [`Counting`].
    ///
    /// # Panics
    ///
    /// With the panic of the parser, or beyond its limits of time and memory.
    pub fn run(&self, input: &[u8]) {
        let spent = bounds::measure(|| (self.parse)(input));
        let Self { name, .. } = self;
        assert!(spent.time <= MOST_TIME, "{name} took {:?}", spent.time);
        let most = self.most_bytes(input.len());
        assert!(spent.peak_bytes <= most, "{name} took {} bytes of {most}", spent.peak_bytes);
    }
}
