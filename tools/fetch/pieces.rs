//! Bytes that come in steps, kept in pieces until the last is there: one vector that grows is copied over and over, and
//! takes twice its size each time.

use std::io::{self, Read};

#[derive(Default)]
pub struct Pieces {
    pieces: Vec<Vec<u8>>,
    length: u64,
}

impl Pieces {
    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// How many bytes a step of this size may add: one more than `limit` shows that there are too many.
    pub fn room(&self, step: u64, limit: u64) -> u64 {
        step.min(limit.saturating_add(1).saturating_sub(self.length))
    }

    /// Reads up to `room` bytes more, also those before an error. Fewer are the last.
    pub fn read(&mut self, source: impl Read, room: u64) -> io::Result<u64> {
        let mut piece = Vec::with_capacity(room as usize);
        let read = source.take(room).read_to_end(&mut piece);
        self.length += piece.len() as u64;
        self.pieces.push(piece);
        read.map(|read| read as u64)
    }

    /// Puts the pieces together, and frees each as it goes.
    pub fn join(&mut self) -> Vec<u8> {
        if self.pieces.len() < 2 {
            return self.pieces.pop().unwrap_or_default();
        }
        let mut whole = Vec::with_capacity(self.length as usize);
        self.pieces.drain(..).for_each(|piece| whole.extend_from_slice(&piece));
        whole
    }
}
