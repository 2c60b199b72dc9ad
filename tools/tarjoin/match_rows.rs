//! Finds the row of a sample in one --with: by lookup, or side by side in the order of both.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use tarpipe::sort::{Lookup, LookupBuilder, SortOptions};

use crate::tarjoin::other_side::OtherSide;

/// How the rows of one --with and the samples matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchCounts {
    pub rows: u64,
    /// Rows whose key no sample had.
    pub unused: u64,
    /// Rows with the key of an earlier row.
    pub repeated: u64,
    /// Rows without a key.
    pub keyless: u64,
}

/// The rows of one --with.
pub enum RowMatcher {
    Lookup(RowLookup),
    SideBySide(SideBySide),
}

impl RowMatcher {
    /// Reads all rows; or, if both sides are in order, starts reading them.
    pub fn new(side: OtherSide, options: SortOptions, sorted: bool) -> Result<Self> {
        Ok(match sorted {
            true => RowMatcher::SideBySide(SideBySide::start(side)?),
            false => RowMatcher::Lookup(RowLookup::load(&side, options)?),
        })
    }

    /// The bytes of the row with this key.
    pub fn find(&mut self, key: &str) -> Result<Option<&[u8]>> {
        match self {
            RowMatcher::Lookup(lookup) => lookup.find(key),
            RowMatcher::SideBySide(rows) => rows.find(key),
        }
    }

    /// Reads what is left, and counts.
    pub fn finish(self) -> Result<MatchCounts> {
        match self {
            RowMatcher::Lookup(lookup) => Ok(lookup.finish()),
            RowMatcher::SideBySide(rows) => rows.finish(),
        }
    }
}

/// All rows, by key.
pub struct RowLookup {
    rows: Lookup,
    /// A bit for each different key, set once a sample had it.
    used: Vec<u64>,
    counts: MatchCounts,
}

impl RowLookup {
    fn load(side: &OtherSide, options: SortOptions) -> Result<Self> {
        let mut builder = LookupBuilder::new(options);
        let mut counts = MatchCounts::default();
        side.read(&mut |row| {
            counts.rows += 1;
            match row.key {
                Some(key) => builder.push(key, row.body)?,
                None => counts.keyless += 1,
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let rows = builder.finish()?;
        let used = vec![0; rows.len().div_ceil(64) as usize];
        Ok(RowLookup { rows, used, counts })
    }

    fn find(&mut self, key: &str) -> Result<Option<&[u8]>> {
        let Some(found) = self.rows.find(key)? else { return Ok(None) };
        self.used[(found.position / 64) as usize] |= 1 << (found.position % 64);
        Ok(Some(found.body))
    }

    fn finish(self) -> MatchCounts {
        let used: u64 = self.used.iter().map(|bits| u64::from(bits.count_ones())).sum();
        MatchCounts { unused: self.rows.len() - used, repeated: self.rows.repeats(), ..self.counts }
    }
}

/// Rows in one message of the reading thread, at most.
const BATCH_ROWS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Key and bytes of rows.
type RowBatch = Vec<(String, Vec<u8>)>;

/// Rows that are read while the samples are, on a thread of their own.
pub struct SideBySide {
    name: String,
    batches: Receiver<RowBatch>,
    /// Ends with the number of rows without a key.
    reader: JoinHandle<Result<u64>>,
    batch: std::vec::IntoIter<(String, Vec<u8>)>,
    row: Option<(String, Vec<u8>)>,
    /// Whether a sample had the key of `row`.
    is_used: bool,
    last_key: String,
    /// Whether both sides have ascended so far.
    ascends: bool,
    /// Whether they were not in step, which only ascending sides may be.
    has_gap: bool,
    counts: MatchCounts,
}

impl SideBySide {
    fn start(side: OtherSide) -> Result<Self> {
        let name = side.name();
        let (sender, batches) = sync_channel(2);
        let read = move || send_rows(&side, &sender);
        let reader = std::thread::Builder::new().name("rows".into()).spawn(read).context("cannot start a thread")?;
        let counts = MatchCounts::default();
        let (batch, last_key) = (Vec::new().into_iter(), String::new());
        Ok(SideBySide {
            name,
            batches,
            reader,
            batch,
            row: None,
            is_used: false,
            last_key,
            ascends: true,
            has_gap: false,
            counts,
        })
    }

    fn find(&mut self, key: &str) -> Result<Option<&[u8]>> {
        self.ascends &= *self.last_key <= *key;
        key.clone_into(&mut self.last_key);
        if self.row.is_none() {
            self.advance();
        }
        let is_match = loop {
            let Some((row_key, _)) = &self.row else {
                // Without any row, the order does not matter.
                self.has_gap |= self.counts.rows > 0;
                break false;
            };
            match row_key.as_str().cmp(key) {
                Ordering::Equal => break true,
                _ if self.is_used => self.advance(),
                order => {
                    self.has_gap = true;
                    if order == Ordering::Greater {
                        break false;
                    }
                    self.advance();
                }
            }
        };
        if self.has_gap && !self.ascends {
            bail!(
                "{}: not in the order of the samples at {key}; sort both by key (tarsort), or leave out --sorted",
                self.name
            );
        }
        self.is_used |= is_match;
        Ok(self.row.as_ref().filter(|_| is_match).map(|(_, body)| body.as_slice()))
    }

    /// Moves to the next row with another key; to none after the last.
    fn advance(&mut self) {
        let last = self.row.take();
        self.counts.unused += u64::from(last.is_some() && !self.is_used);
        self.is_used = false;
        while let Some(row) = self.next_row() {
            self.counts.rows += 1;
            match &last {
                Some((key, _)) if *key == row.0 => self.counts.repeated += 1,
                Some((key, _)) => {
                    self.ascends &= *key < row.0;
                    self.row = Some(row);
                    return;
                }
                None => {
                    self.row = Some(row);
                    return;
                }
            }
        }
    }

    fn next_row(&mut self) -> Option<(String, Vec<u8>)> {
        if let Some(row) = self.batch.next() {
            return Some(row);
        }
        self.batch = self.batches.recv().ok()?.into_iter();
        self.batch.next()
    }

    fn finish(mut self) -> Result<MatchCounts> {
        if self.row.is_none() && self.counts.rows == 0 {
            self.advance();
        }
        while self.row.is_some() {
            self.advance();
        }
        let keyless = match self.reader.join() {
            Ok(result) => result?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok(MatchCounts { rows: self.counts.rows + keyless, keyless, ..self.counts })
    }
}

/// Sends all rows in batches, and returns the number of rows without a key. Ends early if nobody receives them.
fn send_rows(side: &OtherSide, sender: &SyncSender<RowBatch>) -> Result<u64> {
    let (mut batch, mut bytes, mut keyless) = (RowBatch::new(), 0, 0);
    side.read(&mut |row| {
        let Some(key) = row.key else {
            keyless += 1;
            return Ok(ControlFlow::Continue(()));
        };
        bytes += key.len() + row.body.len();
        batch.push((key.to_owned(), row.body.to_vec()));
        if batch.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            return Ok(ControlFlow::Continue(()));
        }
        bytes = 0;
        Ok(match sender.send(std::mem::take(&mut batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    })?;
    if !batch.is_empty() {
        // A receiver that is gone needs no more rows.
        _ = sender.send(batch);
    }
    Ok(keyless)
}
