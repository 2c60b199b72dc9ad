//! Decides which sequence of shards each sample belongs to.

use std::str::FromStr;

use anyhow::{Context, Result, bail};
use tarpipe::digest;
use tarpipe::value::list;

use crate::tarsplit::sequence::{ShardLayout, ShardSequence};

/// The splits of --by-hash: their names and their shares of all keys.
#[derive(Clone, Debug)]
pub struct Splits(Vec<(String, f64)>);

/// `train=0.9,val=0.1`
impl FromStr for Splits {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut splits: Vec<(String, f64)> = Vec::new();
        for item in list::items(text) {
            let (name, share) = item.split_once('=').with_context(|| format!("'{item}' is not NAME=SHARE"))?;
            let share: f64 = share.parse().with_context(|| format!("'{share}' is not a number"))?;
            if !(0.0..=1.0).contains(&share) || name.is_empty() || splits.iter().any(|split| split.0 == name) {
                bail!("'{item}' is not a new name with a share from 0 to 1");
            }
            splits.push((name.to_owned(), share));
        }
        let sum: f64 = splits.iter().map(|split| split.1).sum();
        if (sum - 1.0).abs() > 1e-6 {
            bail!("the shares add up to {sum}, not to 1");
        }
        Ok(Splits(splits))
    }
}

impl Splits {
    /// Whether a split has this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|split| split.0 == name)
    }

    fn split_of(&self, key: &str) -> usize {
        let mut left = digest::fraction(key);
        let found = self.0.iter().position(|split| {
            left -= split.1;
            left < 0.0
        });
        found.unwrap_or(self.0.len() - 1)
    }
}

/// How samples are distributed over sequences of shards.
pub enum Router {
    /// All go to a single sequence.
    One,
    /// Each goes to the next of N sequences: N, and the next index.
    Turn(usize, usize),
    /// A hash of the key selects the split.
    Hash(Splits),
}

impl Router {
    pub fn new(shards: Option<u64>, splits: Option<&Splits>) -> Self {
        match (shards, splits) {
            (Some(n), _) => Router::Turn(n as usize, 0),
            (None, Some(splits)) => Router::Hash(splits.clone()),
            (None, None) => Router::One,
        }
    }

    /// All sequences, in the order of the indices that [`Router::route`] returns.
    pub fn sequences<'a>(&self, layout: &'a ShardLayout) -> Vec<ShardSequence<'a>> {
        match self {
            Router::One => vec![ShardSequence::new(layout, "", layout.start)],
            Router::Turn(n, _) => (0..*n as u64).map(|i| ShardSequence::new(layout, "", layout.start + i)).collect(),
            Router::Hash(splits) => {
                splits.0.iter().map(|split| ShardSequence::new(layout, &split.0, layout.start)).collect()
            }
        }
    }

    /// The index of the sequence that the next sample belongs to.
    pub fn route(&mut self, key: &str) -> usize {
        match self {
            Router::One => 0,
            Router::Turn(n, next) => {
                let sequence = *next;
                *next = (sequence + 1) % *n;
                sequence
            }
            Router::Hash(splits) => splits.split_of(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_must_add_up() {
        for bad in ["", "a", "a=x", "a=0.5", "a=0.5,a=0.5", "a=-1,b=2", "=1"] {
            assert!(bad.parse::<Splits>().is_err(), "{bad}");
        }
    }

    #[test]
    fn each_split_gets_about_its_share_of_the_keys() {
        let splits: Splits = "train=0.8,val=0.2".parse().unwrap();
        let in_val = (0..10_000).filter(|i| splits.split_of(&format!("key{i}")) == 1).count();
        assert!((1800..2200).contains(&in_val), "{in_val}");
    }
}
