//! Samples that compare equal: dropped, merged or refused, as the flags say.

use anyhow::{Result, bail};
use tarpipe::location;
use tarpipe::sample::shard::ShardWriter;
use tarpipe::sort::KeyGroups;
use tarpipe::tally::Tally;

use crate::tarsort::Args;
use crate::tarsort::order::SortOrder;

/// Decides about each sample in sorted order, and counts its decisions.
pub struct DuplicatePolicy {
    unique: bool,
    group: bool,
    groups: KeyGroups,
    last: Option<Vec<u8>>,
    source: String,
    pub tally: Tally,
}

impl DuplicatePolicy {
    /// `names` are the sources, for messages.
    pub fn new(args: &Args, names: &[String]) -> Self {
        let source = match names {
            [one] => location::display(one),
            several => format!("{} sources", several.len()),
        };
        let (unique, group) = (args.unique, args.group);
        DuplicatePolicy { unique, group, groups: KeyGroups::default(), last: None, source, tally: Tally::default() }
    }

    /// Whether the next sample is to be written. If so, the shard is ready for its members: as a new sample, or with
    /// --group as more members of the last one.
    pub fn admit<'a>(
        &mut self,
        order: &SortOrder,
        sort_key: &[u8],
        key: &str,
        fields: impl Iterator<Item = &'a str>,
        out: &mut ShardWriter,
    ) -> Result<bool> {
        if self.group {
            if self.groups.is_new(key, fields, &self.source)? {
                self.begin(key, out)?;
            }
            return Ok(true);
        }
        let is_equal = self.last.as_deref() == Some(sort_key);
        if is_equal && self.unique && !order.is_missing(sort_key) {
            self.tally.drop("duplicate");
            return Ok(false);
        }
        if is_equal && order.is_by_key() {
            let source = &self.source;
            bail!("{source}: sample {key}: duplicate key; use --unique to keep the first, or --group to merge them");
        }
        self.last.get_or_insert_default().clear();
        self.last.get_or_insert_default().extend_from_slice(sort_key);
        self.begin(key, out)?;
        Ok(true)
    }

    fn begin(&mut self, key: &str, out: &mut ShardWriter) -> Result<()> {
        self.tally.done();
        out.begin(key, &self.source)
    }
}
