//! The fields of which Ray makes arrays. It reads samples in chunks, and cannot make a table of a chunk whose first sample
//! has an array that another sample lacks.

use std::collections::BTreeSet;

use crate::tarcheck::loaders::{Loader, content};

/// Samples per chunk.
const CHUNK: u64 = 512;

/// The array fields of the current chunk.
#[derive(Debug, Default)]
pub struct ArrayFields {
    samples: u64,
    first: BTreeSet<String>,
    sample: BTreeSet<String>,
    failed: bool,
}

impl ArrayFields {
    /// Adds a field to the current sample.
    pub fn add(&mut self, field: &str) {
        if content::is_array(Loader::Ray, field) {
            self.sample.insert(field.to_owned());
        }
    }

    /// Ends the current sample. Returns a field that it lacks, once per shard.
    pub fn end_sample(&mut self) -> Option<String> {
        let sample = std::mem::take(&mut self.sample);
        if self.samples.is_multiple_of(CHUNK) {
            self.first = sample.clone();
        }
        self.samples += 1;
        let missing = self.first.difference(&sample).next().filter(|_| !self.failed).cloned();
        self.failed |= missing.is_some();
        missing
    }
}
