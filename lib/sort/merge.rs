//! Many runs as one: the smallest key of all comes next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use anyhow::Result;

use super::arena::{compare, prefix};
use super::run::{Run, RunReader};
use super::spill::Spill;
use super::{Options, Record};

/// What a run needs at least: a smaller buffer would seek too often.
const LEAST_BUFFER: u64 = 64 << 10;
const LARGEST_BUFFER: u64 = 4 << 20;
/// More runs than this gain nothing over another pass.
const MOST_RUNS: u64 = 2048;

/// How many runs are merged at once: half of the memory is for their buffers.
pub(super) fn fan_in(memory: u64) -> usize {
    (memory / 2 / LEAST_BUFFER).clamp(2, MOST_RUNS) as usize
}

pub(super) struct Merge {
    runs: Vec<RunReader>,
    heads: BinaryHeap<Head>,
    key: Vec<u8>,
    body: Vec<u8>,
}

/// The next key of a run. The greatest head is the one that comes next.
struct Head {
    prefix: u64,
    key: Vec<u8>,
    run: usize,
    reverse: bool,
}

impl Merge {
    pub(super) fn new(runs: &[Run], spill: &Spill, options: &Options) -> Result<Self> {
        let buffer = (options.memory / 2 / runs.len().max(1) as u64).clamp(LEAST_BUFFER, LARGEST_BUFFER) as usize;
        let mut merge = Merge { runs: Vec::new(), heads: BinaryHeap::new(), key: Vec::new(), body: Vec::new() };
        for (at, run) in runs.iter().enumerate() {
            merge.runs.push(RunReader::new(run, spill, buffer)?);
            merge.enter(at, Vec::new(), options.reverse)?;
        }
        Ok(merge)
    }

    /// The next record of all; of equal ones, that of the earliest run.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>> {
        let Some(head) = self.heads.pop() else { return Ok(None) };
        let spent = std::mem::replace(&mut self.key, head.key);
        self.body.clear();
        self.runs[head.run].read_body(&mut self.body)?;
        self.enter(head.run, spent, head.reverse)?;
        Ok(Some(Record { key: &self.key, body: &self.body }))
    }

    /// Puts the next head of a run among the others; `key` is memory to use.
    fn enter(&mut self, run: usize, mut key: Vec<u8>, reverse: bool) -> Result<()> {
        if self.runs[run].advance()? {
            key.clear();
            key.extend_from_slice(&self.runs[run].key);
            self.heads.push(Head { prefix: prefix(&key), key, run, reverse });
        }
        Ok(())
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = compare((self.prefix, &self.key), (other.prefix, &other.key));
        let order = if self.reverse { order } else { order.reverse() };
        order.then_with(|| other.run.cmp(&self.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}
