//! Shards of an earlier run with the same pattern. If the new run writes fewer, the others would stay beside the new ones and
//! be read together with them.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::Result;
use tarpipe::messages;
use tarpipe::sink;
use tarpipe::tally::counted;
use tarpipe::value::template::Template;

use crate::tarsplit::router::Splits;

/// The names of the shards that were there before the run, and of those that it has not written.
pub struct EarlierShards(BTreeSet<String>);

impl EarlierShards {
    /// Looks for shards with these numbers, in these splits. Commands and web servers cannot be listed and have none.
    pub fn find(pattern: &Template, numbers: Range<u64>, splits: Option<&Splits>) -> Result<Self> {
        if !sink::can_be_listed(pattern.prefix()) {
            return Ok(EarlierShards(BTreeSet::new()));
        }
        let is_value = |name: &str, text: &str| match name {
            "shard" => text.parse().is_ok_and(|number| numbers.contains(&number)),
            _ => splits.is_some_and(|splits| splits.has(text)),
        };
        let list = if pattern.is_in_one_folder() { sink::existing_in_folder } else { sink::existing };
        let mut names: BTreeSet<String> = list(pattern.prefix())?.into_keys().collect();
        names.retain(|name| pattern.matches(name, &is_value));
        Ok(EarlierShards(names))
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// Notes that the run has written a shard of this name.
    pub fn replace(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Warns of the shards that the run has not replaced.
    pub fn warn(&self) {
        if let Some(first) = self.first() {
            let count = counted(self.count() as u64, "older shard");
            messages::notice(&format!("not replaced: {count} of the same pattern, such as {first}"));
        }
    }
}
