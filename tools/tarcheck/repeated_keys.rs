//! Finds repeated keys, within a shard and across shards, by sorting their fingerprints. Many are sorted on disk.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use anyhow::{Context, Result};
use tarpipe::digest;
use tarpipe::sample::stream::SampleStream;
use tarpipe::source;

use crate::tarcheck::verdict::{Finding, Verdict};

/// Fingerprints held in memory (32 MB); more are sorted and spilled.
const HELD: usize = 1 << 20;
const FINGERPRINT_BYTES: usize = 28;

/// The fingerprint of a key, and where its sample is. Sorts by key, then by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyFingerprint {
    fingerprint: u128,
    shard: u32,
    offset: u64,
}

impl KeyFingerprint {
    pub fn new(key: &str, shard: usize, offset: u64) -> Self {
        KeyFingerprint { fingerprint: digest::fingerprint(key), shard: shard as u32, offset }
    }

    fn to_bytes(self) -> [u8; FINGERPRINT_BYTES] {
        let mut bytes = [0; FINGERPRINT_BYTES];
        bytes[..16].copy_from_slice(&self.fingerprint.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.shard.to_be_bytes());
        bytes[20..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; FINGERPRINT_BYTES]) -> Self {
        let number = |range: std::ops::Range<usize>| bytes[range].iter().fold(0, |n: u128, &b| n << 8 | u128::from(b));
        KeyFingerprint { fingerprint: number(0..16), shard: number(16..20) as u32, offset: number(20..28) as u64 }
    }
}

/// The keys of all shards, as sorted runs of fingerprints: one in memory, the others in temporary files.
#[derive(Default)]
pub struct SpilledFingerprints {
    held: Vec<KeyFingerprint>,
    runs: Vec<File>,
}

impl SpilledFingerprints {
    /// Adds entries, and leaves their list empty.
    pub fn append(&mut self, entries: &mut Vec<KeyFingerprint>) -> Result<()> {
        self.held.append(entries);
        if self.held.len() >= HELD { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        self.held.sort_unstable();
        let mut run = BufWriter::new(tempfile::tempfile().context("cannot spill keys")?);
        for entry in self.held.drain(..) {
            run.write_all(&entry.to_bytes()).context("cannot spill keys")?;
        }
        self.runs.push(run.into_inner().context("cannot spill keys")?);
        Ok(())
    }

    /// All entries, sorted.
    fn into_sorted(mut self) -> Result<impl Iterator<Item = Result<KeyFingerprint>>> {
        self.held.sort_unstable();
        let mut sources: Vec<Box<dyn Iterator<Item = Result<KeyFingerprint>>>> =
            vec![Box::new(self.held.into_iter().map(Ok))];
        for mut run in self.runs {
            run.seek(SeekFrom::Start(0))?;
            sources.push(Box::new(read_run(BufReader::new(run))));
        }
        let mut heap = BinaryHeap::new();
        for (i, source) in sources.iter_mut().enumerate() {
            if let Some(entry) = source.next() {
                heap.push(Reverse((entry?, i)));
            }
        }
        Ok(std::iter::from_fn(move || {
            let Reverse((entry, i)) = heap.pop()?;
            match sources[i].next() {
                Some(Ok(next)) => heap.push(Reverse((next, i))),
                Some(Err(err)) => return Some(Err(err)),
                None => {}
            }
            Some(Ok(entry))
        }))
    }
}

fn read_run(mut run: impl Read) -> impl Iterator<Item = Result<KeyFingerprint>> {
    std::iter::from_fn(move || {
        let mut bytes = [0; FINGERPRINT_BYTES];
        match run.read_exact(&mut bytes) {
            Ok(()) => Some(Ok(KeyFingerprint::from_bytes(&bytes))),
            Err(err) if err.kind() == std::io::ErrorKind::UnexpectedEof => None,
            Err(err) => Some(Err(err.into())),
        }
    })
}

/// Adds a fault to the verdict of a shard for each of its keys that appeared earlier.
pub fn find_repeats(
    fingerprints: SpilledFingerprints,
    verdicts: &mut [Verdict],
    show: usize,
    ignore_eof: bool,
) -> Result<()> {
    let mut first: Option<KeyFingerprint> = None;
    let mut described: Vec<(KeyFingerprint, KeyFingerprint)> = Vec::new();
    let show = if show == 0 { usize::MAX } else { show };
    let mut room: Vec<usize> = verdicts.iter().map(|verdict| show.saturating_sub(verdict.findings.len())).collect();
    for entry in fingerprints.into_sorted()? {
        let entry = entry?;
        match first.filter(|first| first.fingerprint == entry.fingerprint) {
            None => first = Some(entry),
            Some(before) => {
                let shard = entry.shard as usize;
                verdicts[shard].faults += 1;
                if room[shard] > 0 {
                    room[shard] -= 1;
                    described.push((before, entry));
                }
            }
        }
    }
    described.sort_unstable_by_key(|(_, entry)| (entry.shard, entry.offset));
    let keys = read_keys(described.iter().map(|pair| pair.1), verdicts, ignore_eof);
    for (before, entry) in described {
        let (code, shard) = if before.shard == entry.shard {
            ("key_returns", String::new())
        } else {
            ("key_shared", format!(" of {}", verdicts[before.shard as usize].shard))
        };
        let what = format!("duplicate of the key at byte {}{shard}", before.offset);
        let sample = keys.get(&(entry.shard, entry.offset)).cloned();
        verdicts[entry.shard as usize].findings.push(Finding { code, offset: entry.offset, sample, what });
    }
    Ok(())
}

/// The keys of some entries, read from the shards once more. Sources that cannot be read twice, such as stdin, are left
/// out.
fn read_keys(
    entries: impl Iterator<Item = KeyFingerprint>,
    verdicts: &[Verdict],
    ignore_eof: bool,
) -> BTreeMap<(u32, u64), String> {
    let mut wanted: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for entry in entries {
        wanted.entry(entry.shard).or_default().push(entry.offset);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spilled_and_held_entries_are_merged_in_order() {
        let mut fingerprints = SpilledFingerprints::default();
        let all: Vec<KeyFingerprint> =
            (0..3000).map(|i| KeyFingerprint::new(&format!("key{}", i % 1000), i / 1000, i as u64)).collect();
        for part in all.chunks(1000) {
            fingerprints.append(&mut part.to_vec()).unwrap();
            if part[0].shard < 2 {
                fingerprints.spill().unwrap();
            }
        }
        assert_eq!(fingerprints.runs.len(), 2);
        let sorted: Vec<KeyFingerprint> = fingerprints.into_sorted().unwrap().map(Result::unwrap).collect();
        let mut expected = all;
        expected.sort_unstable();
        assert_eq!(sorted, expected);
    }
}
