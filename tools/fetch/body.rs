//! Reading a body within its limits.

use std::time::Duration;

use hyper::HeaderMap;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::budget::Held;
use super::connections::Body;
use super::encoding::Encodings;
use super::failure::{Code, Failure};
use super::kind;

/// What a body must and must not be.
#[derive(Clone, Debug)]
pub struct Limits {
    /// More is refused, before and after decompression.
    pub max_bytes: u64,
    /// Less is refused.
    pub min_bytes: u64,
    /// Bytes per second below which a body counts as stalled.
    pub min_rate: u64,
    /// Over how long the rate is taken.
    pub stall: Duration,
    /// Media types that are wanted; empty takes all.
    pub accept: Vec<String>,
}

/// Room for a body whose length was announced is made at once, up to here: lengths lie.
const MAX_ANNOUNCED: u64 = 1 << 20;

/// Enough to tell what a body is.
const SNIFFED: usize = 512;

impl Limits {
    /// Reads a body to its end and decodes it. Only so many bodies are decoded at once as there are `slots`.
    pub async fn read(
        &self,
        body: Body,
        head: &HeaderMap,
        deadline: Instant,
        held: &mut Held,
        slots: &Semaphore,
    ) -> Result<Vec<u8>, Failure> {
        if body.announced().is_some_and(|bytes| bytes > self.max_bytes) {
            return Err(self.too_large());
        }
        let encodings = Encodings::of(head)?;
        let data = self.receive(body, head, deadline, held, encodings.is_plain()).await?;
        let data = match encodings.is_plain() {
            true => data,
            // Rare, and boxed: see `Attempts::fetch`.
            false => Box::pin(encodings.decode(data, self, held, slots)).await?,
        };
        self.check_size(data.len() as u64)?;
        self.check_type(&data, head)?;
        Ok(data)
    }

    /// Receives the bytes of a body as they are sent. Waiting for room in the budget moves the deadline: a row does not
    /// fail because its output is slow. The type of a plain body is checked as soon as it can be told.
    async fn receive(
        &self,
        mut body: Body,
        head: &HeaderMap,
        mut deadline: Instant,
        held: &mut Held,
        is_plain: bool,
    ) -> Result<Vec<u8>, Failure> {
        // A byte more than announced: see where it is read.
        let capacity = body.announced().map_or(0, |bytes| bytes.min(MAX_ANNOUNCED) as usize + 1);
        let mut data = Vec::with_capacity(capacity);
        let mut sniffed = !is_plain || self.accept.is_empty();
        let mut pace = Pace::new(self, Instant::now());
        let mut timer = std::pin::pin!(sleep_until(deadline.min(pace.due)));
        loop {
            let read = tokio::select! {
                biased;
                read = body.read(&mut data) => read?,
                () = timer.as_mut() => {
                    let now = Instant::now();
                    if now >= deadline {
                        return Err(Failure::passing(Code::Timeout, format!("not done in time, {} bytes read", data.len())));
                    }
                    pace.check(now)?;
                    timer.as_mut().reset(deadline.min(pace.due));
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
                pace.due += waited;
                timer.as_mut().reset(deadline.min(pace.due));
            }
            pace.bytes += read as u64;
            if !sniffed && data.len() >= SNIFFED {
                sniffed = true;
                self.check_type(&data, head)?;
            }
        }
    }

    /// Whether a whole body is of a size that is wanted.
    pub fn check_size(&self, bytes: u64) -> Result<(), Failure> {
        match bytes {
            0 => Err(Failure::lasting(Code::Empty, "the body is empty")),
            _ if bytes < self.min_bytes => {
                Err(Failure::lasting(Code::TooSmall, format!("{bytes} bytes, less than {}", self.min_bytes)))
            }
            _ if bytes > self.max_bytes => Err(self.too_large()),
            _ => Ok(()),
        }
    }

    /// Whether a body is of a type that is wanted.
    pub fn check_type(&self, data: &[u8], head: &HeaderMap) -> Result<(), Failure> {
        if self.accept.is_empty() {
            return Ok(());
        }
        let mime = kind::mime(data, content_type(head));
        match self.accept.iter().any(|pattern| kind::accepts(pattern, &mime)) {
            true => Ok(()),
            false => Err(Failure::lasting(Code::Mime, format!("the body is {mime}"))),
        }
    }

    /// The failure of a body beyond the limit.
    pub fn too_large(&self) -> Failure {
        Failure::lasting(Code::TooLarge, format!("more than {} bytes", self.max_bytes))
    }
}

/// The type that the server claims.
pub fn content_type(head: &HeaderMap) -> Option<&str> {
    head.get("content-type").and_then(|value| value.to_str().ok())
}

/// How fast the body came since the last look.
struct Pace {
    bytes: u64,
    due: Instant,
    stall: Duration,
    needed: u64,
}

impl Pace {
    fn new(limits: &Limits, now: Instant) -> Self {
        let needed = limits.min_rate.saturating_mul(limits.stall.as_secs().max(1));
        Pace { bytes: 0, due: now + limits.stall, stall: limits.stall, needed }
    }

    fn check(&mut self, now: Instant) -> Result<(), Failure> {
        if now < self.due {
            return Ok(());
        }
        if self.bytes < self.needed {
            return Err(Failure::passing(Code::Stalled, format!("{} bytes in {:?}", self.bytes, self.stall)));
        }
        self.bytes = 0;
        self.due = now + self.stall;
        Ok(())
    }
}
