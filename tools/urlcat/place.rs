//! Which rows of the numbered whole belong to this process.

use tarpipe::rank::Rank;

/// A part of the rows.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Every row.
    All,
    /// Every N-th piece of so many rows.
    Stride { rank: Rank, per_piece: u64 },
    /// One stretch.
    Range(Range),
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
        }
    }

    /// Whether no row from this number on is ours.
    pub fn is_over(&self, index: u64) -> bool {
        matches!(self, Place::Range(range) if index >= range.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_the_whole_and_do_not_overlap() {
        let ranges: Vec<Range> = (0..3).map(|index| Range::of(Rank { index, count: 3 }, 10)).collect();
        assert_eq!(ranges, [Range { lo: 0, hi: 3 }, Range { lo: 3, hi: 6 }, Range { lo: 6, hi: 10 }]);
    }
}
