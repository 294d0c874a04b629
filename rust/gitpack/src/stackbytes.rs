//! A few bytes built on the stack, for headers that are written by the million.
//!
//! Does not know what the bytes mean. The user picks an `N` that fits its longest header.

use std::ops::Deref;

/// At most `N` bytes, read as a slice. `N` is below 256.
#[derive(Clone, Copy)]
pub(crate) struct StackBytes<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

impl<const N: usize> StackBytes<N> {
    /// No bytes yet.
    pub(crate) fn new() -> Self {
        const { assert!(N <= u8::MAX as usize) };
        Self { bytes: [0; N], len: 0 }
    }

    /// Appends `byte`; panics when `N` bytes are there already.
    pub(crate) fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.len)] = byte;
        self.len += 1;
    }

    /// Appends all of `bytes`; panics when they do not fit.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.push(byte);
        }
    }
}

impl<const N: usize> Deref for StackBytes<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}
