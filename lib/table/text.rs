//! Lines in blocks, for the line formats. A block contains only whole lines, so
//! that rows can borrow from it.

use std::io::BufRead;

use anyhow::{Result, bail};

use super::Flow;

/// A longer line means that the file is not a table at all.
const MAX_LINE: usize = 64 << 20;

/// Calls `see` with each line that is not blank, trimmed, and its number (from
/// 1, blank lines included), until it wants no more. A line of more than 64 MB
/// is an error.
pub fn each_line(stream: impl BufRead, mut see: impl FnMut(u64, &[u8]) -> Result<Flow>) -> Result<Flow> {
    let mut blocks = Blocks::new(stream);
    let mut number = 0;
    while let Some(block) = blocks.next()? {
        for line in lines(block) {
            number += 1;
            let line = if number == 1 { without_bom(line) } else { line }.trim_ascii();
            if !line.is_empty() && see(number, line)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
    }
    Ok(Flow::Continue(()))
}

/// Divides a stream into blocks of whole lines.
struct Blocks<R> {
    stream: R,
    buf: Vec<u8>,
    /// How much of `buf` was returned by the last call.
    used: usize,
    ended: bool,
}

impl<R: BufRead> Blocks<R> {
    fn new(stream: R) -> Self {
        Blocks { stream, buf: Vec::new(), used: 0, ended: false }
    }

    /// The next lines, each with its line end except perhaps the last; None at
    /// the end.
    fn next(&mut self) -> Result<Option<&[u8]>> {
        self.buf.drain(..self.used);
        self.used = 0;
        let mut searched = 0;
        loop {
            if let Some(at) = memchr::memrchr(b'\n', &self.buf[searched..]) {
                self.used = searched + at + 1;
                break;
            }
            searched = self.buf.len();
            if self.ended {
                self.used = searched;
                break;
            }
            if searched > MAX_LINE {
                bail!("a line is longer than {} MB", MAX_LINE >> 20);
            }
            let chunk = self.stream.fill_buf()?;
            let read = chunk.len();
            self.buf.extend_from_slice(chunk);
            self.stream.consume(read);
            self.ended = read == 0;
        }
        Ok((self.used > 0).then(|| &self.buf[..self.used]))
    }
}

/// The lines of a block without their ends.
fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest);
        let (line, after) = end.map_or((rest, &rest[rest.len()..]), |end| (&rest[..end], &rest[end + 1..]));
        rest = after;
        Some(line)
    })
}

/// `text` without the byte-order mark that some editors put before UTF-8.
pub fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn lines_survive_any_cut_between_blocks() {
        let text = b"one\ntwo, which is longer\n\nlast without end";
        for capacity in 1..text.len() + 1 {
            let mut blocks = Blocks::new(BufReader::with_capacity(capacity, &text[..]));
            let mut seen = Vec::new();
            while let Some(block) = blocks.next().unwrap() {
                seen.extend(lines(block).map(<[u8]>::to_vec));
            }
            assert_eq!(seen, [&b"one"[..], b"two, which is longer", b"", b"last without end"], "{capacity}");
        }
    }
}
