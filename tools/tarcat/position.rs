//! Takes samples by their position: --shard, --slice, --skip and --count.

use tarpipe::value::partition::Partition;
use tarpipe::value::slice::Slice;

use crate::tarcat::Args;

/// Counts samples and tells which of them are taken.
pub struct PositionFilter {
    /// The part of a single source that is taken. Of several sources, --shard takes whole ones.
    part: Option<Partition>,
    slice: Slice,
    read: u64,
    selected: u64,
}

impl PositionFilter {
    pub fn new(args: &Args, has_several_sources: bool) -> Self {
        let slice = args.slice.unwrap_or(Slice::ALL).skip_and_count(args.skip, args.count);
        PositionFilter { part: args.shard.filter(|_| !has_several_sources), slice, read: 0, selected: 0 }
    }

    /// Counts a sample that was read. Whether it is in the part of --shard.
    pub fn is_in_part(&mut self) -> bool {
        self.read += 1;
        self.part.is_none_or(|part| part.has(self.read - 1))
    }

    /// Counts a sample that was selected. Whether it is in the slice.
    pub fn is_in_slice(&mut self) -> bool {
        self.selected += 1;
        self.slice.has(self.selected - 1)
    }

    /// Whether no further sample will be taken.
    pub fn is_over(&self) -> bool {
        self.slice.is_over(self.selected)
    }
}
