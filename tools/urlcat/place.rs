//! Which rows of the numbered whole belong to this process.

use std::str::FromStr;

use anyhow::{Context, Result, bail};
use tarpipe::value::partition::Rank;

/// A part of the rows.
#[derive(Clone, Debug)]
pub enum Place {
    /// Every row.
    All,
    /// Every N-th piece of so many rows.
    Stride { rank: Rank, per_piece: u64 },
    /// One stretch.
    Range(Range),
    /// The pieces of so many rows whose numbers, from `first` on, were named.
    Pieces { numbers: Numbers, first: u64, per_piece: u64 },
}

/// Numbers that were listed: ranges that include both ends, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(Vec<(u64, u64)>);

/// `0,3,7-9`
impl FromStr for Numbers {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut ranges = Vec::new();
        for item in text.split(',') {
            let (lo, hi) = item.split_once('-').unwrap_or((item, item));
            let number = |text: &str| {
                text.parse::<u64>().with_context(|| format!("'{item}' is no number or range (such as 7-9)"))
            };
            let range = (number(lo)?, number(hi)?);
            if range.0 > range.1 {
                bail!("'{item}' ends before it begins");
            }
            ranges.push(range);
        }
        ranges.sort_unstable();
        Ok(Numbers(ranges))
    }
}

impl Numbers {
    fn has(&self, number: u64) -> bool {
        let after = self.0.partition_point(|range| range.0 <= number);
        self.0[..after].last().is_some_and(|range| number <= range.1)
    }

    fn last(&self) -> u64 {
        self.0.iter().map(|range| range.1).max().unwrap_or(0)
    }
}

/// Rows from `lo` up to, but without, `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    lo: u64,
    hi: u64,
}

impl Range {
    /// The part of `rows` that falls to `rank`; parts differ by at most one row.
    pub fn of(rank: Rank, rows: u64) -> Self {
        let cut = |part: u64| (u128::from(rows) * u128::from(part) / u128::from(rank.count)) as u64;
        Range { lo: cut(rank.index), hi: cut(rank.index + 1) }
    }
}

impl Place {
    /// Whether the row with this number is ours.
    pub fn has(&self, index: u64) -> bool {
        match self {
            Place::All => true,
            Place::Stride { rank, per_piece } => rank.has(index / per_piece),
            Place::Range(range) => (range.lo..range.hi).contains(&index),
            Place::Pieces { numbers, first, per_piece } => numbers.has(first + index / per_piece),
        }
    }

    /// Whether no row from this number on is ours.
    pub fn is_over(&self, index: u64) -> bool {
        match self {
            Place::All | Place::Stride { .. } => false,
            Place::Range(range) => index >= range.hi,
            Place::Pieces { numbers, first, per_piece } => first + index / per_piece > numbers.last(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_listed_alone_or_as_ranges() {
        let numbers: Numbers = "7-9,3,0".parse().unwrap();
        let found: Vec<u64> = (0..12).filter(|&number| numbers.has(number)).collect();
        assert_eq!((found, numbers.last()), (vec![0, 3, 7, 8, 9], 9));
        for wrong in ["", "1,", "a", "9-7", "-1"] {
            assert!(wrong.parse::<Numbers>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_are_the_whole_and_do_not_overlap() {
        let ranges: Vec<Range> = (0..3).map(|index| Range::of(Rank { index, count: 3 }, 10)).collect();
        assert_eq!(ranges, [Range { lo: 0, hi: 3 }, Range { lo: 3, hi: 6 }, Range { lo: 6, hi: 10 }]);
    }
}
