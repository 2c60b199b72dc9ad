//! Reads a body within the limits of the user: size, speed, time, media type.

use std::time::Duration;

use hyper::HeaderMap;
use tarpipe::media_type;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::encoding::Encodings;
use super::response_body::ResponseBody;
use crate::fetch::failure::{FailureCode, FetchFailure};
use crate::fetch::memory::HeldBytes;

/// The limits of a body, which also apply to local files and to the output of `--via`.
#[derive(Clone, Debug)]
pub struct BodyLimits {
    /// Larger bodies are refused, before and after decompression.
    pub max_bytes: u64,
    /// Smaller bodies are refused.
    pub min_bytes: u64,
    /// Bytes per second below which a body counts as stalled.
    pub min_rate: u64,
    /// The time over which the rate is measured.
    pub stall: Duration,
    /// Accepted media types; empty accepts all.
    pub accept: Vec<String>,
}

/// The most memory to allocate for an announced length: servers may lie about it.
const MAX_PREALLOCATED: u64 = 1 << 20;

/// Enough bytes to detect the media type.
const SNIFF_SIZE: usize = 512;

impl BodyLimits {
    /// Reads and decodes a whole body, taking room for it from the byte budget. `slots` limits how many bodies are decoded
    /// at a time.
    pub async fn read(
        &self,
        body: ResponseBody,
        head: &HeaderMap,
        deadline: Instant,
        held: &mut HeldBytes,
        slots: &Semaphore,
    ) -> Result<Vec<u8>, FetchFailure> {
        if body.expected_length().is_some_and(|bytes| bytes > self.max_bytes) {
            return Err(self.too_large());
        }
        let encodings = Encodings::of(head)?;
        let data = self.receive(body, head, deadline, held, encodings.is_plain()).await?;
        let data = match encodings.is_plain() {
            true => data,
            // Rare, therefore boxed: see `Fetcher::download`.
            false => Box::pin(encodings.decode(data, self, held, slots)).await?,
        };
        self.check_size(data.len() as u64)?;
        self.check_type(&data, head)?;
        Ok(data)
    }

    /// Reads a body without decoding it. Time spent waiting for the byte budget does not count: a slow output must not fail
    /// rows. The type of an uncompressed body is checked as soon as enough bytes have arrived.
    async fn receive(
        &self,
        mut body: ResponseBody,
        head: &HeaderMap,
        mut deadline: Instant,
        held: &mut HeldBytes,
        is_plain: bool,
    ) -> Result<Vec<u8>, FetchFailure> {
        // One byte more than announced: `BodyReader::read` asks for it.
        let capacity = body.expected_length().map_or(0, |bytes| bytes.min(MAX_PREALLOCATED) as usize + 1);
        let mut data = Vec::with_capacity(capacity);
        let mut sniffed = !is_plain || self.accept.is_empty();
        let mut rate = RateMonitor::new(self, Instant::now());
        let mut timer = std::pin::pin!(sleep_until(deadline.min(rate.due)));
        loop {
            let read = tokio::select! {
                biased;
                read = body.read(&mut data) => read?,
                () = timer.as_mut() => {
                    let now = Instant::now();
                    if now >= deadline {
                        let message = format!("timed out after {} bytes of the body", data.len());
                        return Err(FetchFailure::transient(FailureCode::Timeout, message));
                    }
                    rate.check(now)?;
                    timer.as_mut().reset(deadline.min(rate.due));
                    continue;
                }
            };
            if read == 0 {
                return Ok(data);
            }
            if data.len() as u64 > self.max_bytes {
                return Err(self.too_large());
            }
            if !held.try_take(read as u64) {
                let before = Instant::now();
                held.take(read as u64).await;
                let waited = before.elapsed();
                deadline += waited;
                rate.due += waited;
                timer.as_mut().reset(deadline.min(rate.due));
            }
            rate.bytes += read as u64;
            if !sniffed && data.len() >= SNIFF_SIZE {
                sniffed = true;
                self.check_type(&data, head)?;
            }
        }
    }

    /// Fails if a complete body is too small or too large.
    pub fn check_size(&self, bytes: u64) -> Result<(), FetchFailure> {
        match bytes {
            0 => Err(FetchFailure::permanent(FailureCode::Empty, "the body is empty")),
            _ if bytes < self.min_bytes => Err(FetchFailure::permanent(
                FailureCode::TooSmall,
                format!("{bytes} bytes, fewer than {}", self.min_bytes),
            )),
            _ if bytes > self.max_bytes => Err(self.too_large()),
            _ => Ok(()),
        }
    }

    /// Fails if the media type of a body is not accepted.
    pub fn check_type(&self, data: &[u8], head: &HeaderMap) -> Result<(), FetchFailure> {
        if self.accept.is_empty() {
            return Ok(());
        }
        let mime = media_type::mime(data, content_type(head));
        match self.accept.iter().any(|pattern| media_type::accepts(pattern, &mime)) {
            true => Ok(()),
            false => Err(FetchFailure::permanent(FailureCode::Mime, format!("media type {mime} is not accepted"))),
        }
    }

    /// The failure of a body over the limit.
    pub fn too_large(&self) -> FetchFailure {
        FetchFailure::permanent(FailureCode::TooLarge, format!("more than {} bytes", self.max_bytes))
    }
}

/// The value of the Content-Type header.
pub fn content_type(head: &HeaderMap) -> Option<&str> {
    head.get("content-type").and_then(|value| value.to_str().ok())
}

/// Counts the bytes of an interval and fails the body if they are too few.
struct RateMonitor {
    bytes: u64,
    due: Instant,
    stall: Duration,
    needed: u64,
}

impl RateMonitor {
    fn new(limits: &BodyLimits, now: Instant) -> Self {
        let needed = limits.min_rate.saturating_mul(limits.stall.as_secs().max(1));
        RateMonitor { bytes: 0, due: now + limits.stall, stall: limits.stall, needed }
    }

    fn check(&mut self, now: Instant) -> Result<(), FetchFailure> {
        if now < self.due {
            return Ok(());
        }
        if self.bytes < self.needed {
            return Err(FetchFailure::transient(
                FailureCode::Stalled,
                format!("only {} bytes in {:?}", self.bytes, self.stall),
            ));
        }
        self.bytes = 0;
        self.due = now + self.stall;
        Ok(())
    }
}
