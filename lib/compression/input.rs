//! The compressed bytes on their way into a decoder: a buffered reader with
//! lookahead.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

const CAPACITY: usize = 64 * 1024;

/// Buffered input that can be inspected before it is read.
pub(super) struct PeekInput<'a> {
    /// Bytes that were peeked at; those from `used` on are read next.
    ahead: Vec<u8>,
    used: usize,
    rest: BufReader<Box<dyn Read + Send + 'a>>,
    has_ended: bool,
}

impl<'a> PeekInput<'a> {
    pub(super) fn new(input: Box<dyn Read + Send + 'a>) -> Self {
        PeekInput { ahead: Vec::new(), used: 0, rest: BufReader::with_capacity(CAPACITY, input), has_ended: false }
    }

    /// The next `n` bytes without consuming them; fewer only at the end of the
    /// input. Blocks until they are there.
    pub(super) fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        self.ahead.drain(..self.used);
        self.used = 0;
        let missing = n.saturating_sub(self.ahead.len());
        (&mut self.rest).take(missing as u64).read_to_end(&mut self.ahead)?;
        Ok(&self.ahead[..n.min(self.ahead.len())])
    }

    /// Returns true if a read at the end of the input has returned nothing.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The same bytes without this buffer, for a reader that has a buffer of
    /// its own.
    pub(super) fn into_plain(self) -> impl Read + Send + 'a {
        let PeekInput { mut ahead, used, rest, .. } = self;
        ahead.drain(..used);
        ahead.extend_from_slice(rest.buffer());
        let plain: Chain<Cursor<Vec<u8>>, Box<dyn Read + Send + 'a>> = Cursor::new(ahead).chain(rest.into_inner());
        plain
    }
}

impl BufRead for PeekInput<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used < self.ahead.len() {
            return Ok(&self.ahead[self.used..]);
        }
        let bytes = self.rest.fill_buf()?;
        self.has_ended = bytes.is_empty();
        Ok(bytes)
    }

    fn consume(&mut self, n: usize) {
        let from_ahead = n.min(self.ahead.len() - self.used);
        self.used += from_ahead;
        self.rest.consume(n - from_ahead);
    }
}

impl Read for PeekInput<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.used == self.ahead.len() && buf.len() >= CAPACITY {
            let n = self.rest.read(buf)?; // bypasses the buffer while that is empty
            self.has_ended = n == 0;
            return Ok(n);
        }
        let n = self.fill_buf()?.read(buf)?;
        self.consume(n);
        Ok(n)
    }
}
