//! The items of a run: numbers, names, or the shards of a table.

use anyhow::{Result, bail};
use tarpipe::cli::Usage;
use tarpipe::source::expand;
use tarpipe::table::Tables;

/// One item, with the values that templates can use.
#[derive(Clone, Copy, Debug)]
pub struct RunItem<'a> {
    /// The name, or the number as text.
    pub value: &'a str,
    /// Position among all items, from 0.
    pub index: u64,
    /// Number of all items.
    pub count: u64,
}

/// All items, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunItems {
    /// The numbers from 0 to N-1.
    Numbers(u64),
    /// Names from the command line or files.
    Names(Vec<String>),
}

/// The flags that name items.
pub struct ItemFlags<'a> {
    pub number: Option<u64>,
    pub names: &'a [String],
    pub files_from: &'a [String],
    pub shards_of: &'a [String],
    pub rows_per_shard: u64,
}

impl RunItems {
    /// Finds the items. They must be given in exactly one way, and there must be at least one.
    pub fn find(flags: &ItemFlags<'_>) -> Result<Self> {
        let lists = !flags.names.is_empty() || !flags.files_from.is_empty();
        let kinds = [flags.number.is_some(), lists, !flags.shards_of.is_empty()];
        if kinds.iter().filter(|&&is_given| is_given).count() != 1 {
            bail!(Usage("give the items in exactly one way: -n N, ITEM…, -T FILE or --shards-of TABLE".into()));
        }
        let items = match flags.number {
            Some(number) => RunItems::Numbers(number),
            None if lists => RunItems::Names(named(flags)?),
            None => RunItems::Numbers(shards(flags)?),
        };
        if items.count() == 0 {
            bail!("no items to run");
        }
        Ok(items)
    }

    /// Number of items.
    pub fn count(&self) -> u64 {
        match self {
            RunItems::Numbers(count) => *count,
            RunItems::Names(names) => names.len() as u64,
        }
    }

    /// The value of one item.
    pub fn value(&self, index: u64) -> String {
        match self {
            RunItems::Numbers(_) => index.to_string(),
            RunItems::Names(names) => names[index as usize].clone(),
        }
    }

    /// Calls `show` with one item.
    pub fn with<T>(&self, index: u64, show: impl FnOnce(&RunItem<'_>) -> T) -> T {
        let count = self.count();
        match self {
            RunItems::Numbers(_) => show(&RunItem { value: &index.to_string(), index, count }),
            RunItems::Names(names) => show(&RunItem { value: &names[index as usize], index, count }),
        }
    }
}

fn named(flags: &ItemFlags<'_>) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for spec in flags.names {
        all.extend(expand::expand(spec)?);
    }
    for file in flags.files_from {
        all.extend(expand::from_file(file)?);
    }
    // The run folder stores one name per line.
    if let Some(name) = all.iter().find(|name| name.contains(['\n', '\0'])) {
        bail!("item '{name}': names must not contain newlines or NUL bytes");
    }
    Ok(all)
}

/// Number of shards of the tables, as `urlcat --count-shards` counts them.
fn shards(flags: &ItemFlags<'_>) -> Result<u64> {
    let tables = Tables::find(flags.shards_of, &[], None)?;
    Ok(tables.count_rows()?.div_ceil(flags.rows_per_shard))
}
