//! Reads the rows, on a thread of its own: a slow table holds up no request.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use tarpipe::digest;
use tarpipe::location;
use tarpipe::run::pool::Bug;
use tarpipe::source;
use tarpipe::table::{Columns, Flow, Row as Line, Table, Visitor};
use tokio::sync::mpsc;

use super::entry::{HANDED_ON, SUCCESS, UNREAD};
use super::row::Row;

/// Batches on their way to the engine.
pub const BATCHES: usize = 8;

/// Rows of a batch: a hand-over wakes a thread, which costs as much as parsing ten rows.
const BATCH: usize = 64;

/// A longer line is no row.
const MAX_LINE: u64 = 16 << 20;

/// How far the table has been read.
#[derive(Default)]
pub struct Extent {
    rows: AtomicU64,
    is_whole: AtomicBool,
}

impl Extent {
    /// Whether the table was read to its end, and has so many rows to fetch.
    pub fn is_covered_by(&self, rows: u64) -> bool {
        self.is_whole.load(Ordering::SeqCst) && self.rows.load(Ordering::SeqCst) == rows
    }
}

/// The reading thread.
pub struct Reader(JoinHandle<Result<()>>);

impl Reader {
    /// Waits for the end of the rows, and says what was wrong with them.
    pub fn join(self) -> Result<()> {
        self.0.join().map_err(|_| anyhow!(Bug))?
    }
}

/// Starts to read. With a report, only the rows that it does not list as kept go on.
pub fn start(name: String, report: Option<&str>, out: mpsc::Sender<Vec<Row>>, extent: Arc<Extent>) -> Result<Reader> {
    let earlier = report.map(Earlier::read).transpose()?;
    let stream = source::open(&name).with_context(|| location::display(&name))?;
    let read = move || read(stream, earlier.as_ref(), &out, &extent).with_context(|| location::display(&name));
    let thread = std::thread::Builder::new().name("rows".into()).spawn(read).context("cannot start a thread")?;
    Ok(Reader(thread))
}

fn read(stream: impl Read, earlier: Option<&Earlier>, out: &mpsc::Sender<Vec<Row>>, extent: &Extent) -> Result<()> {
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
            if earlier.is_none_or(|earlier| earlier.lacks(&row.key)) {
                index += 1;
                extent.rows.store(index, Ordering::SeqCst);
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
            extent.is_whole.store(true, Ordering::SeqCst);
            return Ok(());
        }
    }
}

/// An earlier report. Keys are held as fingerprints: 32 MB of memory for a million.
struct Earlier {
    failed: HashSet<u128>,
    /// Of the report of a run that did not read all rows: rows with other keys were not fetched.
    kept: Option<HashSet<u128>>,
}

impl Earlier {
    fn read(report: &str) -> Result<Self> {
        let failed = Keys::read(report, false)?;
        let kept = if failed.is_partial { Some(Keys::read(report, true)?.found) } else { None };
        Ok(Earlier { failed: failed.found, kept })
    }

    /// Whether the report does not list the row with this key as kept.
    fn lacks(&self, key: &str) -> bool {
        let key = digest::fingerprint(key);
        self.failed.contains(&key) || self.kept.as_ref().is_some_and(|kept| !kept.contains(&key))
    }
}

/// The keys of a report whose samples were kept, or of those that were not.
struct Keys {
    are_kept: bool,
    found: HashSet<u128>,
    is_partial: bool,
}

impl Keys {
    fn read(report: &str, are_kept: bool) -> Result<Self> {
        let table = Table::open(report, None)?;
        let mut keys = Keys { are_kept, found: HashSet::new(), is_partial: false };
        let columns = Columns::Named(vec!["key".into(), "status".into()]);
        _ = table.visit(&columns, &mut keys).with_context(|| location::display(report))?;
        Ok(keys)
    }
}

impl Visitor for Keys {
    fn row(&mut self, row: &Line<'_>) -> Result<Flow> {
        let text = |name| row.get(name).and_then(|cell| cell.text());
        let (key, status) = (text("key"), text("status"));
        if status.as_deref() == Some(UNREAD) {
            self.is_partial = true;
            return Ok(Flow::Continue(()));
        }
        let (Some(key), Some(status)) = (key, status) else { return self.bad_row(row.number, "no key or no status") };
        if matches!(status.as_ref(), SUCCESS | HANDED_ON) == self.are_kept {
            self.found.insert(digest::fingerprint(&key));
        }
        Ok(Flow::Continue(()))
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        Err(anyhow!("row {number}: {why}"))
    }
}
