//! Undoes content encodings in steps. Before each step, room for the decoded bytes is taken from the byte budget. All but
//! short steps run on other threads, so that one response does not delay the others.

use std::io::{self, Cursor, Read};

use hyper::HeaderMap;
use tokio::sync::Semaphore;

use super::body_limits::BodyLimits;
use crate::fetch::failure::{FailureCode, FetchFailure};
use crate::fetch::memory::{HeldBytes, SegmentedBuffer};

/// Bytes decoded in the first step. Most bodies are smaller.
const FIRST_STEP: u64 = 256 << 10;

/// Bytes decoded in each later step.
const STEP: u64 = 1 << 20;

/// The first step of a body up to this length runs in place: switching threads would cost more.
const SHORT: usize = 64 << 10;

/// More nested encodings are an attack.
const MAX_LAYERS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Gzip,
    Deflate,
    Brotli,
}

impl Encoding {
    /// The most memory that a decoder holds between two steps.
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
    pub fn of(head: &HeaderMap) -> Result<Self, FetchFailure> {
        let mut layers = Vec::new();
        for value in head.get_all("content-encoding") {
            for name in value.to_str().unwrap_or("?").split(',') {
                layers.push(match name.trim().to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Encoding::Gzip,
                    "deflate" => Encoding::Deflate,
                    "br" => Encoding::Brotli,
                    other => {
                        return Err(FetchFailure::permanent(
                            FailureCode::Protocol,
                            format!("unsupported content encoding '{other}'"),
                        ));
                    }
                });
            }
        }
        if layers.len() > MAX_LAYERS {
            return Err(FetchFailure::permanent(
                FailureCode::Protocol,
                format!("{} nested content encodings", layers.len()),
            ));
        }
        Ok(Encodings(layers))
    }

    pub fn is_plain(&self) -> bool {
        self.0.is_empty()
    }

    /// Decodes a body. `held` accounts for the encoded bytes before and for the decoded ones after. Waits for the byte
    /// budget before each step, and never decodes more than the limit.
    pub async fn decode(
        &self,
        data: Vec<u8>,
        limits: &BodyLimits,
        held: &mut HeldBytes,
        slots: &Semaphore,
    ) -> Result<Vec<u8>, FetchFailure> {
        let already_held = held.bytes().saturating_sub(data.len() as u64);
        let is_short = data.len() <= SHORT && self.0.len() == 1;
        let mut step = DecodeStep::More(BodyDecoder::new(self, data, limits.max_bytes));
        let mut is_first = true;
        let plain = loop {
            let decoding = match step {
                DecodeStep::More(decoding) => decoding,
                DecodeStep::Done(plain) => break plain,
            };
            let was_first = std::mem::take(&mut is_first);
            let in_place = was_first && is_short;
            let room = decoding.decoded.room(if in_place { FIRST_STEP } else { STEP }, limits.max_bytes);
            held.take(room).await;
            step = match in_place {
                true => decoding.step(room, limits)?,
                false => step_on_thread(decoding, room, limits, slots).await?,
            };
            // From now on the decoder's own memory counts too.
            if was_first && matches!(step, DecodeStep::More(_)) {
                held.take(self.0.iter().map(|layer| layer.window()).sum()).await;
            }
        };
        held.shrink_to(already_held + plain.len() as u64);
        Ok(plain)
    }
}

/// Runs a step on another thread, once there is a slot for it.
async fn step_on_thread(
    decoding: BodyDecoder,
    room: u64,
    limits: &BodyLimits,
    slots: &Semaphore,
) -> Result<DecodeStep, FetchFailure> {
    let _slot = slots.acquire().await;
    let limits = limits.clone();
    let ended = tokio::task::spawn_blocking(move || decoding.step(room, &limits)).await;
    ended.map_err(|_| FetchFailure::permanent(FailureCode::Interrupted, "interrupted"))?
}

/// A body that is being decoded.
struct BodyDecoder {
    source: Box<dyn Read + Send>,
    decoded: SegmentedBuffer,
}

/// The state after a step.
enum DecodeStep {
    More(BodyDecoder),
    Done(Vec<u8>),
}

impl BodyDecoder {
    fn new(encodings: &Encodings, data: Vec<u8>, max_bytes: u64) -> Self {
        let mut source: Box<dyn Read + Send> = Box::new(Cursor::new(data));
        for encoding in encodings.0.iter().rev() {
            let inner = LimitedReader { inner: source, left: max_bytes };
            source = match encoding {
                Encoding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(inner)),
                Encoding::Deflate => Box::new(flate2::read::ZlibDecoder::new(inner)),
                Encoding::Brotli => Box::new(brotli_decompressor::Decompressor::new(inner, 64 << 10)),
            };
        }
        BodyDecoder { source, decoded: SegmentedBuffer::default() }
    }

    /// Decodes up to `room` more bytes.
    fn step(mut self, room: u64, limits: &BodyLimits) -> Result<DecodeStep, FetchFailure> {
        let read = self.decoded.read(&mut self.source, room);
        if self.decoded.len() > limits.max_bytes {
            return Err(limits.too_large());
        }
        match read {
            Ok(read) if read == room => Ok(DecodeStep::More(self)),
            Ok(_) => Ok(DecodeStep::Done(self.decoded.join())),
            Err(err) if err.get_ref().is_some_and(|inner| inner.is::<TooLong>()) => Err(limits.too_large()),
            Err(err) => Err(FetchFailure::transient(FailureCode::Truncated, format!("corrupt compressed body: {err}"))),
        }
    }
}

/// Limits what is read between two encodings too: gigabytes of it may decode to nothing.
struct LimitedReader<R> {
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

impl<R: Read> Read for LimitedReader<R> {
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
    fn encodings_are_read_from_all_headers_in_order() {
        let of = |lines: &[&str]| {
            let mut head = HeaderMap::new();
            lines.iter().for_each(|line| _ = head.append("content-encoding", line.parse().unwrap()));
            Encodings::of(&head).map(|encodings| encodings.0).map_err(|failure| failure.message)
        };
        assert_eq!(of(&[]), Ok(vec![]));
        assert_eq!(of(&["identity", " GZip ,br"]), Ok(vec![Encoding::Gzip, Encoding::Brotli]));
        assert_eq!(of(&["x-gzip", "deflate"]), Ok(vec![Encoding::Gzip, Encoding::Deflate]));
        assert_eq!(of(&["gzip, zstd"]), Err("unsupported content encoding 'zstd'".into()));
        assert_eq!(of(&["gzip,gzip,gzip,gzip,gzip"]), Err("5 nested content encodings".into()));
    }
}
