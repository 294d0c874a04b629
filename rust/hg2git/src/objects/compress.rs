//! Compression of objects, with the faster compressor for each length.
//!
//! `docs/decisions/compression.rst` has the measurements.

use std::sync::Arc;

use gitpack::{Deflater, ObjectKind, QuickDeflater};
use parallel::{Budget, Buffer};

use crate::error::Result;
use crate::objects::object::Object;

/// Longest payload for the compressor without setup cost, in bytes.
const SHORT: usize = 16 << 10;

/// Compressors of one thread.
pub(crate) struct Compressor {
    storing: Deflater,
    short: QuickDeflater,
    long: Deflater,
    budget: Arc<Budget>,
}

impl Compressor {
    /// Compresses long payloads at `level`, 1 to 12, to streams within `budget`.
    pub fn new(level: u8, budget: &Arc<Budget>) -> Self {
        let budget = Arc::clone(budget);
        let (storing, long) = (Deflater::new(0), Deflater::new(level));
        Self { storing, short: QuickDeflater::default(), long, budget }
    }

    /// No streams yet.
    pub fn streams(&self) -> Streams {
        let budget = Some(Arc::clone(&self.budget));
        Streams { bytes: Buffer::new(budget), ends: Vec::new() }
    }

    /// Appends the stream of `payload` to `streams`.
    pub fn deflate(&mut self, payload: &[u8], streams: &mut Streams) -> Result<()> {
        if payload.len() <= SHORT {
            let bound = QuickDeflater::bound(payload.len());
            streams.push(bound, |room| self.short.deflate_to(payload, room))
        } else {
            let bound = self.long.bound(payload.len());
            streams.push(bound, |room| self.long.deflate_to(payload, room))
        }
    }

    /// Appends `payload` to `streams` without compression, which would gain little.
    pub fn store(&mut self, payload: &[u8], streams: &mut Streams) -> Result<()> {
        let bound = self.storing.bound(payload.len());
        streams.push(bound, |room| self.storing.deflate_to(payload, room))
    }

    /// Compresses the payloads of objects.
    pub fn deflate_all(&mut self, objects: &[Object]) -> Result<Streams> {
        let mut streams = self.streams();
        for Object { kind, base, payload, .. } in objects {
            match (kind, base) {
                // deltas of trees insert little but ids, which do not compress
                (ObjectKind::Tree, Some(_)) => self.store(payload, &mut streams)?,
                _ => self.deflate(payload, &mut streams)?,
            }
        }
        Ok(streams)
    }
}

/// Compressed payloads, one after the other in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    bytes: Buffer,
    ends: Vec<usize>,
}

impl Streams {
    /// Appends the output of `deflate`, which writes into room of `bound` bytes and returns its
    /// length.
    fn push(&mut self, bound: usize, deflate: impl FnOnce(&mut [u8]) -> usize) -> Result<()> {
        let start = self.bytes.len();
        self.bytes.reserve(bound)?;
        self.bytes.resize(start + bound)?;
        let len = deflate(&mut self.bytes[start..]);
        self.bytes.truncate(start + len);
        self.ends.push(start + len);
        Ok(())
    }

    /// All streams, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}
