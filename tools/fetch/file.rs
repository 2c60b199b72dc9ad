//! `file:` URLs: regular files, read in steps within the limits of a body and the time of an attempt.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::body::Limits;
use super::budget::Held;
use super::connect::plain;
use super::failure::{Code, Failure};
use super::pieces::Pieces;

/// Files read at once. A file system that does not answer holds a thread for each.
const AT_ONCE: usize = 32;

/// Bytes read in one step.
const STEP: u64 = 1 << 20;

/// A first step at least this large finds the end of files without a length, such as those of /proc.
const LEAST: u64 = 16 << 10;

/// Reads files.
pub struct Files {
    slots: Arc<Semaphore>,
    timeout: Duration,
}

impl Files {
    /// Gives a file up after `timeout`.
    pub fn new(timeout: Duration) -> Self {
        Files { slots: Arc::new(Semaphore::new(AT_ONCE)), timeout }
    }

    /// Reads a file. Waiting for room in the budget moves the deadline.
    pub async fn read(&self, path: PathBuf, limits: &Limits, held: &mut Held) -> Result<Vec<u8>, Failure> {
        let mut deadline = Instant::now() + self.timeout;
        let others = held.bytes();
        let (mut file, length) = self.beside(deadline, move || open(&path)).await?;
        if length > limits.max_bytes {
            return Err(limits.too_large());
        }
        let mut pieces = Pieces::default();
        loop {
            let expected = length.saturating_add(1).saturating_sub(pieces.len());
            let room = pieces.room(expected.clamp(LEAST, STEP), limits.max_bytes);
            let before = Instant::now();
            held.take(room).await;
            deadline += before.elapsed();
            let step = move || {
                let read = pieces.read(&file, room)?;
                Ok((file, pieces, read))
            };
            let read;
            (file, pieces, read) = self.beside(deadline, step).await?;
            if pieces.len() > limits.max_bytes {
                return Err(limits.too_large());
            }
            if read < room {
                break;
            }
        }
        let data = self.beside(deadline, move || Ok(pieces.join())).await?;
        held.shrink_to(others + data.len() as u64);
        Ok(data)
    }

    /// Runs `call` beside the thread of the connections. One that does not return keeps its slot.
    async fn beside<T: Send + 'static>(
        &self,
        deadline: Instant,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let slots = Arc::clone(&self.slots);
        let running = async {
            let slot = slots.acquire_owned().await;
            tokio::task::spawn_blocking(move || (call(), drop(slot)).0).await
        };
        let late = |_| Failure::passing(Code::Timeout, format!("not read within {:?}", self.timeout));
        let ended = timeout_at(deadline, running).await.map_err(late)?;
        let ended = ended.map_err(|_| Failure::lasting(Code::Interrupted, "interrupted"))?;
        ended.map_err(|err| Failure::lasting(Code::File, plain(&err)))
    }
}

/// Opens a regular file, and nothing else: a fifo has no end to wait for, and a device may act when it is opened.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let irregular = || io::Error::other("not a regular file");
    if !std::fs::metadata(path)?.is_file() {
        return Err(irregular());
    }
    // Should it have become a fifo since then, this does not wait for its writer.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let found = file.metadata()?;
    if found.is_file() { Ok((file, found.len())) } else { Err(irregular()) }
}
