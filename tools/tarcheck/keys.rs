//! Keys that come back, in one shard or in another: found by sorting fingerprints, on disk
//! when there are many.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use anyhow::{Context, Result};
use tarpipe::digest;
use tarpipe::sample::stream::Stream;
use tarpipe::source;

use crate::verdict::{Finding, Verdict};

/// Entries held in memory; more are sorted and spilled. 32 MB.
const HELD: usize = 1 << 20;
const ENTRY_BYTES: usize = 28;

/// Where a key stands. Sorts by key, then by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    fingerprint: u128,
    shard: u32,
    offset: u64,
}

impl Entry {
    pub fn new(key: &str, shard: usize, offset: u64) -> Self {
        Entry { fingerprint: digest::fingerprint(key), shard: shard as u32, offset }
    }

    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..16].copy_from_slice(&self.fingerprint.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.shard.to_be_bytes());
        bytes[20..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let number = |range: std::ops::Range<usize>| bytes[range].iter().fold(0, |n: u128, &b| n << 8 | u128::from(b));
        Entry { fingerprint: number(0..16), shard: number(16..20) as u32, offset: number(20..28) as u64 }
    }
}

/// All keys of a dataset.
#[derive(Default)]
pub struct Ledger {
    held: Vec<Entry>,
    runs: Vec<File>,
}

impl Ledger {
    /// Takes in entries and leaves the list empty.
    pub fn take(&mut self, entries: &mut Vec<Entry>) -> Result<()> {
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
    fn into_sorted(mut self) -> Result<impl Iterator<Item = Result<Entry>>> {
        self.held.sort_unstable();
        let mut sources: Vec<Box<dyn Iterator<Item = Result<Entry>>>> = vec![Box::new(self.held.into_iter().map(Ok))];
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

fn read_run(mut run: impl Read) -> impl Iterator<Item = Result<Entry>> {
    std::iter::from_fn(move || {
        let mut bytes = [0; ENTRY_BYTES];
        match run.read_exact(&mut bytes) {
            Ok(()) => Some(Ok(Entry::from_bytes(&bytes))),
            Err(err) if err.kind() == std::io::ErrorKind::UnexpectedEof => None,
            Err(err) => Some(Err(err.into())),
        }
    })
}

/// Adds a fault to the verdict of each shard for each key that stood somewhere before.
pub fn find_repeats(ledger: Ledger, verdicts: &mut [Verdict], show: usize, ignore_eof: bool) -> Result<()> {
    let mut first: Option<Entry> = None;
    let mut described: Vec<(Entry, Entry)> = Vec::new();
    let show = if show == 0 { usize::MAX } else { show };
    let mut room: Vec<usize> = verdicts.iter().map(|verdict| show.saturating_sub(verdict.findings.len())).collect();
    for entry in ledger.into_sorted()? {
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
        let (code, place) = if before.shard == entry.shard {
            ("key_returns", String::new())
        } else {
            ("key_shared", format!(" of {}", verdicts[before.shard as usize].shard))
        };
        let what = format!("its key stands at byte {}{place} already", before.offset);
        let sample = keys.get(&(entry.shard, entry.offset)).cloned();
        verdicts[entry.shard as usize].findings.push(Finding { code, offset: entry.offset, sample, what });
    }
    Ok(())
}

/// The keys behind some entries, read once more from the shards. What cannot be read twice, such
/// as stdin, stays without a name.
fn read_keys(
    entries: impl Iterator<Item = Entry>,
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
        let Ok(mut stream) = Stream::open(name, ignore_eof) else { continue };
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
    fn spilled_and_held_entries_come_out_in_one_order() {
        let mut ledger = Ledger::default();
        let all: Vec<Entry> = (0..3000).map(|i| Entry::new(&format!("key{}", i % 1000), i / 1000, i as u64)).collect();
        for part in all.chunks(1000) {
            ledger.take(&mut part.to_vec()).unwrap();
            if part[0].shard < 2 {
                ledger.spill().unwrap();
            }
        }
        assert_eq!(ledger.runs.len(), 2);
        let sorted: Vec<Entry> = ledger.into_sorted().unwrap().map(Result::unwrap).collect();
        let mut expected = all;
        expected.sort_unstable();
        assert_eq!(sorted, expected);
    }
}
