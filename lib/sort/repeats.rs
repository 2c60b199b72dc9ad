//! Finds keys that appear more than once among more than fit into memory. Used
//! by tarcheck across shards and by tarcreate across plans.

use anyhow::{Context, Result};

use super::{SortOptions, Sorter};
use crate::digest;

/// A number of a source, and a place in it.
pub type KeyPosition = (u64, u64);

/// The fingerprint of a key and its position, to be added to a
/// [`RepeatFinder`].
#[derive(Clone, Copy)]
pub struct PositionedKey([u8; 32]);

impl PositionedKey {
    /// Hashes the key, which is most of the work.
    pub fn new(key: &str, (source, place): KeyPosition) -> Self {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&digest::fingerprint(key).to_be_bytes());
        bytes[16..24].copy_from_slice(&source.to_be_bytes());
        bytes[24..].copy_from_slice(&place.to_be_bytes());
        PositionedKey(bytes)
    }

    fn position(&self) -> KeyPosition {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n: u64, &byte| n << 8 | u64::from(byte));
        (number(&self.0[16..24]), number(&self.0[24..]))
    }
}

/// Collects keys and finds the repeated ones by sorting their fingerprints.
///
/// ```
/// use tarpipe::sort::{PositionedKey, RepeatFinder, SortOptions};
///
/// let options = SortOptions { memory: 1 << 20, tmpdir: std::env::temp_dir(), compress: false, reverse: false };
/// let mut finder = RepeatFinder::new(options);
/// for (place, key) in ["cat", "dog", "cat"].iter().enumerate() {
///     finder.add(&PositionedKey::new(key, (0, place as u64)))?;
/// }
/// let mut found = Vec::new();
/// finder.find(|first, again| found.push((first, again)))?;
/// assert_eq!(found, [((0, 0), (0, 2))]);
/// # anyhow::Ok(())
/// ```
pub struct RepeatFinder(Sorter);

impl RepeatFinder {
    /// An empty finder.
    pub fn new(options: SortOptions) -> Self {
        RepeatFinder(Sorter::new(options))
    }

    /// Adds a key.
    ///
    /// # Errors
    ///
    /// Those of [`Sorter::push`].
    pub fn add(&mut self, key: &PositionedKey) -> Result<()> {
        self.0.push(&key.0, &[])
    }

    /// Calls `each` with the first position and every further position of each
    /// repeated key, whatever the order in which they were added. The keys come
    /// in no particular order, the positions of a key in theirs.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written or read.
    pub fn find(self, mut each: impl FnMut(KeyPosition, KeyPosition)) -> Result<()> {
        let mut sorted = self.0.finish()?;
        let mut first: Option<PositionedKey> = None;
        while let Some(record) = sorted.next()? {
            let key = PositionedKey(record.key.try_into().context("damaged temporary file")?);
            match first.filter(|first| first.0[..16] == key.0[..16]) {
                Some(first) => each(first.position(), key.position()),
                None => first = Some(key),
            }
        }
        Ok(())
    }
}
