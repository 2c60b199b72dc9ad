//! Bodies by key, for joins: held in memory while they fit, otherwise sorted
//! into unnamed temporary files and looked up there.
//!
//! Keys are stored as fingerprints of 128 bits, in sorted order. They are
//! spread evenly, so a search by interpolation reads a handful of them, however
//! many there are.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

use super::spill::{Append, Spill};
use super::{SortOptions, Sorted, Sorter, varint};
use crate::digest;

/// The fingerprint, and the offset of the body.
const ENTRY: usize = 24;

/// Collects keys and bodies for a [`Lookup`].
///
/// Three quarters of the memory hold records: 25 bytes for each, besides its
/// body. When they are full, all records go through an external sort with the
/// last quarter.
///
/// ```
/// use tarpipe::sort::{LookupBuilder, SortOptions};
///
/// let options = SortOptions { memory: 1 << 20, tmpdir: std::env::temp_dir(), compress: false, reverse: false };
/// let mut builder = LookupBuilder::new(options);
/// for (key, body) in [("cat", "1"), ("dog", "2"), ("cat", "3")] {
///     builder.push(key, body.as_bytes())?;
/// }
/// let mut lookup = builder.finish()?;
/// assert_eq!((lookup.len(), lookup.repeats()), (2, 1));
/// assert_eq!(lookup.find("cat")?.map(|found| found.body), Some(&b"1"[..]));
/// assert!(lookup.find("cow")?.is_none());
/// # anyhow::Ok(())
/// ```
pub struct LookupBuilder {
    options: SortOptions,
    entries: Vec<LookupEntry>,
    bodies: Vec<u8>,
    sorter: Option<Sorter>,
}

/// Where the body of a key is.
#[derive(Clone, Copy)]
struct LookupEntry {
    fingerprint: [u64; 2],
    offset: u64,
}

impl LookupBuilder {
    /// An empty collection. `reverse` has no effect.
    pub fn new(options: SortOptions) -> Self {
        LookupBuilder { options, entries: Vec::new(), bodies: Vec::new(), sorter: None }
    }

    /// Adds a record. If a key is added several times, the first record counts.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be created or written.
    pub fn push(&mut self, key: &str, body: &[u8]) -> Result<()> {
        let fingerprint = digest::fingerprint(key);
        if let Some(sorter) = &mut self.sorter {
            return sorter.push(&fingerprint.to_be_bytes(), &[body]);
        }
        let offset = self.bodies.len() as u64;
        self.entries.push(LookupEntry { fingerprint: [(fingerprint >> 64) as u64, fingerprint as u64], offset });
        varint::put(&mut self.bodies, body.len() as u64);
        self.bodies.extend_from_slice(body);
        let held = (self.entries.len() * ENTRY + self.bodies.len()) as u64;
        if held > self.options.memory / 4 * 3 {
            self.spill_held()?;
        }
        Ok(())
    }

    /// Sorts the records. If they did not fit into memory, this writes them
    /// twice to temporary files.
    ///
    /// # Errors
    ///
    /// The temporary files cannot be written or read.
    pub fn finish(mut self) -> Result<Lookup> {
        if let Some(sorter) = self.sorter.take() {
            return stored(sorter.finish()?, &self.options);
        }
        let added = self.entries.len();
        self.entries.sort_unstable_by_key(|entry| (entry.fingerprint, entry.offset));
        self.entries.dedup_by_key(|entry| entry.fingerprint);
        let (len, repeats) = (self.entries.len() as u64, (added - self.entries.len()) as u64);
        let records = LookupRecords::Held { entries: self.entries, bodies: self.bodies };
        Ok(Lookup { records, len, repeats, body: Vec::new() })
    }

    /// Moves what is held to an external sort, and makes that the place of all
    /// further records.
    fn spill_held(&mut self) -> Result<()> {
        let memory = self.options.memory / 4;
        let mut sorter = Sorter::new(SortOptions { memory, reverse: false, ..self.options.clone() });
        for entry in std::mem::take(&mut self.entries) {
            let body = body_at(&self.bodies, entry.offset).context("an offset is wrong")?;
            sorter.push(&entry.fingerprint(), &[body])?;
        }
        self.bodies = Vec::new();
        self.sorter = Some(sorter);
        Ok(())
    }
}

impl LookupEntry {
    fn fingerprint(self) -> [u8; 16] {
        (u128::from(self.fingerprint[0]) << 64 | u128::from(self.fingerprint[1])).to_be_bytes()
    }
}

/// Writes sorted records to two files that can be searched.
fn stored(mut sorted: Sorted, options: &SortOptions) -> Result<Lookup> {
    let files = (Spill::create(&options.tmpdir)?, Spill::create(&options.tmpdir)?);
    let mut entries = BufWriter::with_capacity(1 << 18, files.0.append());
    let mut bodies = BufWriter::with_capacity(1 << 18, files.1.append());
    let (mut len, mut repeats, mut offset, mut last) = (0, 0, 0_u64, [0; 16]);
    while let Some(record) = sorted.next()? {
        if len > 0 && record.key == last {
            repeats += 1;
            continue;
        }
        last.copy_from_slice(record.key);
        entries.write_all(record.key)?;
        entries.write_all(&offset.to_be_bytes())?;
        bodies.write_all(record.body)?;
        offset += record.body.len() as u64;
        len += 1;
    }
    let finish = |writer: BufWriter<Append>| writer.into_inner().map_err(|err| err.into_error());
    finish(entries)?;
    finish(bodies)?;
    let records = LookupRecords::Stored { entries: files.0.file(), bodies: files.1.file(), end: offset };
    Ok(Lookup { records, len, repeats, body: Vec::new() })
}

