//! The items of a run: numbers, names, or the shards of a table.

use anyhow::{Result, bail};
use tarpipe::cli::Usage;
use tarpipe::source::expand;
use tarpipe::table::Tables;

/// One item, as templates see it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// What it is called.
    pub value: &'a str,
    /// Its place among all items, from 0.
    pub index: u64,
    /// How many there are.
    pub count: u64,
}

/// All items, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Items {
    /// 0, 1, … below this.
    Numbers(u64),
    /// Names.
    Names(Vec<String>),
}

/// What the flags say about items.
pub struct Wanted<'a> {
    pub number: Option<u64>,
    pub names: &'a [String],
    pub files_from: &'a [String],
    pub shards_of: &'a [String],
    pub rows_per_shard: u64,
}

impl Items {
    /// Finds them. Exactly one of the four kinds must be asked for; there must be one at least.
    pub fn find(wanted: &Wanted<'_>) -> Result<Self> {
        let lists = !wanted.names.is_empty() || !wanted.files_from.is_empty();
        let kinds = [wanted.number.is_some(), lists, !wanted.shards_of.is_empty()];
        if kinds.iter().filter(|&&asked| asked).count() != 1 {
            bail!(Usage("say what to run it on, in one way: -n N, ITEM…, -T FILE or --shards-of TABLE".into()));
        }
        let items = match wanted.number {
            Some(number) => Items::Numbers(number),
            None if lists => Items::Names(named(wanted)?),
            None => Items::Numbers(shards(wanted)?),
        };
        if items.count() == 0 {
            bail!("there are no items");
        }
        Ok(items)
    }

    /// How many.
    pub fn count(&self) -> u64 {
        match self {
            Items::Numbers(count) => *count,
            Items::Names(names) => names.len() as u64,
        }
    }

    /// The value of one of them.
    pub fn value(&self, index: u64) -> String {
        match self {
            Items::Numbers(_) => index.to_string(),
            Items::Names(names) => names[index as usize].clone(),
        }
    }

    /// Shows one of them as templates see it.
    pub fn with<T>(&self, index: u64, show: impl FnOnce(&Item<'_>) -> T) -> T {
        let count = self.count();
        match self {
            Items::Numbers(_) => show(&Item { value: &index.to_string(), index, count }),
            Items::Names(names) => show(&Item { value: &names[index as usize], index, count }),
        }
    }
}

fn named(wanted: &Wanted<'_>) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for spec in wanted.names {
        all.extend(expand::expand(spec)?);
    }
    for file in wanted.files_from {
        all.extend(expand::from_file(file)?);
    }
    // A line each is how they are kept.
    if let Some(name) = all.iter().find(|name| name.contains(['\n', '\0'])) {
        bail!("item '{name}': a name cannot hold a newline");
    }
    Ok(all)
}

/// How many shards the rows of the tables make, as `urlcat --count-shards` says.
fn shards(wanted: &Wanted<'_>) -> Result<u64> {
    let tables = Tables::find(wanted.shards_of, &[], None)?;
    Ok(tables.count_rows()?.div_ceil(wanted.rows_per_shard))
}
