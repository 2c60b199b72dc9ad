//! Decodes the chunked transfer encoding of HTTP/1.1, in which a body has no announced length.

use crate::fetch::failure::{FailureCode, FetchFailure};

/// Chunk extensions and trailers are ignored; more than this many bytes of them is an attack.
const MAX_OVERHEAD: usize = 16 << 10;

/// The position in a chunked body, which arrives in pieces of any size.
#[derive(Debug, Default)]
pub struct ChunkDecoder {
    state: ChunkState,
    overhead: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// In a chunk size: its value so far, and the number of its digits.
    Size(u64, u32),
    /// After a chunk size, up to the end of its line.
    Extension(u64),
    /// In a chunk, of which this many bytes are missing.
    Data(u64),
    /// At the line break after a chunk.
    LineBreak,
    /// In the trailers after the last chunk; the current line has this many bytes so far.
    Trailer(usize),
    Finished,
}

impl Default for ChunkState {
    fn default() -> Self {
        ChunkState::Size(0, 0)
    }
}

impl ChunkDecoder {
    /// Whether the last chunk and the trailers have been read.
    pub fn is_finished(&self) -> bool {
        self.state == ChunkState::Finished
    }

    /// Appends the body bytes of `input` to `data`. Returns how many bytes of `input` were used: all of them, unless the body
    /// ends before.
    pub fn decode(&mut self, input: &[u8], data: &mut Vec<u8>) -> Result<usize, FetchFailure> {
        let mut at = 0;
        while at < input.len() && !self.is_finished() {
            if let ChunkState::Data(left) = self.state {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                data.extend_from_slice(&input[at..at + taken]);
                at += taken;
                let left = left - taken as u64;
                self.state = if left == 0 { ChunkState::LineBreak } else { ChunkState::Data(left) };
            } else {
                self.state = self.step(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<ChunkState, FetchFailure> {
        let digit = char::from(byte).to_digit(16);
        Ok(match (self.state, byte) {
            (ChunkState::Size(size, digits), _) if digit.is_some() && digits < 16 => {
                ChunkState::Size(size << 4 | u64::from(digit.unwrap_or_default()), digits + 1)
            }
            (ChunkState::Size(size, 1..), b';' | b' ' | b'\t' | b'\r') => ChunkState::Extension(size),
            (ChunkState::Size(size, 1..) | ChunkState::Extension(size), b'\n') => Self::after_size(size),
            (ChunkState::Extension(_), _) => self.overhead(self.state)?,
            (ChunkState::LineBreak, b'\r') => ChunkState::LineBreak,
            (ChunkState::LineBreak, b'\n') => ChunkState::default(),
            (ChunkState::Trailer(0), b'\n') => ChunkState::Finished,
            (ChunkState::Trailer(_), b'\n') => ChunkState::Trailer(0),
            (ChunkState::Trailer(length), b'\r') => ChunkState::Trailer(length),
            (ChunkState::Trailer(length), _) => self.overhead(ChunkState::Trailer(length + 1))?,
            _ => {
                return Err(FetchFailure::permanent(
                    FailureCode::Protocol,
                    "invalid HTTP response: chunk without a valid size",
                ));
            }
        })
    }

    fn after_size(size: u64) -> ChunkState {
        if size == 0 { ChunkState::Trailer(0) } else { ChunkState::Data(size) }
    }

    fn overhead(&mut self, next: ChunkState) -> Result<ChunkState, FetchFailure> {
        self.overhead += 1;
        match self.overhead > MAX_OVERHEAD {
            true => Err(FetchFailure::permanent(
                FailureCode::TooLarge,
                "chunk extensions and trailers are longer than 16 KB",
            )),
            false => Ok(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of `text`, the number of bytes after it, and whether it is complete; decoded at once and byte by byte.
    fn decode(text: &[u8]) -> Result<(Vec<u8>, usize, bool), FailureCode> {
        let mut whole = (ChunkDecoder::default(), Vec::new());
        let used = whole.0.decode(text, &mut whole.1).map_err(|failure| failure.code);
        let mut single = (ChunkDecoder::default(), Vec::new());
        for byte in text.chunks(1) {
            if single.0.decode(byte, &mut single.1).is_err() {
                assert!(used.is_err());
            }
        }
        let used = used?;
        assert_eq!((&whole.1, whole.0.is_finished()), (&single.1, single.0.is_finished()));
        Ok((whole.1, text.len() - used, whole.0.is_finished()))
    }

    #[test]
    fn chunks_are_joined_into_a_body() {
        assert_eq!(
            decode(b"3\r\nabc\r\n0A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n").unwrap(),
            (b"abc0123456789".into(), 0, true)
        );
        assert_eq!(decode(b"1\na\n0\n\nnext").unwrap(), (b"a".into(), 4, true));
        assert_eq!(decode(b"1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\n").unwrap(), (b"a".into(), 0, true));
        assert_eq!(decode(b"5\r\nab").unwrap(), (b"ab".into(), 0, false));
        assert_eq!(decode(b"1\r\na\r\n0\r\n").unwrap(), (b"a".into(), 0, false));
    }

    #[test]
    fn invalid_chunks_are_refused() {
        for wrong in [&b"\r\nabc"[..], b"g\r\n", b"-1\r\n", b"11111111111111111\r\n", b"1\r\nab", b";\r\n"] {
            assert_eq!(decode(wrong).unwrap_err(), FailureCode::Protocol, "{wrong:?}");
        }
        let endless = [&b"1;"[..], &[b'x'; MAX_OVERHEAD + 1]].concat();
        assert_eq!(decode(&endless).unwrap_err(), FailureCode::TooLarge);
        let trailers = [&b"0\r\n"[..], &b"a: b\r\n".repeat(MAX_OVERHEAD)].concat();
        assert_eq!(decode(&trailers).unwrap_err(), FailureCode::TooLarge);
    }
}
