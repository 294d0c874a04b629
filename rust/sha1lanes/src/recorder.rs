//! A kernel for tests of the schedules: hashes with the `sha1` crate, and records its steps.

use std::cell::RefCell;

use crate::blocks::Block;
use crate::interleave::{Kernel, Words};
use crate::wide::{WIDTH, WideKernel, WideWords};

/// (width, blocks) of each step.
#[derive(Default)]
pub(crate) struct Recorder(RefCell<Vec<(usize, usize)>>);

impl Recorder {
    /// The steps so far.
    pub(crate) fn steps(self) -> Vec<(usize, usize)> {
        self.0.into_inner()
    }
}

impl Kernel for Recorder {
    type State = Words;

    fn state(&self, words: Words) -> Words {
        words
    }

    fn compress<const N: usize>(&self, states: &mut [Words; N], runs: [&[Block]; N]) {
        self.0.borrow_mut().push((N, runs[0].len()));
        for (state, run) in states.iter_mut().zip(runs) {
            assert_eq!(run.len(), runs[0].len());
            sha1::block_api::compress(state, run);
        }
    }

    fn words(&self, state: Words) -> Words {
        state
    }
}

impl WideKernel for Recorder {
    fn compress(&self, chained: &mut WideWords, runs: [&[Block]; WIDTH]) {
        self.0.borrow_mut().push((WIDTH, runs[0].len()));
        for (column, run) in runs.into_iter().enumerate() {
            assert_eq!(run.len(), runs[0].len());
            let mut words = chained.map(|words| words[column]);
            sha1::block_api::compress(&mut words, run);
            for (into, word) in chained.iter_mut().zip(words) {
                into[column] = word;
            }
        }
    }
}
