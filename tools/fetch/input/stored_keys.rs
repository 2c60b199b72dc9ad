//! The keys of the samples in shards, for --done.

use anyhow::{Context, Result, bail};

use tarpipe::digest::{self, FingerprintMap};
use tarpipe::sample::stream::SampleStream;
use tarpipe::source::expand;

/// The fingerprints of all keys in these shards: 32 MB of memory per million. A pattern without a shard is an error.
pub fn read(patterns: &[String]) -> Result<FingerprintMap<()>> {
    let mut keys = FingerprintMap::default();
    for pattern in patterns {
        let names = expand::expand_files(pattern)?;
        if names.is_empty() {
            bail!("--done {pattern}: no such shard");
        }
        for name in names {
            read_shard(&name, &mut keys)?;
        }
    }
    Ok(keys)
}

fn read_shard(name: &str, keys: &mut FingerprintMap<()>) -> Result<()> {
    let mut stream = SampleStream::open(name, false)?;
    while let Some(head) = stream.next().context("--done")? {
        keys.insert(digest::fingerprint(&head.key), ());
    }
    Ok(())
}
