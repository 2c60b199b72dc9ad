//! Content encodings, undone in steps: the room for decoded bytes is there before they are, and all but short steps run
//! beside the thread of the connections, where one answer must not keep the others waiting.

use std::io::{self, Cursor, Read};

use hyper::HeaderMap;
use tokio::sync::Semaphore;

use super::body::Limits;
use super::budget::Held;
use super::failure::{Code, Failure};
use super::pieces::Pieces;

/// Bytes that the first step makes. Most bodies are smaller.
const FIRST_STEP: u64 = 256 << 10;

/// Bytes that each later step makes.
const STEP: u64 = 1 << 20;

/// A body that is shorter than this takes its first step at once: a hand-over would cost more.
const SHORT: usize = 64 << 10;

/// More encodings on top of each other are an attack.
const MAX_LAYERS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Gzip,
    Deflate,
    Brotli,
}

impl Encoding {
    /// What a decoder holds between two steps, at most.
    fn window(self) -> u64 {
        match self {
            Encoding::Gzip | Encoding::Deflate => 64 << 10,
            Encoding::Brotli => 16 << 20,
        }
    }
}

/// The encodings of a body, in the order in which the server applied them.
#[derive(Debug, PartialEq, Eq)]
pub struct Encodings(Vec<Encoding>);

impl Encodings {
    pub fn of(head: &HeaderMap) -> Result<Self, Failure> {
        let mut layers = Vec::new();
        for value in head.get_all("content-encoding") {
            for name in value.to_str().unwrap_or("?").split(',') {
                layers.push(match name.trim().to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Encoding::Gzip,
                    "deflate" => Encoding::Deflate,
                    "br" => Encoding::Brotli,
                    other => return Err(Failure::lasting(Code::Protocol, format!("content encoding '{other}'"))),
                });
            }
        }
        if layers.len() > MAX_LAYERS {
            return Err(Failure::lasting(Code::Protocol, format!("{} content encodings", layers.len())));
        }
        Ok(Encodings(layers))
    }

    pub fn is_plain(&self) -> bool {
        self.0.is_empty()
    }

    /// Decodes a body whose bytes `held` has room for; afterwards it has room for the decoded ones. Waits for more room
    /// before each step, and never makes more than the limit.
    pub async fn decode(
        &self,
        data: Vec<u8>,
        limits: &Limits,
        held: &mut Held,
        slots: &Semaphore,
    ) -> Result<Vec<u8>, Failure> {
        let others = held.bytes().saturating_sub(data.len() as u64);
        let is_short = data.len() <= SHORT && self.0.len() == 1;
        let mut step = Step::More(Decoding::new(self, data, limits.max_bytes));
        let mut is_first = true;
        let plain = loop {
            let decoding = match step {
                Step::More(decoding) => decoding,
                Step::Over(plain) => break plain,
            };
            let was_first = std::mem::take(&mut is_first);
            let at_once = was_first && is_short;
            let room = decoding.pieces.room(if at_once { FIRST_STEP } else { STEP }, limits.max_bytes);
            held.take(room).await;
            step = match at_once {
                true => decoding.step(room, limits)?,
                false => beside(decoding, room, limits, slots).await?,
            };
            // From now on a decoder waits with it.
            if was_first && matches!(step, Step::More(_)) {
                held.take(self.0.iter().map(|layer| layer.window()).sum()).await;
            }
        };
        held.shrink_to(others + plain.len() as u64);
        Ok(plain)
    }
}

/// A step on another thread, when there is a slot for it.
async fn beside(decoding: Decoding, room: u64, limits: &Limits, slots: &Semaphore) -> Result<Step, Failure> {
    let _slot = slots.acquire().await;
    let limits = limits.clone();
    let ended = tokio::task::spawn_blocking(move || decoding.step(room, &limits)).await;
    ended.map_err(|_| Failure::lasting(Code::Interrupted, "interrupted"))?
}

/// A body that is being decoded.
struct Decoding {
    source: Box<dyn Read + Send>,
    pieces: Pieces,
}

/// What a step has come to.
enum Step {
    More(Decoding),
    Over(Vec<u8>),
}

impl Decoding {
    fn new(encodings: &Encodings, data: Vec<u8>, max_bytes: u64) -> Self {
        let mut source: Box<dyn Read + Send> = Box::new(Cursor::new(data));
        for encoding in encodings.0.iter().rev() {
            let inner = Limited { inner: source, left: max_bytes };
            source = match encoding {
                Encoding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(inner)),
                Encoding::Deflate => Box::new(flate2::read::ZlibDecoder::new(inner)),
                Encoding::Brotli => Box::new(brotli_decompressor::Decompressor::new(inner, 64 << 10)),
            };
        }
        Decoding { source, pieces: Pieces::default() }
    }

    /// Makes so many bytes more.
    fn step(mut self, room: u64, limits: &Limits) -> Result<Step, Failure> {
        let read = self.pieces.read(&mut self.source, room);
        if self.pieces.len() > limits.max_bytes {
            return Err(limits.too_large());
        }
        match read {
            Ok(read) if read == room => Ok(Step::More(self)),
            Ok(_) => Ok(Step::Over(self.pieces.join())),
            Err(err) if err.get_ref().is_some_and(|inner| inner.is::<TooLong>()) => Err(limits.too_large()),
            Err(err) => Err(Failure::passing(Code::Truncated, format!("the compressed body is damaged: {err}"))),
        }
    }
}

/// What lies between two encodings must not be longer than a body either: it may hold nothing that comes out.
struct Limited<R> {
    inner: R,
    left: u64,
}

#[derive(Debug)]
struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("too long")
    }
}

impl std::error::Error for TooLong {}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| io::Error::other(TooLong))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_read_from_all_lines_in_order() {
        let of = |lines: &[&str]| {
            let mut head = HeaderMap::new();
            lines.iter().for_each(|line| _ = head.append("content-encoding", line.parse().unwrap()));
            Encodings::of(&head).map(|encodings| encodings.0).map_err(|failure| failure.why)
        };
        assert_eq!(of(&[]), Ok(vec![]));
        assert_eq!(of(&["identity", " GZip ,br"]), Ok(vec![Encoding::Gzip, Encoding::Brotli]));
        assert_eq!(of(&["x-gzip", "deflate"]), Ok(vec![Encoding::Gzip, Encoding::Deflate]));
        assert_eq!(of(&["gzip, zstd"]), Err("content encoding 'zstd'".into()));
        assert_eq!(of(&["gzip,gzip,gzip,gzip,gzip"]), Err("5 content encodings".into()));
    }
}
