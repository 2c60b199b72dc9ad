//! The shards that are open: adds each row to its shard, and closes shards that have all their rows.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::tardataset::layout::DatasetLayout;
use crate::tardataset::row::DatasetRow;
use crate::tardataset::shard::{DatasetShard, now};

/// The open shards by their numbers.
pub struct OpenShards<'a> {
    layout: &'a DatasetLayout,
    open: BTreeMap<u64, DatasetShard<'a>>,
    rows: u64,
    /// When work on the next shard to open began, at the latest: at the start, or when the latest shard was closed. The first
    /// row of a shard arrives only after its download.
    since: f64,
    /// The key of the video whose clips are arriving, and its shard.
    clips_of: Option<(String, u64)>,
}

impl<'a> OpenShards<'a> {
    pub fn new(layout: &'a DatasetLayout) -> Self {
        OpenShards { layout, open: BTreeMap::new(), rows: 0, since: now(), clips_of: None }
    }

    /// Adds a sample, a failure or a clip. Adjacent clips of one video are one row.
    pub fn add(&mut self, row: DatasetRow) -> Result<()> {
        let begins = row.clip_of.is_none() || self.clips_of.as_ref().map(|(key, _)| key) != row.clip_of.as_ref();
        if begins {
            self.end_clips()?;
            self.rows += 1;
        }
        let number = self.layout.shard_of(&row.sample.key)?;
        if !self.open.contains_key(&number) {
            if self.layout.rows_per_shard.is_none() && !self.open.is_empty() {
                std::mem::take(&mut self.open).into_values().try_for_each(DatasetShard::finish)?;
                self.since = now();
            }
            self.open.insert(number, DatasetShard::create(self.layout, number, self.since)?);
        }
        let Some(shard) = self.open.get_mut(&number) else { return Ok(()) };
        self.clips_of = row.clip_of.clone().map(|key| (key, number));
        shard.add(row, begins)?;
        if self.clips_of.is_none() { self.close_if_full(number) } else { Ok(()) }
    }

    /// A row of clips is complete only when another row follows.
    fn end_clips(&mut self) -> Result<()> {
        self.clips_of.take().map_or(Ok(()), |(_, number)| self.close_if_full(number))
    }

    fn close_if_full(&mut self, number: u64) -> Result<()> {
        let is_full = self.open.get(&number).is_some_and(|shard| self.layout.is_full(number, shard.rows()));
        let full = if is_full { self.open.remove(&number) } else { None };
        let Some(full) = full else { return Ok(()) };
        full.finish()?;
        self.since = now();
        Ok(())
    }

    /// Closes the remaining shards. If `expected` rows did not arrive, an error, and incomplete shards are dropped.
    pub fn finish(mut self, expected: Option<u64>) -> Result<()> {
        self.end_clips()?;
        if let Some(expected) = expected.filter(|&expected| expected != self.rows) {
            bail!("expected {expected} rows, got {}; incomplete shards are not written", self.rows);
        }
        self.open.into_values().try_for_each(DatasetShard::finish)
    }
}
