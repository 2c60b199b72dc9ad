//! The part of the numbered rows that this process takes.

use std::str::FromStr;

use anyhow::{Context, Result, bail};
use tarpipe::value::list;
use tarpipe::value::partition::Partition;

/// A subset of the rows, by their numbers.
#[derive(Clone, Debug)]
pub enum RowPartition {
    /// Every row.
    All,
    /// Every N-th shard of `per_shard` rows.
    Stride { part: Partition, per_shard: u64 },
    /// One contiguous range.
    Range(RowRange),
    /// The listed shards of `per_shard` rows, numbered from `first` on.
    Shards { numbers: ShardNumbers, first: u64, per_shard: u64 },
}

/// A list of shard numbers: sorted ranges that include both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardNumbers(Vec<(u64, u64)>);

/// `0,3,7-9`
impl FromStr for ShardNumbers {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut ranges = Vec::new();
        for item in list::items(text) {
            let (lo, hi) = item.split_once('-').unwrap_or((item, item));
            let number = |text: &str| {
                text.parse::<u64>().with_context(|| format!("'{item}' is not a number or a range such as 7-9"))
            };
            let range = (number(lo)?, number(hi)?);
            if range.0 > range.1 {
                bail!("'{item}' ends before it begins");
            }
            ranges.push(range);
        }
        if ranges.is_empty() {
            bail!("empty list of shards");
        }
        ranges.sort_unstable();
        Ok(ShardNumbers(ranges))
    }
}

impl ShardNumbers {
    fn has(&self, number: u64) -> bool {
        let after = self.0.partition_point(|range| range.0 <= number);
        self.0[..after].last().is_some_and(|range| number <= range.1)
    }

    fn last(&self) -> u64 {
        self.0.iter().map(|range| range.1).max().unwrap_or(0)
    }
}

/// The rows from `lo` to `hi`, without `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRange {
    lo: u64,
    hi: u64,
}

impl RowRange {
    /// The part of `rows` rows that `part` takes; the parts differ by at most one row.
    pub fn of(part: Partition, rows: u64) -> Self {
        let cut = |index: u64| (u128::from(rows) * u128::from(index) / u128::from(part.count)) as u64;
        RowRange { lo: cut(part.index), hi: cut(part.index + 1) }
    }
}

impl RowPartition {
    /// Whether the row with this number is taken.
    pub fn has(&self, index: u64) -> bool {
        match self {
            RowPartition::All => true,
            RowPartition::Stride { part, per_shard } => part.has(index / per_shard),
            RowPartition::Range(range) => (range.lo..range.hi).contains(&index),
            RowPartition::Shards { numbers, first, per_shard } => numbers.has(first + index / per_shard),
        }
    }

    /// Whether no row from this number on is taken.
    pub fn is_over(&self, index: u64) -> bool {
        match self {
            RowPartition::All | RowPartition::Stride { .. } => false,
            RowPartition::Range(range) => index >= range.hi,
            RowPartition::Shards { numbers, first, per_shard } => first + index / per_shard > numbers.last(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_listed_alone_or_as_ranges() {
        let numbers: ShardNumbers = "7-9,3,0".parse().unwrap();
        let found: Vec<u64> = (0..12).filter(|&number| numbers.has(number)).collect();
        assert_eq!((found, numbers.last()), (vec![0, 3, 7, 8, 9], 9));
        for wrong in ["", "a", "9-7", "-1"] {
            assert!(wrong.parse::<ShardNumbers>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_cover_all_rows_and_do_not_overlap() {
        let ranges: Vec<RowRange> = (0..3).map(|index| RowRange::of(Partition { index, count: 3 }, 10)).collect();
        assert_eq!(ranges, [RowRange { lo: 0, hi: 3 }, RowRange { lo: 3, hi: 6 }, RowRange { lo: 6, hi: 10 }]);
    }
}