/// Finds bodies by key.
pub struct Lookup {
    records: LookupRecords,
    len: u64,
    repeats: u64,
    body: Vec<u8>,
}

enum LookupRecords {
    Held { entries: Vec<LookupEntry>, bodies: Vec<u8> },
    Stored { entries: std::sync::Arc<File>, bodies: std::sync::Arc<File>, end: u64 },
}

/// A record that was found.
pub struct LookupMatch<'a> {
    /// The position of its key among all different keys, below
    /// [`Lookup::len`].
    pub position: u64,
    /// What was added with the key.
    pub body: &'a [u8],
}

impl Lookup {
    /// The number of different keys.
    #[allow(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The number of records whose key had been added before.
    pub fn repeats(&self) -> u64 {
        self.repeats
    }

    /// The record of a key. Fails if a temporary file cannot be read.
    pub fn find(&mut self, key: &str) -> Result<Option<LookupMatch<'_>>> {
        let wanted = digest::fingerprint(key);
        let Some((position, offset)) = self.search(wanted)? else { return Ok(None) };
        if let LookupRecords::Stored { bodies, end, .. } = &self.records {
            let next = if position + 1 < self.len { self.records.entry(position + 1)?.1 } else { *end };
            self.body.resize(usize::try_from(next - offset)?, 0);
            bodies.read_exact_at(&mut self.body, offset).context(UNREADABLE)?;
        }
        let body = match &self.records {
            LookupRecords::Held { bodies, .. } => body_at(bodies, offset).context("an offset is wrong")?,
            LookupRecords::Stored { .. } => &self.body,
        };
        Ok(Some(LookupMatch { position, body }))
    }

    /// The position of a fingerprint and the offset of its body. Interpolates
    /// between the ends of the range; every third step halves it instead, so
    /// that no distribution is slow.
    fn search(&self, wanted: u128) -> Result<Option<(u64, u64)>> {
        let (mut low, mut high) = ((0, 0_u128), (self.len, u128::MAX));
        for step in 1.. {
            if low.0 >= high.0 {
                break;
            }
            let span = high.0 - low.0;
            let share = match step % 3 {
                0 => 0.5,
                _ => (wanted - low.1) as f64 / (high.1 - low.1).max(1) as f64,
            };
            let position = low.0 + ((span as f64 * share) as u64).min(span - 1);
            let (found, offset) = self.records.entry(position)?;
            match found.cmp(&wanted) {
                Ordering::Equal => return Ok(Some((position, offset))),
                Ordering::Less => low = (position + 1, found),
                Ordering::Greater => high = (position, found),
            }
        }
        Ok(None)
    }
}

const UNREADABLE: &str = "cannot read a temporary file";

impl LookupRecords {
    /// The fingerprint at a position, and the offset of its body.
    fn entry(&self, position: u64) -> Result<(u128, u64)> {
        match self {
            LookupRecords::Held { entries, .. } => {
                let entry = entries[position as usize];
                Ok((u128::from_be_bytes(entry.fingerprint()), entry.offset))
            }
            LookupRecords::Stored { entries, .. } => {
                let mut entry = [0; ENTRY];
                entries.read_exact_at(&mut entry, position * ENTRY as u64).context(UNREADABLE)?;
                let (fingerprint, offset) = entry.split_at(16);
                Ok((u128::from_be_bytes(fingerprint.try_into()?), u64::from_be_bytes(offset.try_into()?)))
            }
        }
    }
}

/// The body at this offset; None if there is none.
fn body_at(bodies: &[u8], offset: u64) -> Option<&[u8]> {
    let mut rest = bodies.get(offset as usize..)?;
    let len = varint::take(&mut rest)?;
    rest.get(..len as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bodies of all keys, present or not, and the counts.
    fn found(memory: u64) -> (Vec<Option<Vec<u8>>>, u64, u64) {
        let options = SortOptions { memory, tmpdir: std::env::temp_dir(), compress: false, reverse: false };
        let mut builder = LookupBuilder::new(options);
        for i in 0..40_000_u32 {
            let body = vec![i as u8; i as usize % 90];
            builder.push(&format!("key {}", i % 30_000), &body).unwrap();
        }
        let mut lookup = builder.finish().unwrap();
        let bodies = (0..31_000).map(|i| lookup.find(&format!("key {i}")).unwrap().map(|found| found.body.to_vec()));
        (bodies.collect(), lookup.len(), lookup.repeats())
    }

    #[test]
    fn the_first_body_of_each_key_is_found_in_memory_and_on_disk() {
        let held = found(1 << 30);
        assert_eq!((held.1, held.2), (30_000, 10_000));
        for (i, body) in held.0.iter().enumerate() {
            let expected = (i < 30_000).then(|| vec![i as u8; i % 90]);
            assert!(*body == expected, "{i}");
        }
        assert!(found(1 << 20) == held);
        assert!(found(0) == held);
    }

    #[test]
    fn positions_are_different_and_below_the_length() {
        let options = SortOptions { memory: 0, tmpdir: std::env::temp_dir(), compress: false, reverse: false };
        let mut builder = LookupBuilder::new(options);
        (0..1000).for_each(|i| builder.push(&i.to_string(), b"").unwrap());
        let mut lookup = builder.finish().unwrap();
        let mut positions: Vec<u64> =
            (0..1000).map(|i| lookup.find(&i.to_string()).unwrap().unwrap().position).collect();
        positions.sort_unstable();
        assert!(positions.into_iter().eq(0..1000));
    }
}
