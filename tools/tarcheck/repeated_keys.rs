//! Describes the keys that appear more than once, within a shard and across shards.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use tarpipe::sample::stream::SampleStream;
use tarpipe::sort::{KeyPosition, RepeatFinder, SortOptions};
use tarpipe::source;

use crate::tarcheck::args::Args;
use crate::tarcheck::loaders::LoaderResult;
use crate::tarcheck::verdict::{Finding, Verdict};

/// Memory for keys, enough for a million; the rest is sorted on disk.
const MEMORY: u64 = 64 << 20;

/// Collects the keys of all shards. A position is the number of a shard and an offset in it.
pub fn finder() -> RepeatFinder {
    RepeatFinder::new(SortOptions { memory: MEMORY, tmpdir: std::env::temp_dir(), compress: false, reverse: false })
}

/// A sample whose key appeared earlier.
type Repeat = (KeyPosition, KeyPosition);

/// Adds a fault to the verdict of a shard for each of its keys that appeared earlier; with --allow-repeats, only if a
/// loader of --for refuses it.
pub fn find_repeats(finder: RepeatFinder, verdicts: &mut [Verdict], args: &Args) -> Result<()> {
    let show = args.checks().show;
    let mut described: Vec<Repeat> = Vec::new();
    let mut room: Vec<usize> = verdicts.iter().map(|verdict| show.saturating_sub(verdict.findings.len())).collect();
    finder.find(|first, again| {
        let shard = again.0 as usize;
        let mut refused = !args.allow_repeats;
        let refuses = |result: &&mut LoaderResult| result.loader.refuses_repeated_key(first.0 != again.0);
        for result in verdicts[shard].loaders.iter_mut().filter(refuses) {
            result.fails += 1;
            refused = true;
        }
        verdicts[shard].faults += u64::from(refused);
        if refused && room[shard] > 0 {
            room[shard] -= 1;
            described.push((first, again));
        }
    })?;
    described.sort_unstable_by_key(|(_, again)| *again);
    let samples =
        read_samples(described.iter().flat_map(|&(first, again)| [first, again]), verdicts, args.input.ignore_eof);
    for repeat in described {
        describe(repeat, verdicts, &samples);
    }
    Ok(())
}

fn describe((first, again): Repeat, verdicts: &mut [Verdict], samples: &BTreeMap<KeyPosition, SampleNames>) {
    let (code, shard) = if first.0 == again.0 {
        ("key_returns", String::new())
    } else {
        ("key_shared", format!(" of {}", verdicts[first.0 as usize].shard))
    };
    let verdict = &mut verdicts[again.0 as usize];
    let (sample, earlier) = (samples.get(&again), samples.get(&first));
    let is_rest = sample.zip(earlier).is_some_and(|(sample, earlier)| sample.fields.is_disjoint(&earlier.fields));
    let refusing = |result: &&LoaderResult| result.loader.refuses_repeated_key(first.0 != again.0);
    let mut named: Vec<&str> = verdict.loaders.iter().filter(refusing).map(|result| result.loader.name()).collect();
    let mut what = format!("duplicate of the key at byte {}{shard}", first.1);
    if is_rest && first.0 == again.0 {
        // The other loaders take the two parts for two samples.
        verdict.loaders.iter_mut().for_each(|result| result.lost_more = true);
        named = verdict.loaders.iter().map(|result| result.loader.name()).collect();
    }
    if !named.is_empty() {
        what += &format!(" (a problem for {})", named.join(", "));
    }
    let group = "tarsort --group {} -o fixed.tar".to_owned();
    let repair = (!named.is_empty() && is_rest && first.0 == again.0).then_some(group);
    verdict.findings.push(Finding {
        code,
        offset: again.1,
        sample: sample.map(|names| names.key.clone()),
        what,
        repair,
    });
}

/// The key and the fields of a sample.
struct SampleNames {
    key: String,
    fields: BTreeSet<String>,
}

/// The names in the samples at some positions, read from the shards once more. Sources that cannot be read twice, such as
/// stdin, are left out.
fn read_samples(
    positions: impl Iterator<Item = KeyPosition>,
    verdicts: &[Verdict],
    ignore_eof: bool,
) -> BTreeMap<KeyPosition, SampleNames> {
    let mut wanted: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (shard, offset) in positions {
        wanted.entry(shard).or_default().insert(offset);
    }
    let mut samples = BTreeMap::new();
    for (shard, offsets) in wanted {
        let name = &verdicts[shard as usize].shard;
        if !source::can_be_read_again(name) {
            continue;
        }
        let Ok(mut stream) = SampleStream::open(name, ignore_eof) else { continue };
        while let Ok(Some(head)) = stream.next() {
            if offsets.contains(&head.offset) {
                let mut fields = BTreeSet::new();
                let read = stream.examine(
                    |_| false,
                    |member, _| {
                        fields.insert(member.field.to_owned());
                    },
                );
                samples.insert((shard, head.offset), SampleNames { key: head.key, fields });
                if read.is_err() {
                    break;
                }
            }
            if offsets.last().is_none_or(|&last| head.offset >= last) {
                break;
            }
        }
    }
    samples
}
