//! Counts of the items of a run by outcome and reason code, the summary line
//! made from them, and the limit on failures.
//!
//! Every tool ends with a [`Tally`]; `cli::main` turns it into the last line on
//! stderr and into the exit status.
//!
//! Reason codes are part of the interface: users' scripts match them, so they
//! never change. Those of the library, besides the ones of each tool, are:
//!
//! | code | outcome | given by |
//! |---|---|---|
//! | `directory`, `link`, `device`, `sparse`, `unknown_type` | dropped | [`crate::archive::EntryKind`] |
//! | `dot_file`, `no_field`, `metadata` | dropped | [`crate::sample::member_name`] |
//! | `name_absolute`, `name_parent`, `name_control`, `name_not_utf8` | failed | [`crate::sample::member_name`] |
//! | `too_large` | failed | [`crate::sample::stream`] |
//! | `select` | failed | [`crate::sample::select`] |
//! | `exit_status`, `signal`, `disk_full`, `unreadable`, `bad_name`, `exhausted`, `system` | failed | [`crate::run::failure`] |
//! | `cut`, `damaged`, `not_tar`, `read` | ends the stream | [`crate::archive::Fault`] |
//! | `duplicate_field`, `too_many_fields` | ends the stream | [`crate::sample::fields`] |

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::messages::{self, Level, hints};

type Codes = BTreeMap<&'static str, u64>;

/// How many items were done, dropped and failed. See the crate's vocabulary for
/// the difference: dropped items do not affect the exit status, failed ones
/// may.
///
/// ```
/// use tarpipe::tally::Tally;
///
/// let mut tally = Tally::default();
/// tally.done();
/// tally.fail("decode");
/// assert_eq!(tally.summary(), "1 sample; failed 1 (1 decode)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    noun: Option<&'static str>,
    done: u64,
    dropped: Codes,
    failed: Codes,
    /// The first failed item of each code, and why it failed.
    examples: BTreeMap<&'static str, String>,
}

impl Tally {
    /// An empty tally of items other than samples, for the summary: `noun` is
    /// singular, such as `row`.
    pub fn of(noun: &'static str) -> Self {
        Tally { noun: Some(noun), ..Tally::default() }
    }

    /// Counts one item that was processed.
    pub fn done(&mut self) {
        self.done += 1;
    }

    /// Counts one item that was ignored because it does not belong to any
    /// sample, such as a directory.
    pub fn drop(&mut self, code: &'static str) {
        *self.dropped.entry(code).or_default() += 1;
    }

    /// Counts one item that should have been processed and is missing from the
    /// output.
    pub fn fail(&mut self, code: &'static str) {
        *self.failed.entry(code).or_default() += 1;
    }

    /// The same as [`Tally::fail`], and keeps `example`, the item and why it
    /// failed, if it is the first of its code. See [`Tally::examples`].
    pub fn fail_as(&mut self, code: &'static str, example: impl FnOnce() -> String) {
        self.fail(code);
        self.examples.entry(code).or_insert_with(example);
    }

    /// Counts one failed item that is left out of the output: explains it with
    /// `-v`, and keeps it as an example if it is the first of its code. `item`
    /// is its source and key.
    pub fn leave_out(&mut self, code: &'static str, item: &str, reason: &dyn Display) {
        if messages::says(Level::Verbose) {
            messages::detail(&format!("{item}: left out: {reason}"));
        }
        let reason = || reason.to_string();
        let without_code = |reason: String| {
            reason.strip_prefix(code).and_then(|rest| rest.strip_prefix(": ")).map(str::to_owned).unwrap_or(reason)
        };
        self.fail_as(code, || format!("{item}: {}", without_code(reason())));
    }

    /// Adds the counts of another part of the run. The noun of `self` is kept.
    pub fn merge(&mut self, other: &Tally) {
        self.done += other.done;
        for (codes, others) in [(&mut self.dropped, &other.dropped), (&mut self.failed, &other.failed)] {
            for (code, n) in others {
                *codes.entry(code).or_default() += n;
            }
        }
        for (code, example) in &other.examples {
            self.examples.entry(code).or_insert_with(|| example.clone());
        }
    }

