//! Where things go: which shard a key belongs to, what it is called, how many rows it has.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use tarpipe::table::Typed;

use crate::Format;
use crate::words::Words;

/// How a dataset is laid out.
pub struct Layout {
    pub folder: String,
    pub format: Format,
    pub columns: Typed,
    /// What the json of a sample has beside the columns.
    pub json: Vec<String>,
    pub field: String,
    pub caption: bool,
    pub rows_per_shard: Option<u64>,
    pub short: Short,
    pub only_shard: Option<u64>,
    pub row_digits: usize,
    pub shard_digits: usize,
    pub words: Words,
}

/// Shards that have fewer rows than the others.
#[derive(Clone, Debug, Default)]
pub struct Short(BTreeMap<u64, u64>);

/// `7=123,12=5`
impl FromStr for Short {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let item = |item: &str| {
            let (shard, rows) = item.split_once('=').with_context(|| format!("'{item}' is not SHARD=ROWS"))?;
            Ok((shard.parse()?, rows.parse()?))
        };
        text.split(',').filter(|text| !text.is_empty()).map(item).collect::<Result<_>>().map(Short)
    }
}

impl Layout {
    /// The shard that a key names: its leading digits without those of the row. What follows the
    /// digits, as the number of a clip does, is of the row too.
    pub fn shard_of(&self, key: &str) -> Result<u64> {
        if let Some(only) = self.only_shard {
            return Ok(only);
        }
        let digits = key.bytes().take_while(u8::is_ascii_digit).count();
        let shard = digits.checked_sub(self.row_digits).and_then(|shard| key[..shard].parse().ok());
        match shard {
            Some(shard) => Ok(shard),
            None => bail!(
                "sample {key}: no number of a shard before {} digits of a row (make keys with urlcat --key)",
                self.row_digits
            ),
        }
    }

    /// What the json of a sample keeps of its facts.
    pub fn kept_of(&self, facts: &Map<String, Value>) -> Map<String, Value> {
        if self.json.iter().any(|name| name == "*") {
            let is_told = |name: &str| matches!(name, "tool" | "code");
            return facts
                .iter()
                .filter(|(name, _)| !is_told(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
        }
        self.json.iter().map(|name| (name.clone(), facts.get(name).cloned().unwrap_or_default())).collect()
    }

    /// Whether a shard of so many rows has them all.
    pub fn is_full(&self, shard: u64, rows: u64) -> bool {
        self.rows_per_shard.is_some_and(|usual| rows >= self.short.0.get(&shard).copied().unwrap_or(usual))
    }

    /// `FOLDER/00042` and what follows.
    pub fn name(&self, shard: u64, rest: &str) -> String {
        format!("{}/{shard:0width$}{rest}", self.folder, width = self.shard_digits)
    }
}
