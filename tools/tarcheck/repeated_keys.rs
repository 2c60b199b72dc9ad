//! Describes the keys that appear more than once, within a shard and across shards.

use std::collections::BTreeMap;

use anyhow::Result;
use tarpipe::sample::stream::SampleStream;
use tarpipe::sort::{KeyPosition, RepeatFinder, SortOptions};
use tarpipe::source;

use crate::tarcheck::verdict::{Finding, Verdict};

/// Memory for keys, enough for a million; the rest is sorted on disk.
const MEMORY: u64 = 64 << 20;

/// Collects the keys of all shards. A position is the number of a shard and an offset in it.
pub fn finder() -> RepeatFinder {
    RepeatFinder::new(SortOptions { memory: MEMORY, tmpdir: std::env::temp_dir(), compress: false, reverse: false })
}

/// Adds a fault to the verdict of a shard for each of its keys that appeared earlier.
pub fn find_repeats(finder: RepeatFinder, verdicts: &mut [Verdict], show: usize, ignore_eof: bool) -> Result<()> {
    let mut described: Vec<(KeyPosition, KeyPosition)> = Vec::new();
    let show = if show == 0 { usize::MAX } else { show };
    let mut room: Vec<usize> = verdicts.iter().map(|verdict| show.saturating_sub(verdict.findings.len())).collect();
    finder.find(|first, again| {
        let shard = again.0 as usize;
        verdicts[shard].faults += 1;
        if room[shard] > 0 {
            room[shard] -= 1;
            described.push((first, again));
        }
    })?;
    described.sort_unstable_by_key(|(_, again)| *again);
    let keys = read_keys(described.iter().map(|pair| pair.1), verdicts, ignore_eof);
    for (first, again) in described {
        let (code, shard) = if first.0 == again.0 {
            ("key_returns", String::new())
        } else {
            ("key_shared", format!(" of {}", verdicts[first.0 as usize].shard))
        };
        let what = format!("duplicate of the key at byte {}{shard}", first.1);
        let sample = keys.get(&again).cloned();
        verdicts[again.0 as usize].findings.push(Finding { code, offset: again.1, sample, what });
    }
    Ok(())
}

/// The keys at some positions, read from the shards once more. Sources that cannot be read twice, such as stdin, are left
/// out.
fn read_keys(
    positions: impl Iterator<Item = KeyPosition>,
    verdicts: &[Verdict],
    ignore_eof: bool,
) -> BTreeMap<KeyPosition, String> {
    let mut wanted: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (shard, offset) in positions {
        wanted.entry(shard).or_default().push(offset);
    }
    let mut keys = BTreeMap::new();
    for (shard, offsets) in wanted {
        let name = &verdicts[shard as usize].shard;
        let Some(&last) = offsets.iter().max() else { continue };
        if !source::can_be_read_again(name) {
            continue;
        }
        let Ok(mut stream) = SampleStream::open(name, ignore_eof) else { continue };
        while let Ok(Some(head)) = stream.next() {
            if offsets.contains(&head.offset) {
                keys.insert((shard, head.offset), head.key);
            }
            if head.offset >= last {
                break;
            }
        }
    }
    keys
}
