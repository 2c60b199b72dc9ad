//! Keys: where they come from, and the check that none is repeated.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use tarpipe::cli::Usage;
use tarpipe::digest;
use tarpipe::sort::Sorter;
use tarpipe::value::template::{Template, Values};

use crate::tarcreate::Args;
use crate::tarcreate::planned_sample::{InputPosition, ItemRefusal};

/// The default key column. It is never a field.
pub const KEY_COLUMN: &str = "__key__";

/// Where samples get their keys: a template or a column.
#[derive(Debug)]
pub struct KeyNaming {
    template: Option<Template>,
    column: String,
}

impl KeyNaming {
    /// From `--key`, else from the template `default`, else from the key column.
    pub fn new(args: &Args, default: Option<&str>) -> Result<Self> {
        let template = args.key.as_deref().or(default).map(|text| Template::parse(text, &["index", "row"]));
        let template = template.transpose().map_err(|err| anyhow!(Usage(format!("--key: {err:#}"))))?;
        Ok(KeyNaming { template, column: args.key_col.clone() })
    }

    /// Whether this column holds keys.
    pub fn is_key(&self, column: &str) -> bool {
        column == self.column
    }

    /// Whether this column is a field.
    pub fn is_field(&self, column: &str) -> bool {
        column != self.column && column != KEY_COLUMN
    }

    /// The key of a sample: from the template, else `given` by its row.
    pub fn key(&self, given: Option<String>, index: u64, row: u64) -> Result<String, ItemRefusal> {
        match (&self.template, given) {
            (Some(template), _) => {
                let values = Values::from([("index", index.to_string()), ("row", row.to_string())]);
                Ok(template.fill(&values))
            }
            (None, Some(key)) => Ok(key),
            (None, None) => {
                let why = format!("no key in column {}; use --key-col, or --key '{{index:09}}'", self.column);
                Err(ItemRefusal::new("no_key", why))
            }
        }
    }
}

/// All keys of a run, to find repeated ones. Many are sorted on disk.
pub struct UniqueKeys {
    sorter: Sorter,
    sources: Vec<(Arc<str>, &'static str)>,
}

impl UniqueKeys {
    pub fn new(args: &Args) -> Self {
        UniqueKeys { sorter: args.sorter(), sources: Vec::new() }
    }

    pub fn add(&mut self, position: &InputPosition, key: &str) -> Result<()> {
        if self.sources.last().is_none_or(|(source, _)| !Arc::ptr_eq(source, &position.source)) {
            self.sources.push((Arc::clone(&position.source), position.noun));
        }
        let source = self.sources.len() as u64 - 1;
        let fingerprint = digest::fingerprint(key).to_be_bytes();
        self.sorter.push(&fingerprint, &[&source.to_be_bytes(), &position.number.to_be_bytes()])
    }

    /// An error for the first sample whose key appeared earlier.
    pub fn refuse_repeats(self) -> Result<()> {
        let UniqueKeys { sorter, sources } = self;
        let mut sorted = sorter.finish()?;
        let (mut last, mut before, mut first) = ([0; 16], [0; 16], None::<([u8; 16], [u8; 16])>);
        let mut is_first = true;
        while let Some(record) = sorted.next()? {
            let (key, position) = (<[u8; 16]>::try_from(record.key)?, <[u8; 16]>::try_from(record.body)?);
            if key == last && !is_first {
                first = first.filter(|(found, _)| *found < position).or(Some((position, before)));
            } else {
                (last, before) = (key, position);
            }
            is_first = false;
        }
        let Some((again, before)) = first else { return Ok(()) };
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n: u64, &byte| n << 8 | u64::from(byte));
        let show = |position: [u8; 16]| {
            let (source, noun) = &sources[number(&position[..8]) as usize];
            format!("{source}: {noun} {}", number(&position[8..]))
        };
        bail!("{}: duplicate of the key at {} (key_returns)", show(again), show(before));
    }
}
