//! Reads the regular files of `file:` URLs, in steps, within the limits of a body and the timeout of an attempt.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::fetch::client::BodyLimits;
use crate::fetch::failure::{FailureCode, FetchFailure, io_message};
use crate::fetch::memory::{HeldBytes, SegmentedBuffer};

/// Files read at a time. A file system that hangs blocks one thread per file.
const MAX_READS: usize = 32;

/// Bytes to read per step.
const STEP: u64 = 1 << 20;

/// The least to read per step: files in /proc claim to be empty.
const MIN_STEP: u64 = 16 << 10;

/// Reads local files, on threads other than that of the connections.
pub struct LocalFiles {
    slots: Arc<Semaphore>,
    timeout: Duration,
}

impl LocalFiles {
    /// `timeout` is the time per file.
    pub fn new(timeout: Duration) -> Self {
        LocalFiles { slots: Arc::new(Semaphore::new(MAX_READS)), timeout }
    }

    /// Reads a file, taking room for it from the byte budget. Time spent waiting for room does not count.
    pub async fn read(
        &self,
        path: PathBuf,
        limits: &BodyLimits,
        held: &mut HeldBytes,
    ) -> Result<Vec<u8>, FetchFailure> {
        let mut deadline = Instant::now() + self.timeout;
        let already_held = held.bytes();
        let (mut file, length) = self.run_on_thread(deadline, move || open(&path)).await?;
        if length > limits.max_bytes {
            return Err(limits.too_large());
        }
        let mut buffer = SegmentedBuffer::default();
        loop {
            let expected = length.saturating_add(1).saturating_sub(buffer.len());
            let room = buffer.room(expected.clamp(MIN_STEP, STEP), limits.max_bytes);
            let before = Instant::now();
            held.take(room).await;
            deadline += before.elapsed();
            let step = move || {
                let read = buffer.read(&file, room)?;
                Ok((file, buffer, read))
            };
            let read;
            (file, buffer, read) = self.run_on_thread(deadline, step).await?;
            if buffer.len() > limits.max_bytes {
                return Err(limits.too_large());
            }
            if read < room {
                break;
            }
        }
        let data = self.run_on_thread(deadline, move || Ok(buffer.join())).await?;
        held.shrink_to(already_held + data.len() as u64);
        Ok(data)
    }

    /// Runs `call` on another thread. A call that never returns keeps its slot.
    async fn run_on_thread<T: Send + 'static>(
        &self,
        deadline: Instant,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, FetchFailure> {
        let slots = Arc::clone(&self.slots);
        let running = async {
            let slot = slots.acquire_owned().await;
            tokio::task::spawn_blocking(move || (call(), drop(slot)).0).await
        };
        let timed_out =
            |_| FetchFailure::transient(FailureCode::Timeout, format!("not read within {:?}", self.timeout));
        let ended = timeout_at(deadline, running).await.map_err(timed_out)?;
        let ended = ended.map_err(|_| FetchFailure::permanent(FailureCode::Interrupted, "interrupted"))?;
        ended.map_err(|err| FetchFailure::permanent(FailureCode::File, io_message(&err)))
    }
}

/// Opens a regular file and returns its length. Anything else is refused: a fifo may never end, and opening a device may
/// have effects.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let not_regular = || io::Error::other("not a regular file");
    if !std::fs::metadata(path)?.is_file() {
        return Err(not_regular());
    }
    // If it has become a fifo since, NONBLOCK avoids waiting for its writer.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let found = file.metadata()?;
    if found.is_file() { Ok((file, found.len())) } else { Err(not_regular()) }
}
