//! The chunks of a body whose length nobody knew beforehand.

use super::failure::{Code, Failure};

/// Extensions and trailers mean nothing to us; more of them is an attack.
const MAX_NOISE: usize = 16 << 10;

/// Where in the chunks we are.
#[derive(Debug, Default)]
pub struct Chunks {
    state: State,
    noise: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a size, of so many digits.
    Size(u64, u32),
    /// Behind a size, up to the end of its line.
    Extension(u64),
    /// So many bytes of a chunk are to come.
    Data(u64),
    /// At the end of a line that must be empty.
    Gap,
    /// In the lines after the last chunk; this one has so many bytes.
    Trailer(usize),
    Over,
}

impl Default for State {
    fn default() -> Self {
        State::Size(0, 0)
    }
}

impl Chunks {
    /// Whether the last chunk has been read, and all that belongs to it.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Appends what `input` holds of the body to `data`; says how much of `input` was used: all, unless the body is over.
    pub fn decode(&mut self, input: &[u8], data: &mut Vec<u8>) -> Result<usize, Failure> {
        let mut at = 0;
        while at < input.len() && !self.is_over() {
            if let State::Data(left) = self.state {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                data.extend_from_slice(&input[at..at + taken]);
                at += taken;
                let left = left - taken as u64;
                self.state = if left == 0 { State::Gap } else { State::Data(left) };
            } else {
                self.state = self.step(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<State, Failure> {
        let digit = char::from(byte).to_digit(16);
        Ok(match (self.state, byte) {
            (State::Size(size, digits), _) if digit.is_some() && digits < 16 => {
                State::Size(size << 4 | u64::from(digit.unwrap_or_default()), digits + 1)
            }
            (State::Size(size, 1..), b';' | b' ' | b'\t' | b'\r') => State::Extension(size),
            (State::Size(size, 1..) | State::Extension(size), b'\n') => Self::after_size(size),
            (State::Extension(_), _) => self.noise(self.state)?,
            (State::Gap, b'\r') => State::Gap,
            (State::Gap, b'\n') => State::default(),
            (State::Trailer(0), b'\n') => State::Over,
            (State::Trailer(_), b'\n') => State::Trailer(0),
            (State::Trailer(length), b'\r') => State::Trailer(length),
            (State::Trailer(length), _) => self.noise(State::Trailer(length + 1))?,
            _ => return Err(Failure::lasting(Code::Protocol, "the body is not HTTP: a chunk without its size")),
        })
    }

    fn after_size(size: u64) -> State {
        if size == 0 { State::Trailer(0) } else { State::Data(size) }
    }

    fn noise(&mut self, next: State) -> Result<State, Failure> {
        self.noise += 1;
        match self.noise > MAX_NOISE {
            true => Err(Failure::lasting(Code::TooLarge, "more beside the chunks of the body than it may have")),
            false => Ok(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of `text`, fed whole and byte by byte; how many bytes are left over.
    fn decode(text: &[u8]) -> Result<(Vec<u8>, usize, bool), Code> {
        let mut whole = (Chunks::default(), Vec::new());
        let used = whole.0.decode(text, &mut whole.1).map_err(|failure| failure.code);
        let mut single = (Chunks::default(), Vec::new());
        for byte in text.chunks(1) {
            if single.0.decode(byte, &mut single.1).is_err() {
                assert!(used.is_err());
            }
        }
        let used = used?;
        assert_eq!((&whole.1, whole.0.is_over()), (&single.1, single.0.is_over()));
        Ok((whole.1, text.len() - used, whole.0.is_over()))
    }

    #[test]
    fn chunks_make_a_body() {
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
    fn what_is_no_chunk_is_refused() {
        for wrong in [&b"\r\nabc"[..], b"g\r\n", b"-1\r\n", b"11111111111111111\r\n", b"1\r\nab", b";\r\n"] {
            assert_eq!(decode(wrong).unwrap_err(), Code::Protocol, "{wrong:?}");
        }
        let endless = [&b"1;"[..], &[b'x'; MAX_NOISE + 1]].concat();
        assert_eq!(decode(&endless).unwrap_err(), Code::TooLarge);
        let trailers = [&b"0\r\n"[..], &b"a: b\r\n".repeat(MAX_NOISE)].concat();
        assert_eq!(decode(&trailers).unwrap_err(), Code::TooLarge);
    }
}
