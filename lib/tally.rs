//! What became of the items of a run: counts by reason code, and the line that sums them up.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

type Codes = BTreeMap<&'static str, u64>;

/// Counts of what was done and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    noun: Option<&'static str>,
    done: u64,
    dropped: Codes,
    failed: Codes,
}

impl Tally {
    /// Counts of something else than samples.
    pub fn of(noun: &'static str) -> Self {
        Tally { noun: Some(noun), ..Tally::default() }
    }

    /// One more sample went through.
    pub fn done(&mut self) {
        self.done += 1;
    }

    /// Something that was never part of a sample was passed over.
    pub fn drop(&mut self, code: &'static str) {
        *self.dropped.entry(code).or_default() += 1;
    }

    /// An item that should have gone through was left out.
    pub fn fail(&mut self, code: &'static str) {
        *self.failed.entry(code).or_default() += 1;
    }

    /// Adds the counts of another part of the run.
    pub fn merge(&mut self, other: &Tally) {
        self.done += other.done;
        for (codes, others) in [(&mut self.dropped, &other.dropped), (&mut self.failed, &other.failed)] {
            for (code, n) in others {
                *codes.entry(code).or_default() += n;
            }
        }
    }

    /// How many samples went through.
    pub fn count_done(&self) -> u64 {
        self.done
    }

    /// How many items failed.
    pub fn count_failed(&self) -> u64 {
        self.failed.values().sum()
    }

    /// How many members were no part of a sample.
    pub fn count_dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Whether anything was left out.
    pub fn is_clean(&self) -> bool {
        self.dropped.is_empty() && self.failed.is_empty()
    }

    /// `12 samples; failed 2 (1 cut, 1 decode); dropped 1 (directory)`
    pub fn summary(&self) -> String {
        let mut line = counted(self.done, self.noun.unwrap_or("sample"));
        for (verb, codes) in [("failed", &self.failed), ("dropped", &self.dropped)] {
            if !codes.is_empty() {
                let total: u64 = codes.values().sum();
                let each: Vec<String> = codes.iter().map(|(code, n)| format!("{n} {code}")).collect();
                line += &format!("; {verb} {total} ({})", each.join(", "));
            }
        }
        line
    }
}

/// Counts that outlive the thread that makes them.
#[derive(Clone, Default)]
pub struct SharedTally(Arc<Mutex<Tally>>);

impl SharedTally {
    /// Takes the counts so far.
    pub fn take(&self) -> Tally {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts something.
    pub fn add(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds the counts of another part of the run.
    pub fn merge(&self, other: &Tally) {
        self.add(|tally| tally.merge(other));
    }
}

/// How many failures a run tolerates: `N` or `P%` of all items.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum MaxFailures {
    /// So many.
    Count(u64),
    /// So many in a hundred.
    Percent(f64),
}

impl MaxFailures {
    /// Whether the run failed more than it may; without a limit that is: all of it did.
    pub fn exceeded(limit: Option<Self>, tally: &Tally) -> bool {
        let (done, failed) = (tally.count_done(), tally.count_failed());
        match limit {
            None => failed > 0 && done == 0,
            Some(MaxFailures::Count(most)) => failed > most,
            Some(MaxFailures::Percent(most)) => failed as f64 * 100.0 > most * (done + failed) as f64,
        }
    }
}

impl FromStr for MaxFailures {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|p| (0.0..=100.0).contains(p)).map(MaxFailures::Percent),
            None => text.parse().ok().map(MaxFailures::Count),
        };
        parsed.ok_or_else(|| "not a number or a percentage (write 100 or 5%)".to_owned())
    }
}

/// `1 sample`, `2 samples`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_counts_or_shares() {
        let mut tally = Tally::default();
        tally.fail("decode");
        assert!(MaxFailures::exceeded(None, &tally));
        tally.done();
        assert!(!MaxFailures::exceeded(None, &tally));
        assert!(MaxFailures::exceeded(Some("0".parse().unwrap()), &tally));
        assert!(!MaxFailures::exceeded(Some("50%".parse().unwrap()), &tally));
        assert!(MaxFailures::exceeded(Some("49.9%".parse().unwrap()), &tally));
        assert!("101%".parse::<MaxFailures>().is_err());
    }

    #[test]
    fn the_summary_names_every_code() {
        let mut tally = Tally::default();
        tally.done();
        assert_eq!(tally.summary(), "1 sample");
        tally.fail("decode");
        tally.fail("decode");
        tally.drop("link");
        let mut more = Tally::default();
        more.drop("link");
        more.fail("cut");
        tally.merge(&more);
        assert_eq!(tally.summary(), "1 sample; failed 3 (1 cut, 2 decode); dropped 2 (2 link)");
    }
}
