//! Sorts records of bytes that need not fit into memory: sorted runs are spilled into one file
//! without a name and merged from there.
//!
//! A record is a key, which is compared byte by byte, and a body. Records with equal keys stay in
//! the order they came in, in reverse too. What is spilled is read once; where the file system
//! can, its space is given back while it is read.

mod arena;
mod merge;
mod packed;
mod run;
mod spill;
mod varint;

use std::path::PathBuf;

use anyhow::Result;

use arena::Arena;
use merge::Merge;
use run::{Run, RunWriter};
use spill::Spill;

pub use packed::{Groups, Packed, Packer};

/// How a [`Sorter`] works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that are held; more are spilled. Less than 1 MB is taken for 1 MB.
    pub memory: u64,
    /// The folder that takes what is spilled.
    pub tmpdir: PathBuf,
    /// Whether what is spilled is compressed.
    pub compress: bool,
    /// Whether the greatest key comes first.
    pub reverse: bool,
}

const LEAST_MEMORY: u64 = 1 << 20;

/// Takes records in.
pub struct Sorter {
    options: Options,
    held: Arena,
    spill: Option<Spill>,
    runs: Vec<Run>,
    bytes: u64,
}

/// One record on its way out.
pub struct Record<'a> {
    /// What it was sorted by.
    pub key: &'a [u8],
    /// All parts of its body in a row.
    pub body: &'a [u8],
}

impl Sorter {
    /// A sorter without records. No file is made before it is needed.
    pub fn new(mut options: Options) -> Self {
        options.memory = options.memory.max(LEAST_MEMORY);
        let held = Arena::new(options.memory);
        Sorter { options, held, spill: None, runs: Vec::new(), bytes: 0 }
    }

    /// Adds a record; its body is given in parts.
    pub fn push(&mut self, key: &[u8], body: &[&[u8]]) -> Result<()> {
        let bytes = key.len() + body.iter().map(|part| part.len()).sum::<usize>();
        self.bytes += bytes as u64;
        if self.held.is_full(bytes) {
            self.spill_held()?;
        }
        self.held.push(key, body);
        Ok(())
    }

    /// Bytes of all records so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All records in order.
    pub fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.held.sort(self.options.reverse);
            return Ok(Sorted(Kind::Held(self.held, 0)));
        }
        self.spill_held()?;
        self.held = Arena::new(LEAST_MEMORY);
        let Some(mut spill) = self.spill else { return Ok(Sorted(Kind::Held(self.held, 0))) };
        let fan_in = merge::fan_in(self.options.memory);
        while self.runs.len() > fan_in {
            self.runs = merge_groups(&self.runs, fan_in, &mut spill, &self.options)?;
        }
        Ok(Sorted(Kind::Merged(Box::new(Merge::new(&self.runs, &spill, &self.options)?))))
    }

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

/// Merges neighbouring runs, as many at a time as memory has buffers for. Neighbours, because
/// equal keys come in the order of the runs.
fn merge_groups(runs: &[Run], fan_in: usize, spill: &mut Spill, options: &Options) -> Result<Vec<Run>> {
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

/// Records in order.
pub struct Sorted(Kind);

enum Kind {
    Held(Arena, usize),
    Merged(Box<Merge>),
}

impl Sorted {
    /// The next record; None after the last.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and lends what it returns")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        match &mut self.0 {
            Kind::Merged(merge) => merge.next(),
            Kind::Held(arena, at) if *at < arena.len() => {
                *at += 1;
                Ok(Some(arena.get(*at - 1)))
            }
            Kind::Held(..) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn options(memory: u64, compress: bool, reverse: bool) -> Options {
        Options { memory, tmpdir: std::env::temp_dir(), compress, reverse }
    }

    /// Keys and bodies that come out for `count` records of `size` bytes with few different keys.
    fn sorted(options: Options, count: u32, size: usize) -> Vec<(Vec<u8>, u32)> {
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
        let mut sorter = Sorter::new(Options { tmpdir: "/no/such/folder".into(), ..options(0, false, false) });
        let pushed = (0..3).try_for_each(|_| sorter.push(b"k", &[&[0; 600_000]]));
        let said = format!("{:#}", pushed.unwrap_err());
        assert!(said.starts_with("/no/such/folder: cannot make a temporary file"), "{said}");
    }
}
