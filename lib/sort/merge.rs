//! Merges sorted runs into one sequence.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use anyhow::Result;

use super::arena::{compare, prefix};
use super::run::{RunReader, SortedRun};
use super::spill::Spill;
use super::{SortOptions, SortRecord};

/// The minimum buffer of a run: a smaller one would cause too many seeks.
const LEAST_BUFFER: u64 = 64 << 10;
const LARGEST_BUFFER: u64 = 4 << 20;
/// Merging more runs than this at once is not faster than another pass.
const MOST_RUNS: u64 = 2048;

/// How many runs are merged at once: half of the memory is for their buffers.
pub(super) fn fan_in(memory: u64) -> usize {
    (memory / 2 / LEAST_BUFFER).clamp(2, MOST_RUNS) as usize
}

/// The runs, and a heap of their next keys.
pub(super) struct Merge {
    runs: Vec<RunReader>,
    heads: BinaryHeap<MergeHead>,
    key: Vec<u8>,
    body: Vec<u8>,
}

/// The next key of a run. The greatest head in the heap comes next.
struct MergeHead {
    prefix: u64,
    key: Vec<u8>,
    run: usize,
    reverse: bool,
}

impl Merge {
    pub(super) fn new(runs: &[SortedRun], spill: &Spill, options: &SortOptions) -> Result<Self> {
        let buffer = (options.memory / 2 / runs.len().max(1) as u64).clamp(LEAST_BUFFER, LARGEST_BUFFER) as usize;
        let mut merge = Merge { runs: Vec::new(), heads: BinaryHeap::new(), key: Vec::new(), body: Vec::new() };
        for (at, run) in runs.iter().enumerate() {
            merge.runs.push(RunReader::new(run, spill, buffer)?);
            merge.enter(at, Vec::new(), options.reverse)?;
        }
        Ok(merge)
    }

    /// The next record of all runs; among equal keys, that of the earliest run.
    pub(super) fn next(&mut self) -> Result<Option<SortRecord<'_>>> {
        let Some(head) = self.heads.pop() else { return Ok(None) };
        let spent = std::mem::replace(&mut self.key, head.key);
        self.body.clear();
        self.runs[head.run].read_body(&mut self.body)?;
        self.enter(head.run, spent, head.reverse)?;
        Ok(Some(SortRecord { key: &self.key, body: &self.body }))
    }

    /// Adds the next head of a run to the heap; `key` is a buffer to reuse.
    fn enter(&mut self, run: usize, mut key: Vec<u8>, reverse: bool) -> Result<()> {
        if self.runs[run].advance()? {
            key.clear();
            key.extend_from_slice(&self.runs[run].key);
            self.heads.push(MergeHead { prefix: prefix(&key), key, run, reverse });
        }
        Ok(())
    }
}

impl Ord for MergeHead {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = compare((self.prefix, &self.key), (other.prefix, &other.key));
        let order = if self.reverse { order } else { order.reverse() };
        order.then_with(|| other.run.cmp(&self.run))
    }
}

impl PartialOrd for MergeHead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MergeHead {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MergeHead {}
