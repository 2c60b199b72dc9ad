//! External sort: records that need not fit into memory. Sorted runs are
//! spilled into one unnamed temporary file and merged from there. tarsort sorts
//! samples with it and tarcreate plans; both tarcreate and tarcheck find
//! duplicate keys ([`RepeatFinder`]); tarjoin finds rows by key ([`Lookup`]).
//!
//! A record is a key, compared byte by byte, and a body. The sort is stable:
//! records with equal keys stay in the order in which they were added, in
//! reverse too.
//!
//! # Cost
//!
//! Records are held in memory until it is full, with an overhead of 32 bytes
//! each. A run is then sorted and written sequentially. At the end, half of the
//! memory becomes read buffers of at least 64 KB per run, for up to 2048 runs
//! at once: 1 GB of memory sorts 2 TB in a single merge. If there are more
//! runs, neighbours are merged first, which reads and writes all data once
//! more.
//!
//! Spilled data is read once per merge, and its disk space is released while it
//! is read if the file system supports that; otherwise each further pass needs
//! the space once more.

mod arena;
mod lookup;
mod merge;
mod packed;
mod repeats;
mod run;
mod spill;
mod varint;

use std::path::PathBuf;

use anyhow::Result;

use arena::Arena;
use merge::Merge;
use run::{RunWriter, SortedRun};
use spill::Spill;

pub use lookup::{Lookup, LookupBuilder, LookupMatch};
pub use packed::{KeyGroups, PackedSample, Packer};
pub use repeats::{KeyPosition, PositionedKey, RepeatFinder};

/// Options of a [`Sorter`].
#[derive(Clone, Debug)]
pub struct SortOptions {
    /// Bytes to hold in memory; beyond that, records are spilled. At least 1
    /// MB, whatever is given.
    pub memory: u64,
    /// The folder of the temporary file.
    pub tmpdir: PathBuf,
    /// Whether to compress spilled data (LZ4).
    pub compress: bool,
    /// Whether the greatest key comes first.
    pub reverse: bool,
}

/// Less would not be enough for the buffers of a merge.
const LEAST_MEMORY: u64 = 1 << 20;

/// Collects the records to sort.
///
/// ```
/// use tarpipe::sort::{SortOptions, Sorter};
///
/// let options = SortOptions { memory: 1 << 20, tmpdir: std::env::temp_dir(), compress: false, reverse: false };
/// let mut sorter = Sorter::new(options);
/// for word in ["pear", "apple", "fig"] {
///     sorter.push(word.as_bytes(), &[b"body"])?;
/// }
/// let mut sorted = sorter.finish()?;
/// let mut keys = Vec::new();
/// while let Some(record) = sorted.next()? {
///     keys.push(String::from_utf8_lossy(record.key).into_owned());
/// }
/// assert_eq!(keys, ["apple", "fig", "pear"]);
/// # anyhow::Ok(())
/// ```
pub struct Sorter {
    options: SortOptions,
    held: Arena,
    spill: Option<Spill>,
    runs: Vec<SortedRun>,
    bytes: u64,
}

/// One record of the result, borrowed until the next one is requested.
pub struct SortRecord<'a> {
    /// What it was sorted by.
    pub key: &'a [u8],
    /// Its body: the parts given to [`Sorter::push`], concatenated.
    pub body: &'a [u8],
}

impl Sorter {
    /// An empty sorter. No file is created before it is needed.
    pub fn new(mut options: SortOptions) -> Self {
        options.memory = options.memory.max(LEAST_MEMORY);
        let held = Arena::new(options.memory);
        Sorter { options, held, spill: None, runs: Vec::new(), bytes: 0 }
    }

    /// Adds a record; its body is given in parts, so that the caller need not
    /// concatenate them. A single record may be larger than the memory.
    ///
    /// Fails if the temporary file cannot be created or written; if the disk is
    /// full, the message suggests `--tmpdir`.
    pub fn push(&mut self, key: &[u8], body: &[&[u8]]) -> Result<()> {
        let bytes = key.len() + body.iter().map(|part| part.len()).sum::<usize>();
        self.bytes += bytes as u64;
        if self.held.is_full(bytes) {
            self.spill_held()?;
        }
        self.held.push(key, body);
        Ok(())
    }

