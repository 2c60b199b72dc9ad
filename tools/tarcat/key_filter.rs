//! --keys and --not-keys: which samples are in a list.

use anyhow::{Result, bail};
use tarpipe::cli::Usage;
use tarpipe::sample::Sample;
use tarpipe::sample::join_on::JoinOn;
use tarpipe::sort::SortOptions;
use tarpipe::table::KeyList;

use crate::tarcat::Args;

/// Bytes of keys to hold in memory for each list.
const MEMORY: u64 = 1 << 30;

/// The lists of both flags, and what is looked up in them.
pub struct KeyFilter {
    on: JoinOn,
    wanted: Option<KeyList>,
    unwanted: Option<KeyList>,
}

impl KeyFilter {
    /// Loads the lists. `sources` are those of the samples.
    pub fn load(args: &Args, sources: &[Vec<String>]) -> Result<Self> {
        let names = [&args.keys, &args.not_keys];
        if args.on.is_some() && names.iter().all(|name| name.is_none()) {
            bail!(Usage("--on needs --keys or --not-keys".into()));
        }
        let lists_on_stdin = names.iter().filter(|name| name.as_deref() == Some("-")).count();
        let sources_on_stdin = sources.iter().flatten().filter(|name| *name == "-").count();
        if lists_on_stdin > 0 && lists_on_stdin + sources_on_stdin > 1 {
            bail!(Usage("stdin can be read only once: name a file for the list or for SOURCE".into()));
        }
        let on = args.on.clone().unwrap_or(JoinOn { value: "key".into(), column: "key".into() });
        let load = |name: &String| {
            let tmpdir = std::env::temp_dir();
            let options = SortOptions { memory: MEMORY, tmpdir, compress: false, reverse: false };
            KeyList::load(name, &on.column, options)
        };
        let wanted = args.keys.as_ref().map(load).transpose()?;
        let unwanted = args.not_keys.as_ref().map(load).transpose()?;
        Ok(KeyFilter { on, wanted, unwanted })
    }

    /// Whether to keep a sample.
    pub fn takes(&mut self, sample: &Sample) -> Result<bool> {
        let value = self.on.of(sample);
        self.takes_value(value.as_deref())
    }

    /// The same if samples are looked up by their key.
    pub fn takes_key(&mut self, key: &str) -> Result<bool> {
        self.takes_value(Some(key))
    }

    fn takes_value(&mut self, value: Option<&str>) -> Result<bool> {
        let has = |list: &mut Option<KeyList>| match (list, value) {
            (Some(list), Some(value)) => list.has(value),
            _ => Ok(false),
        };
        Ok((self.wanted.is_none() || has(&mut self.wanted)?) && !has(&mut self.unwanted)?)
    }
}
