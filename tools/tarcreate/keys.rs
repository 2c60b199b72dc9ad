//! Keys: where they come from, and the check that none is repeated.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use tarpipe::cli::Usage;
use tarpipe::sort::{KeyPosition, PositionedKey, RepeatFinder};
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
    finder: RepeatFinder,
    sources: Vec<(Arc<str>, &'static str)>,
}

impl UniqueKeys {
    pub fn new(args: &Args) -> Self {
        UniqueKeys { finder: RepeatFinder::new(args.sorting()), sources: Vec::new() }
    }

    pub fn add(&mut self, position: &InputPosition, key: &str) -> Result<()> {
        if self.sources.last().is_none_or(|(source, _)| !Arc::ptr_eq(source, &position.source)) {
            self.sources.push((Arc::clone(&position.source), position.noun));
        }
        self.finder.add(&PositionedKey::new(key, (self.sources.len() as u64 - 1, position.number)))
    }

    /// An error for the first sample whose key appeared earlier, with the sample before it that has this key.
    pub fn refuse_repeats(self) -> Result<()> {
        let mut first: Option<(KeyPosition, KeyPosition)> = None;
        self.finder.find(|before, again| {
            if first.is_none_or(|(found, _)| again < found) {
                first = Some((again, before));
            }
        })?;
        let Some((again, before)) = first else { return Ok(()) };
        let show = |(source, number): KeyPosition| {
            let (source, noun) = &self.sources[source as usize];
            format!("{source}: {noun} {number}")
        };
        bail!("{}: duplicate of the key at {} (key_returns)", show(again), show(before));
    }
}