    /// Total bytes of keys and bodies so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sorts what is in memory and prepares the merge. If there are more runs
    /// than can be merged at once, this merges some of them first, which reads
    /// and writes all spilled data once per pass.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be read or written; if the disk is full, the
    /// message suggests `--tmpdir`.
    pub fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.held.sort(self.options.reverse);
            return Ok(Sorted(SortedRecords::Held(self.held, 0)));
        }
        self.spill_held()?;
        self.held = Arena::new(LEAST_MEMORY);
        let Some(mut spill) = self.spill else { return Ok(Sorted(SortedRecords::Held(self.held, 0))) };
        let fan_in = merge::fan_in(self.options.memory);
        while self.runs.len() > fan_in {
            self.runs = merge_groups(&self.runs, fan_in, &mut spill, &self.options)?;
        }
        Ok(Sorted(SortedRecords::Merged(Box::new(Merge::new(&self.runs, &spill, &self.options)?))))
    }

    /// Sorts what is in memory and writes it as a run.
    fn spill_held(&mut self) -> Result<()> {
        self.held.sort(self.options.reverse);
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::create(&self.options.tmpdir)?),
        };
        let mut out = RunWriter::new(spill, self.options.compress)?;
        for at in 0..self.held.len() {
            let record = self.held.get(at);
            out.put(record.key, record.body)?;
        }
        self.runs.push(out.finish(spill)?);
        self.held.clear();
        Ok(())
    }
}

/// Merges neighbouring runs, as many at a time as memory has buffers for. Only
/// neighbours, because records with equal keys come in the order of their runs.
fn merge_groups(runs: &[SortedRun], fan_in: usize, spill: &mut Spill, options: &SortOptions) -> Result<Vec<SortedRun>> {
    let mut merged = Vec::new();
    for group in runs.chunks(fan_in) {
        let mut records = Merge::new(group, spill, options)?;
        let mut out = RunWriter::new(spill, options.compress)?;
        while let Some(record) = records.next()? {
            out.put(record.key, record.body)?;
        }
        merged.push(out.finish(spill)?);
    }
    Ok(merged)
}

/// The sorted records. If some were spilled, half of the memory is used for
/// buffers of the runs.
pub struct Sorted(SortedRecords);

/// What fits into memory is sorted there and never written.
enum SortedRecords {
    Held(Arena, usize),
    Merged(Box<Merge>),
}

impl Sorted {
    /// The next record; None after the last. Fails if the temporary file cannot
    /// be read.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and lends what it returns")]
    pub fn next(&mut self) -> Result<Option<SortRecord<'_>>> {
        match &mut self.0 {
            SortedRecords::Merged(merge) => merge.next(),
            SortedRecords::Held(arena, at) if *at < arena.len() => {
                *at += 1;
                Ok(Some(arena.get(*at - 1)))
            }
            SortedRecords::Held(..) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn options(memory: u64, compress: bool, reverse: bool) -> SortOptions {
        SortOptions { memory, tmpdir: std::env::temp_dir(), compress, reverse }
    }

    /// Keys and bodies that come out for `count` records of `size` bytes with
    /// few different keys.
    fn sorted(options: SortOptions, count: u32, size: usize) -> Vec<(Vec<u8>, u32)> {
        let mut random = Random::new(1);
        let mut sorter = Sorter::new(options);
        for i in 0..count {
            let key = format!("some/prefix/{}", random.below(50));
            sorter.push(key.as_bytes(), &[&i.to_be_bytes(), &vec![i as u8; size]]).unwrap();
        }
        let mut records = sorter.finish().unwrap();
        let mut out = Vec::new();
        while let Some(record) = records.next().unwrap() {
            let (number, rest) = record.body.split_at(4);
            let number = u32::from_be_bytes(number.try_into().unwrap());
            assert!(rest.len() == size && rest.iter().all(|&byte| byte == number as u8));
            out.push((record.key.to_vec(), number));
        }
        out
    }

    #[test]
    fn spilled_or_not_the_order_is_the_same_and_stable() {
        let mut expected = sorted(options(1 << 30, false, false), 9000, 2000);
        for compress in [false, true] {
            assert!(sorted(options(0, compress, false), 9000, 2000) == expected, "{compress}");
        }
        assert!(expected.is_sorted());
        assert_eq!(expected.len(), 9000);
        let reversed = sorted(options(0, false, true), 9000, 2000);
        expected.sort_by(|a, b| b.0.cmp(&a.0)); // stable: equal keys stay in order
        assert!(reversed == expected);
    }

    #[test]
    fn a_record_larger_than_memory_goes_through() {
        let out = sorted(options(0, false, false), 5, 3 << 20);
        assert_eq!(out.len(), 5);
        assert!(out.is_sorted());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let mut sorter = Sorter::new(SortOptions { tmpdir: "/no/such/folder".into(), ..options(0, false, false) });
        let pushed = (0..3).try_for_each(|_| sorter.push(b"k", &[&[0; 600_000]]));
        let said = format!("{:#}", pushed.unwrap_err());
        assert!(said.starts_with("/no/such/folder: cannot create a temporary file"), "{said}");
    }
}
