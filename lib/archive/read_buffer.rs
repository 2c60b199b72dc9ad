//! The read buffer of [`super::ArchiveReader`]: whole blocks for the header
//! parser, whatever is there for the data, and no copy between the two.

use std::io::{self, Read};

use super::BLOCK;

/// As large as `cat`'s: a larger buffer would not stay in the second-level
/// cache.
const CAPACITY: usize = 128 * 1024;
/// The kernel copies up to three times faster to the start of a page.
const PAGE: usize = 4096;

/// `buf[start..end]` was read and not consumed yet; `offset` is the position of
/// `start` in the stream.
pub(super) struct ReadBuffer<R> {
    input: R,
    buf: Box<[u8]>,
    /// Where the first page in `buf` begins.
    base: usize,
    start: usize,
    end: usize,
    offset: u64,
}

impl<R: Read> ReadBuffer<R> {
    pub(super) fn new(input: R) -> Self {
        let buf: Box<[u8]> = vec![0; CAPACITY + PAGE].into();
        let base = buf.as_ptr().align_offset(PAGE).min(PAGE);
        ReadBuffer { input, buf, base, start: base, end: base, offset: 0 }
    }

    /// The input, which is ahead by what is buffered.
    pub(super) fn input(&mut self) -> &mut R {
        &mut self.input
    }

    /// The offset in the stream of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes are available without reading.
    pub(super) fn buffered(&self) -> usize {
        self.end - self.start
    }

    /// The next bytes, at least one; empty only at the end of the input.
    pub(super) fn fill(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            (self.start, self.end) = (self.base, self.base);
            self.more()?;
        }
        Ok(&self.buf[self.start..self.end])
    }

    /// The next block, not consumed; shorter than a block only at the end of
    /// the input.
    pub(super) fn block(&mut self) -> io::Result<&[u8]> {
        if self.end - self.start < BLOCK {
            self.buf.copy_within(self.start..self.end, self.base);
            (self.start, self.end) = (self.base, self.base + self.end - self.start);
            while self.buffered() < BLOCK && self.more()? {}
        }
        Ok(&self.buf[self.start..self.end.min(self.start + BLOCK)])
    }

    /// Moves on by `n` bytes, which must be buffered.
    pub(super) fn consume(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
        debug_assert!(self.start <= self.end);
    }

    /// Appends up to `n` bytes to `out`; fewer only at the end of the input.
    /// Bytes that are not buffered yet are read directly into `out`.
    pub(super) fn read_into(&mut self, out: &mut Vec<u8>, n: u64) -> io::Result<u64> {
        let buffered = n.min((self.end - self.start) as u64) as usize;
        out.extend_from_slice(&self.buf[self.start..self.start + buffered]);
        self.consume(buffered);
        let read = (&mut self.input).take(n - buffered as u64).read_to_end(out)? as u64;
        self.offset += read;
        Ok(buffered as u64 + read)
    }

    /// Reads once; false at the end of the input.
    fn more(&mut self) -> io::Result<bool> {
        loop {
            match self.input.read(&mut self.buf[self.end..self.base + CAPACITY]) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
                Ok(n) => {
                    self.end += n;
                    return Ok(n > 0);
                }
            }
        }
    }
}
