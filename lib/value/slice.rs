//! Slices of a sequence, `LO:HI:STEP`: Python's syntax without negative
//! numbers. Tools select rows and samples by position with them.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// The positions `lo`, `lo + step`, `lo + 2 * step` … below `hi`, counted from
/// 0.
///
/// ```
/// use tarpipe::value::slice::Slice;
///
/// let slice: Slice = "1:8:3".parse()?;
/// assert_eq!((0..10).filter(|&at| slice.has(at)).collect::<Vec<u64>>(), [1, 4, 7]);
/// # anyhow::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    lo: u64,
    hi: u64,
    step: u64,
}

impl Slice {
    /// Every position.
    pub const ALL: Slice = Slice { lo: 0, hi: u64::MAX, step: 1 };

    /// Returns true if the slice contains this position.
    pub fn has(&self, position: u64) -> bool {
        (self.lo..self.hi).contains(&position) && (position - self.lo).is_multiple_of(self.step)
    }

    /// Returns true if the slice contains no position at or after this one, so
    /// that a reader can stop.
    pub fn is_over(&self, position: u64) -> bool {
        position >= self.hi
    }

    /// Applies `--skip` and `--count` to what the slice selects: drops its
    /// first `skip` positions and keeps at most `count` of the rest. Saturates
    /// instead of overflowing.
    pub fn skip_and_count(self, skip: u64, count: Option<u64>) -> Self {
        let lo = self.lo.saturating_add(skip.saturating_mul(self.step));
        let last = count.map_or(u64::MAX, |count| lo.saturating_add(count.saturating_mul(self.step)));
        Slice { lo, hi: self.hi.min(last), step: self.step }
    }
}

/// Parses `LO:HI` or `LO:HI:STEP`. Each number may be left out: they default to
/// 0, no end, and 1. A slice with `LO >= HI` is valid and empty; a step of 0,
/// negative numbers and a text without a colon are errors.
impl FromStr for Slice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let number = |at: usize, default| match parts.get(at) {
            None | Some(&"") => Ok(default),
            Some(part) => part.parse().with_context(|| format!("'{part}' is not a number (write LO:HI or LO:HI:STEP)")),
        };
        if parts.len() < 2 || parts.len() > 3 {
            bail!("not of the form LO:HI or LO:HI:STEP");
        }
        let slice = Slice { lo: number(0, 0)?, hi: number(1, u64::MAX)?, step: number(2, 1)? };
        if slice.step == 0 {
            bail!("the step must not be 0");
        }
        Ok(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(slice: Slice) -> Vec<u64> {
        (0..10).filter(|&position| slice.has(position)).collect()
    }

    #[test]
    fn slices_select_what_python_selects() {
        assert_eq!(taken("2:5".parse().unwrap()), [2, 3, 4]);
        assert_eq!(taken(":3".parse().unwrap()), [0, 1, 2]);
        assert_eq!(taken("1::4".parse().unwrap()), [1, 5, 9]);
        assert!(taken("5:2".parse().unwrap()).is_empty());
        assert_eq!(taken(Slice::ALL).len(), 10);
    }

    #[test]
    fn skip_and_count_apply_to_the_selection() {
        assert_eq!(taken("1::2".parse::<Slice>().unwrap().skip_and_count(1, Some(2))), [3, 5]);
        assert_eq!(taken(Slice::ALL.skip_and_count(8, None)), [8, 9]);
    }

    #[test]
    fn mistakes_are_refused() {
        for bad in ["5", "1:2:3:4", "a:b", "::0", "-1:"] {
            assert!(bad.parse::<Slice>().is_err(), "{bad}");
        }
    }
}
