//! Records in memory, in large chunks: no allocation per record, and sorting
//! does not move them.

use std::cmp::Ordering;

use super::SortRecord;

/// Larger chunks would waste memory at the end of the last one.
const LARGEST_CHUNK: u64 = 4 << 20;
const ITEM_BYTES: u64 = size_of::<ArenaItem>() as u64;

/// The records that are held at present.
pub(super) struct Arena {
    memory: u64,
    chunk_bytes: usize,
    chunks: Vec<Vec<u8>>,
    /// Chunks of the usual size, to be reused.
    spare: Vec<Vec<u8>>,
    items: Vec<ArenaItem>,
    held: u64,
}

/// The position of a record: its key is at `start`, its body directly behind.
#[derive(Clone, Copy)]
struct ArenaItem {
    /// The first bytes of the key, which decide most comparisons.
    prefix: u64,
    body: u64,
    chunk: u32,
    start: u32,
    key: u32,
}

impl Arena {
    /// An arena that is full at about `memory` bytes.
    pub(super) fn new(memory: u64) -> Self {
        let chunk_bytes = (memory / 16).min(LARGEST_CHUNK) as usize;
        Arena { memory, chunk_bytes, chunks: Vec::new(), spare: Vec::new(), items: Vec::new(), held: 0 }
    }

    /// The number of records.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether `bytes` more would exceed the memory. An empty arena is never
    /// full.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        let room = self.chunks.last().map_or(0, |chunk| chunk.capacity() - chunk.len());
        let more = if bytes > room { bytes.max(self.chunk_bytes) as u64 } else { 0 };
        !self.items.is_empty() && self.held + more + self.items.capacity() as u64 * ITEM_BYTES > self.memory
    }

    /// Adds a record.
    pub(super) fn push(&mut self, key: &[u8], body: &[&[u8]]) {
        let body_bytes: usize = body.iter().map(|part| part.len()).sum();
        let chunk = self.chunk_with(key.len() + body_bytes);
        let start = self.chunks[chunk].len() as u32;
        self.chunks[chunk].extend_from_slice(key);
        body.iter().for_each(|part| self.chunks[chunk].extend_from_slice(part));
        let (chunk, key_bytes) = (chunk as u32, key.len() as u32);
        self.items.push(ArenaItem { prefix: prefix(key), body: body_bytes as u64, chunk, start, key: key_bytes });
    }

    /// The record at this position, in sorted order after [`Arena::sort`].
    pub(super) fn get(&self, at: usize) -> SortRecord<'_> {
        let item = &self.items[at];
        let bytes = &self.chunks[item.chunk as usize][item.start as usize..];
        let (key, rest) = bytes.split_at(item.key as usize);
        SortRecord { key, body: &rest[..item.body as usize] }
    }

    /// Sorts by key; records with equal keys keep the order in which they were
    /// added.
    pub(super) fn sort(&mut self, reverse: bool) {
        let Arena { chunks, items, .. } = self;
        let key = |item: &ArenaItem| &chunks[item.chunk as usize][item.start as usize..][..item.key as usize];
        items.sort_unstable_by(|a, b| {
            let order = a.prefix.cmp(&b.prefix).then_with(|| key(a).cmp(key(b)));
            let order = if reverse { order.reverse() } else { order };
            order.then_with(|| (a.chunk, a.start).cmp(&(b.chunk, b.start)))
        });
    }

    /// Removes all records, but keeps the memory.
    pub(super) fn clear(&mut self) {
        let usual = self.chunk_bytes;
        let chunks = self.chunks.drain(..).filter(|chunk| chunk.capacity() == usual);
        self.spare.extend(chunks.map(|mut chunk| {
            chunk.clear();
            chunk
        }));
        self.items.clear();
        self.held = 0;
    }

    /// The last chunk if it has room, otherwise a new one: the order of
    /// positions is the order of arrival.
    fn chunk_with(&mut self, bytes: usize) -> usize {
        let has_room = self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= bytes);
        if !has_room {
            let usual = if bytes <= self.chunk_bytes { self.spare.pop() } else { None };
            let chunk = usual.unwrap_or_else(|| Vec::with_capacity(bytes.max(self.chunk_bytes)));
            self.held += chunk.capacity() as u64;
            self.chunks.push(chunk);
        }
        self.chunks.len() - 1
    }
}

/// The first eight bytes of a key as a number that compares in the same way.
pub(super) fn prefix(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let n = key.len().min(8);
    first[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(first)
}

/// Compares keys whose prefixes are known.
pub(super) fn compare(a: (u64, &[u8]), b: (u64, &[u8])) -> Ordering {
    a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1))
}
