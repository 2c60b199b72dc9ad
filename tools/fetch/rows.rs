//! Reads the rows, on a thread of its own: a slow table holds up no request.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use tarpipe::pool::Bug;
use tarpipe::table::{Columns, Flow, Row as Line, Table, Visitor};
use tarpipe::{digest, source};
use tokio::sync::mpsc;

use super::row::Row;

/// Batches on their way to the engine.
pub const BATCHES: usize = 8;

/// Rows of a batch: a hand-over wakes a thread, which costs as much as parsing ten rows.
const BATCH: usize = 64;

/// A longer line is no row.
const MAX_LINE: u64 = 16 << 20;

/// The reading thread.
pub struct Reader(JoinHandle<Result<()>>);

impl Reader {
    /// Waits for the end of the rows, and says what was wrong with them.
    pub fn join(self) -> Result<()> {
        self.0.join().map_err(|_| anyhow!(Bug))?
    }
}

/// Starts to read. With a report, only the rows whose key failed in it go on.
pub fn start(name: String, report: Option<&str>, out: mpsc::Sender<Vec<Row>>) -> Result<Reader> {
    let failed = report.map(failed_keys).transpose()?;
    let stream = source::open(&name).with_context(|| source::display(&name))?;
    let read = move || read(stream, failed.as_ref(), &out).with_context(|| source::display(&name));
    let thread = std::thread::Builder::new().name("rows".into()).spawn(read).context("cannot start a thread")?;
    Ok(Reader(thread))
}

fn read(stream: impl Read, failed: Option<&HashSet<u128>>, out: &mpsc::Sender<Vec<Row>>) -> Result<()> {
    let mut stream = BufReader::with_capacity(256 << 10, stream);
    let mut batch = Vec::with_capacity(BATCH);
    let mut line = Vec::new();
    let (mut number, mut index) = (0, 0);
    loop {
        line.clear();
        let read = stream.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if !line.trim_ascii().is_empty() {
            let row = Row::parse(index, number, &line);
            number += 1;
            if failed.is_none_or(|failed| failed.contains(&digest::fingerprint(&row.key))) {
                index += 1;
                batch.push(row);
            }
        }
        // A batch also goes when the table pauses: its rows must not wait for the next.
        let pauses = stream.buffer().is_empty();
        if (batch.len() >= BATCH || pauses || read == 0) && !batch.is_empty() {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
            if out.blocking_send(full).is_err() {
                return Ok(());
            }
        }
        if read == 0 {
            return Ok(());
        }
    }
}

/// The keys that failed in a report, as fingerprints: 32 MB of memory for a million.
fn failed_keys(report: &str) -> Result<HashSet<u128>> {
    let table = Table::open(report, None)?;
    let mut failed = Failed(HashSet::new());
    let columns = Columns::Named(vec!["key".into(), "status".into()]);
    _ = table.visit(&columns, &mut failed).with_context(|| source::display(report))?;
    Ok(failed.0)
}

struct Failed(HashSet<u128>);

impl Visitor for Failed {
    fn row(&mut self, row: &Line<'_>) -> Result<Flow> {
        let text = |name| row.get(name).and_then(|cell| cell.text());
        let (key, status) = (text("key"), text("status"));
        let (Some(key), Some(status)) = (key, status) else { return self.bad_row(row.number, "no key or no status") };
        if status != "success" {
            self.0.insert(digest::fingerprint(&key));
        }
        Ok(Flow::Continue(()))
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        Err(anyhow!("row {number}: {why}"))
    }
}
