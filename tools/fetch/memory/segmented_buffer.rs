//! A buffer for bytes that arrive in steps. It keeps them in segments until all have arrived: a vector that grows is copied
//! again and again, and needs its size twice each time.

use std::io::{self, Read};

/// Bytes read so far, one segment per step.
#[derive(Default)]
pub struct SegmentedBuffer {
    segments: Vec<Vec<u8>>,
    length: u64,
}

impl SegmentedBuffer {
    pub fn len(&self) -> u64 {
        self.length
    }

    /// How many bytes the next step may read: up to `step`, and one more than `limit`, to detect that there are too many.
    pub fn room(&self, step: u64, limit: u64) -> u64 {
        step.min(limit.saturating_add(1).saturating_sub(self.length))
    }

    /// Reads up to `room` more bytes; fewer mean the end. Bytes before an error are kept.
    pub fn read(&mut self, source: impl Read, room: u64) -> io::Result<u64> {
        let mut segment = Vec::with_capacity(room as usize);
        let read = source.take(room).read_to_end(&mut segment);
        self.length += segment.len() as u64;
        self.segments.push(segment);
        read.map(|read| read as u64)
    }

    /// Joins the segments, freeing each once it is copied.
    pub fn join(&mut self) -> Vec<u8> {
        if self.segments.len() < 2 {
            return self.segments.pop().unwrap_or_default();
        }
        let mut whole = Vec::with_capacity(self.length as usize);
        self.segments.drain(..).for_each(|segment| whole.extend_from_slice(&segment));
        whole
    }
}
