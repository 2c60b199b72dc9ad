//! Reads the rows on a separate thread, so that a slow source does not delay requests.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use tarpipe::location;
use tarpipe::run::pool::WorkerPanicked;
use tarpipe::source;
use tokio::sync::mpsc;

use super::row::InputRow;
use super::row_choice::WantedRows;

/// The most batches that wait for the scheduler.
pub const MAX_BATCHES: usize = 8;

/// Rows per batch. Passing one on wakes a thread, which costs as much as parsing ten rows.
const BATCH_SIZE: usize = 64;

/// The most bytes per line; a longer one is split into several rows.
const MAX_LINE: u64 = 16 << 20;

/// How much of the input has been read.
#[derive(Default)]
pub struct ReadProgress {
    /// Rows to fetch so far.
    rows: AtomicU64,
    is_at_end: AtomicBool,
}

impl ReadProgress {
    /// Whether the input was read to its end and had exactly `rows` rows to fetch.
    pub fn is_complete_with(&self, rows: u64) -> bool {
        self.is_at_end.load(Ordering::SeqCst) && self.rows.load(Ordering::SeqCst) == rows
    }
}

/// The thread that reads.
pub struct RowReader(JoinHandle<Result<()>>);

impl RowReader {
    /// Starts reading, and passes on only the wanted rows.
    pub fn start(
        name: String,
        wanted: WantedRows,
        out: mpsc::Sender<Vec<InputRow>>,
        progress: Arc<ReadProgress>,
    ) -> Result<Self> {
        let stream = source::open(&name).with_context(|| location::display(&name))?;
        let read = move || read(stream, &wanted, &out, &progress).with_context(|| location::display(&name));
        let thread = std::thread::Builder::new().name("rows".into()).spawn(read).context("cannot start a thread")?;
        Ok(RowReader(thread))
    }

    /// Waits for the end of the input, and returns the error that ended it.
    pub fn join(self) -> Result<()> {
        self.0.join().map_err(|_| anyhow!(WorkerPanicked))?
    }
}

fn read(
    stream: impl Read,
    wanted: &WantedRows,
    out: &mpsc::Sender<Vec<InputRow>>,
    progress: &ReadProgress,
) -> Result<()> {
    let mut stream = BufReader::with_capacity(256 << 10, stream);
    let mut batch = Vec::with_capacity(BATCH_SIZE);
    let mut line = Vec::new();
    let (mut number, mut index) = (0, 0);
    loop {
        line.clear();
        let read = stream.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if !line.trim_ascii().is_empty() {
            if number == 0 && line.contains(&0) {
                bail!("not a list of URLs: binary data");
            }
            let row = InputRow::parse(index, number, &line);
            number += 1;
            if wanted.has(&row.key) {
                index += 1;
                progress.rows.store(index, Ordering::SeqCst);
                batch.push(row);
            }
        }
        // An incomplete batch is passed on when the source pauses: its rows must not wait for more.
        let is_paused = stream.buffer().is_empty();
        if (batch.len() >= BATCH_SIZE || is_paused || read == 0) && !batch.is_empty() {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_SIZE));
            if out.blocking_send(full).is_err() {
                return Ok(());
            }
        }
        if read == 0 {
            progress.is_at_end.store(true, Ordering::SeqCst);
            return Ok(());
        }
    }
}
