//! Records in memory, in large pieces: no allocation for each, and an order that is sorted
//! without moving them.

use std::cmp::Ordering;

use super::Record;

const LARGEST_CHUNK: u64 = 4 << 20;
const ITEM_BYTES: u64 = size_of::<Item>() as u64;

pub(super) struct Arena {
    memory: u64,
    chunk_bytes: usize,
    chunks: Vec<Vec<u8>>,
    /// Chunks of the usual size, for use again.
    spare: Vec<Vec<u8>>,
    items: Vec<Item>,
    held: u64,
}

/// Where a record is: its key at `start`, its body right behind.
#[derive(Clone, Copy)]
struct Item {
    /// The first bytes of the key: most comparisons need no more.
    prefix: u64,
    body: u64,
    chunk: u32,
    start: u32,
    key: u32,
}

impl Arena {
    pub(super) fn new(memory: u64) -> Self {
        let chunk_bytes = (memory / 16).min(LARGEST_CHUNK) as usize;
        Arena { memory, chunk_bytes, chunks: Vec::new(), spare: Vec::new(), items: Vec::new(), held: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether `bytes` more would be too much.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        let room = self.chunks.last().map_or(0, |chunk| chunk.capacity() - chunk.len());
        let more = if bytes > room { bytes.max(self.chunk_bytes) as u64 } else { 0 };
        !self.items.is_empty() && self.held + more + self.items.capacity() as u64 * ITEM_BYTES > self.memory
    }

    pub(super) fn push(&mut self, key: &[u8], body: &[&[u8]]) {
        let body_bytes: usize = body.iter().map(|part| part.len()).sum();
        let chunk = self.chunk_with(key.len() + body_bytes);
        let start = self.chunks[chunk].len() as u32;
        self.chunks[chunk].extend_from_slice(key);
        body.iter().for_each(|part| self.chunks[chunk].extend_from_slice(part));
        let (chunk, key_bytes) = (chunk as u32, key.len() as u32);
        self.items.push(Item { prefix: prefix(key), body: body_bytes as u64, chunk, start, key: key_bytes });
    }

    pub(super) fn get(&self, at: usize) -> Record<'_> {
        let item = &self.items[at];
        let bytes = &self.chunks[item.chunk as usize][item.start as usize..];
        let (key, rest) = bytes.split_at(item.key as usize);
        Record { key, body: &rest[..item.body as usize] }
    }

    /// Sorts by key, records with equal keys in the order they were pushed in.
    pub(super) fn sort(&mut self, reverse: bool) {
        let Arena { chunks, items, .. } = self;
        let key = |item: &Item| &chunks[item.chunk as usize][item.start as usize..][..item.key as usize];
        items.sort_unstable_by(|a, b| {
            let order = a.prefix.cmp(&b.prefix).then_with(|| key(a).cmp(key(b)));
            let order = if reverse { order.reverse() } else { order };
            order.then_with(|| (a.chunk, a.start).cmp(&(b.chunk, b.start)))
        });
    }

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

    /// The last chunk if it has room, or else a new last one: order of place is order of arrival.
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

/// The first eight bytes of a key as a number that compares as they do.
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
