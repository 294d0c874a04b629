//! Short byte strings on the stack, for headers that are written by the million.
//!
//! Does not know the meaning of the bytes. The user chooses an `N` that fits its longest header.

use std::ops::Deref;

/// At most `N` bytes, read as a slice. `N` is below 256.
#[derive(Clone, Copy)]
pub(crate) struct StackBytes<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

impl<const N: usize> StackBytes<N> {
    /// Creates an empty string.
    pub(crate) fn new() -> Self {
        const { assert!(N <= u8::MAX as usize) };
        Self { bytes: [0; N], len: 0 }
    }

    /// Appends `byte`; panics if the string is full.
    pub(crate) fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.len)] = byte;
        self.len += 1;
    }

    /// Appends `bytes`; panics if they do not fit.
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
