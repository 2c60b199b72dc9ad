//! What becomes of samples that compare equal.

use anyhow::{Result, bail};
use tarpipe::sample::shard::Shard;
use tarpipe::sort::Groups;
use tarpipe::tally::Tally;

use crate::Args;
use crate::order::Order;

/// The rule, and what it did.
pub struct Rule {
    unique: bool,
    group: bool,
    groups: Groups,
    last: Option<Vec<u8>>,
    source: String,
    pub tally: Tally,
}

impl Rule {
    /// `source` is what messages call the stream.
    pub fn new(args: &Args, source: String) -> Self {
        let (unique, group) = (args.unique, args.group);
        Rule { unique, group, groups: Groups::default(), last: None, source, tally: Tally::default() }
    }

    /// Whether the next sample is written; if so, it is begun, or goes on with the last one.
    pub fn admit<'a>(
        &mut self,
        order: &Order,
        sort_key: &[u8],
        key: &str,
        fields: impl Iterator<Item = &'a str>,
        out: &mut Shard,
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
            bail!("{source}: sample {key}: its key stands twice (--unique keeps the first, --group makes one of them)");
        }
        self.last.get_or_insert_default().clear();
        self.last.get_or_insert_default().extend_from_slice(sort_key);
        self.begin(key, out)?;
        Ok(true)
    }

    fn begin(&mut self, key: &str, out: &mut Shard) -> Result<()> {
        self.tally.done();
        out.begin(key, &self.source)
    }
}