    /// The number of items that were processed.
    pub fn count_done(&self) -> u64 {
        self.done
    }

    /// The number of failed items, over all codes.
    pub fn count_failed(&self) -> u64 {
        self.failed.values().sum()
    }

    /// The number of dropped items, over all codes.
    pub fn count_dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Returns true if nothing was dropped and nothing failed.
    pub fn is_clean(&self) -> bool {
        self.dropped.is_empty() && self.failed.is_empty()
    }

    /// One line per failure code that has an example: the first item that failed
    /// with it, why, and what to do about it if there is general advice, such as
    /// `first of 100 exists: a.tar: cat: cat.jpg exists; use --force to replace
    /// it`. To be shown before the summary. With -v, which has explained every
    /// item, only lines with advice.
    pub fn examples(&self) -> Vec<String> {
        let line = |(code, example): (&&'static str, &String)| {
            let count = self.failed.get(code).copied().unwrap_or(0);
            let example = shortened(example);
            let code = if count == 1 { (*code).to_owned() } else { format!("first of {count} {code}") };
            format!("{code}: {example}")
        };
        let advised = |(code, example): (&&'static str, &String)| match hints::for_code(messages::tool(), code) {
            Some(hint) if !example.contains("; ") => Some(format!("{}; {hint}", line((code, example)))),
            Some(_) => Some(line((code, example))),
            None => (!messages::says(Level::Verbose)).then(|| line((code, example))),
        };
        self.examples.iter().filter_map(advised).collect()
    }

    /// The summary line, such as `12 samples; failed 2 (1 cut, 1 decode);
    /// dropped 1 (1 directory)`. Codes are sorted by name.
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

/// The beginning of an example: data from strangers may be long.
fn shortened(text: &str) -> String {
    const MOST: usize = 300;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A tally that several threads count into. Clones share the counts.
#[derive(Clone, Default)]
pub struct SharedTally(Arc<Mutex<Tally>>);

impl SharedTally {
    /// Returns the counts so far and resets them to zero.
    pub fn take(&self) -> Tally {
        std::mem::take(&mut self.0.lock())
    }

    /// Calls `count` with the tally, under its lock: keep it short.
    pub fn add(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.0.lock());
    }

    /// Adds the counts of another part of the run.
    pub fn merge(&self, other: &Tally) {
        self.add(|tally| tally.merge(other));
    }
}

/// `--max-failures`: how many failures a run tolerates before its exit status
/// is 3. Parsed from `N` or `P%`.
///
/// Serialized into the plans of shardrun: the names of the variants must not
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum MaxFailures {
    /// At most this many items.
    Count(u64),
    /// At most this share of all items, 0 to 100.
    Percent(f64),
}

impl MaxFailures {
    /// Returns true if the run has failed: more items failed than `limit`
    /// allows. Without a limit, a run fails if items failed and none was done.
    /// Dropped items do not count.
    pub fn exceeded(limit: Option<Self>, tally: &Tally) -> bool {
        let (done, failed) = (tally.count_done(), tally.count_failed());
        match limit {
            None => failed > 0 && done == 0,
            Some(MaxFailures::Count(most)) => failed > most,
            Some(MaxFailures::Percent(most)) => failed as f64 * 100.0 > most * (done + failed) as f64,
        }
    }
}

/// Parses a count or a percentage from `0%` to `100%`, which may have a
/// fraction.
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

/// A number with its noun: `1 sample`, `2 samples`. The plural is formed by
/// adding an `s`.
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
        more.leave_out("cut", "a.tar: cat", &"ends early");
        more.leave_out("cut", "a.tar: dog", &"ends early");
        tally.merge(&more);
        assert_eq!(tally.examples(), ["first of 2 cut: a.tar: cat: ends early"]);
        assert_eq!(tally.summary(), "1 sample; failed 4 (2 cut, 2 decode); dropped 2 (2 link)");
    }
}
