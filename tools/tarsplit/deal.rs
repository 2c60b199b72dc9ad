//! Which samples go together.

use std::str::FromStr;

use anyhow::{Context, Result, bail};
use tarpipe::digest;

use crate::lane::{Lane, Layout};

/// Named shares of all keys.
#[derive(Clone, Debug)]
pub struct Splits(Vec<(String, f64)>);

/// `train=0.9,val=0.1`
impl FromStr for Splits {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut splits: Vec<(String, f64)> = Vec::new();
        for item in text.split(',') {
            let (name, share) = item.split_once('=').with_context(|| format!("'{item}' is not NAME=SHARE"))?;
            let share: f64 = share.parse().with_context(|| format!("'{share}' is no number"))?;
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
    fn place(&self, key: &str) -> usize {
        let mut left = digest::fraction(key);
        let found = self.0.iter().position(|split| {
            left -= split.1;
            left < 0.0
        });
        found.unwrap_or(self.0.len() - 1)
    }
}

/// How samples are dealt to lanes.
pub enum Deal {
    /// All to one.
    One,
    /// In turn to so many; the next turn.
    Turn(usize, usize),
    /// By the hash of the key.
    Hash(Splits),
}

impl Deal {
    pub fn new(shards: Option<u64>, splits: Option<&Splits>) -> Self {
        match (shards, splits) {
            (Some(n), _) => Deal::Turn(n as usize, 0),
            (None, Some(splits)) => Deal::Hash(splits.clone()),
            (None, None) => Deal::One,
        }
    }

    /// The lanes that samples are dealt to.
    pub fn lanes<'a>(&self, layout: &'a Layout) -> Vec<Lane<'a>> {
        match self {
            Deal::One => vec![Lane::new(layout, "", layout.start)],
            Deal::Turn(n, _) => (0..*n as u64).map(|i| Lane::new(layout, "", layout.start + i)).collect(),
            Deal::Hash(splits) => splits.0.iter().map(|split| Lane::new(layout, &split.0, layout.start)).collect(),
        }
    }

    /// The lane of the next sample.
    pub fn lane_of(&mut self, key: &str) -> usize {
        match self {
            Deal::One => 0,
            Deal::Turn(n, next) => {
                let lane = *next;
                *next = (lane + 1) % *n;
                lane
            }
            Deal::Hash(splits) => splits.place(key),
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
    fn a_split_has_about_its_share_and_every_key_has_one_place() {
        let splits: Splits = "train=0.8,val=0.2".parse().unwrap();
        let in_val = (0..10_000).filter(|i| splits.place(&format!("key{i}")) == 1).count();
        assert!((1800..2200).contains(&in_val), "{in_val}");
    }
}
