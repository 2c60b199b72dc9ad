//! The layout of a dataset: names of files, the shard of each key, and the number of rows per shard.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use tarpipe::table::TypedColumns;
use tarpipe::value::list;

use crate::tardataset::StorageFormat;
use crate::tardataset::status_names::StatusNames;

/// What the flags say about the dataset.
pub struct DatasetLayout {
    pub folder: String,
    pub format: StorageFormat,
    pub columns: TypedColumns,
    /// Entries that the json of a sample keeps in addition to the columns; `*` for all.
    pub json: Vec<String>,
    pub field: String,
    pub caption: bool,
    pub rows_per_shard: Option<u64>,
    pub short: ShortShards,
    pub only_shard: Option<u64>,
    pub row_digits: usize,
    pub shard_digits: usize,
    pub status_names: StatusNames,
}

/// Shards with fewer rows than the others, and their numbers of rows.
#[derive(Clone, Debug, Default)]
pub struct ShortShards(BTreeMap<u64, u64>);

/// `7=123,12=5`
impl FromStr for ShortShards {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let item = |item: &str| {
            let (shard, rows) = item.split_once('=').with_context(|| format!("'{item}' is not SHARD=ROWS"))?;
            Ok((shard.parse()?, rows.parse()?))
        };
        list::items(text).map(item).collect::<Result<_>>().map(ShortShards)
    }
}

impl DatasetLayout {
    /// The number of the shard that a key belongs to: its leading digits without those of the row. Anything after the
    /// digits, such as the number of a clip, is ignored.
    pub fn shard_of(&self, key: &str) -> Result<u64> {
        if let Some(only) = self.only_shard {
            return Ok(only);
        }
        let digits = key.bytes().take_while(u8::is_ascii_digit).count();
        let shard = digits.checked_sub(self.row_digits).and_then(|shard| key[..shard].parse().ok());
        match shard {
            Some(shard) => Ok(shard),
            None => bail!(
                "sample {key}: no shard number before the {} digits of the row; make keys with urlcat --key",
                self.row_digits
            ),
        }
    }

    /// The number of a key's row within its shard; None if the rows of a shard are not numbered.
    pub fn row_of(&self, key: &str) -> Option<u64> {
        self.rows_per_shard?;
        let digits = key.bytes().take_while(u8::is_ascii_digit).count();
        let row = &key[digits.checked_sub(self.row_digits)?..digits];
        if row.is_empty() { Some(0) } else { row.parse().ok() }
    }

    /// The entries of a sample's metadata that its json keeps.
    pub fn kept_entries(&self, facts: &Map<String, Value>) -> Map<String, Value> {
        if self.json.iter().any(|name| name == "*") {
            let is_internal = |name: &str| matches!(name, "tool" | "code");
            return facts
                .iter()
                .filter(|(name, _)| !is_internal(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
        }
        self.json.iter().map(|name| (name.clone(), facts.get(name).cloned().unwrap_or_default())).collect()
    }

    /// Whether a shard with `rows` rows has all its rows.
    pub fn is_full(&self, shard: u64, rows: u64) -> bool {
        self.rows_per_shard.is_some_and(|usual| rows >= self.short.0.get(&shard).copied().unwrap_or(usual))
    }

    /// `FOLDER/00042` and a suffix.
    pub fn name(&self, shard: u64, suffix: &str) -> String {
        format!("{}/{shard:0width$}{suffix}", self.folder, width = self.shard_digits)
    }
}
