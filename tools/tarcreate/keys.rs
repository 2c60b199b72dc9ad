//! Keys: how they are made, and whether one comes back.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use tarpipe::cli::Usage;
use tarpipe::digest;
use tarpipe::sort::Sorter;
use tarpipe::value::template::{Template, Values};

use crate::Args;
use crate::item::{Place, Refusal};

/// The column that holds keys, if no other is named. It is never a field.
pub const KEY_COLUMN: &str = "__key__";

/// How samples get their keys.
#[derive(Debug)]
pub struct Naming {
    template: Option<Template>,
    column: String,
}

impl Naming {
    /// By `--key`, or else by the column; `usual` is the template where there is no such column.
    pub fn new(args: &Args, usual: Option<&str>) -> Result<Self> {
        let template = args.key.as_deref().or(usual).map(|text| Template::parse(text, &["index", "row"]));
        let template = template.transpose().map_err(|err| anyhow!(Usage(format!("--key: {err:#}"))))?;
        Ok(Naming { template, column: args.key_col.clone() })
    }

    /// Whether this column holds keys.
    pub fn is_key(&self, column: &str) -> bool {
        column == self.column
    }

    /// Whether this column is a field.
    pub fn is_field(&self, column: &str) -> bool {
        column != self.column && column != KEY_COLUMN
    }

    /// The key of a sample: made, or else the one that its row gives.
    pub fn key(&self, given: Option<String>, index: u64, row: u64) -> Result<String, Refusal> {
        match (&self.template, given) {
            (Some(template), _) => {
                let values = Values::from([("index", index.to_string()), ("row", row.to_string())]);
                Ok(template.fill(&values))
            }
            (None, Some(key)) => Ok(key),
            (None, None) => {
                let why = format!("no key in column {} (use --key-col, or --key '{{index:09}}')", self.column);
                Err(Refusal::new("no_key", why))
            }
        }
    }
}

/// All keys of a run, to find those that come back. They are sorted on disk when they are many.
pub struct Keys {
    sorter: Sorter,
    sources: Vec<(Arc<str>, &'static str)>,
}

impl Keys {
    pub fn new(args: &Args) -> Self {
        Keys { sorter: args.sorter(), sources: Vec::new() }
    }

    pub fn add(&mut self, place: &Place, key: &str) -> Result<()> {
        if self.sources.last().is_none_or(|(source, _)| !Arc::ptr_eq(source, &place.source)) {
            self.sources.push((Arc::clone(&place.source), place.noun));
        }
        let source = self.sources.len() as u64 - 1;
        let fingerprint = digest::fingerprint(key).to_be_bytes();
        self.sorter.push(&fingerprint, &[&source.to_be_bytes(), &place.number.to_be_bytes()])
    }

    /// An error that names the first sample whose key stood before.
    pub fn refuse_repeats(self) -> Result<()> {
        let Keys { sorter, sources } = self;
        let mut sorted = sorter.finish()?;
        let (mut last, mut before, mut first) = ([0; 16], [0; 16], None::<([u8; 16], [u8; 16])>);
        let mut is_first = true;
        while let Some(record) = sorted.next()? {
            let (key, place) = (<[u8; 16]>::try_from(record.key)?, <[u8; 16]>::try_from(record.body)?);
            if key == last && !is_first {
                first = first.filter(|(found, _)| *found < place).or(Some((place, before)));
            } else {
                (last, before) = (key, place);
            }
            is_first = false;
        }
        let Some((again, before)) = first else { return Ok(()) };
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n: u64, &byte| n << 8 | u64::from(byte));
        let show = |place: [u8; 16]| {
            let (source, noun) = &sources[number(&place[..8]) as usize];
            format!("{source}: {noun} {}", number(&place[8..]))
        };
        bail!("{}: its key stands at {} already (key_returns)", show(again), show(before));
    }
}
