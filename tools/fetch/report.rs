//! The report of a run. Until the archive is committed nobody knows whether the samples in it will be kept, so the
//! report is written twice: as it reads if they are, and as it reads if they are lost. One of the two appears.
//! To choose takes no time, however many rows there are: a signal leaves little.

use std::fs::File;
use std::io;

use anyhow::{Context, Result};
use tarpipe::location;
use tarpipe::report::Ledger;
use tarpipe::run::scratch::Scratch;
use tarpipe::sink::{self, Sink};

use super::entry::{Entry, HANDED_ON, SUCCESS};
use super::failure::Code;

/// Why a row failed whose sample had been written.
const LOST: &str = "fetched, but the run ended before its output was complete";

/// Both versions, neither under its name yet.
pub struct Report {
    kept: Ledger,
    lost: Ledger,
    /// The status of rows that did not fail.
    status: &'static str,
    /// Rows so far.
    pub rows: u64,
    /// Where the report goes when it cannot be renamed into place.
    copy: Option<Copy>,
}

/// A report for an object store, a command or a pipe: both versions are files of a temporary folder.
struct Copy {
    sink: Sink,
    folder: Scratch,
    suffix: String,
}

impl Report {
    /// Creates the report `name` of a run that writes the archive `archive`.
    pub fn create(name: &str, archive: &str) -> Result<Self> {
        let suffix = Ledger::suffix(name)?.to_owned();
        let status = if is_passing(archive) { HANDED_ON } else { SUCCESS };
        if is_file(name) {
            let [kept, lost] = [Ledger::create(name, Entry::COLUMNS)?, Ledger::create(name, Entry::COLUMNS)?];
            return Ok(Report { kept, lost, status, rows: 0, copy: None });
        }
        // The name of a command does not say how to compress.
        let suffix =
            if sink::is_command(name) { suffix.trim_end_matches(".gz").trim_end_matches(".zst") } else { &suffix };
        let sink = Sink::create_as_is(name)?;
        let folder = Scratch::create(Some(&std::env::temp_dir()), false).context("no temporary folder for --report")?;
        let copy = Copy { sink, folder, suffix: suffix.to_owned() };
        let [kept, lost] = [true, false].map(|is_kept| Ledger::create(&copy.path(is_kept), Entry::COLUMNS));
        Ok(Report { kept: kept?, lost: lost?, status, rows: 0, copy: Some(copy) })
    }

    /// Adds one row.
    pub fn add(&mut self, mut entry: Entry) -> Result<()> {
        self.kept.add(entry.values(self.status))?;
        if entry.code.is_none() {
            entry.fail(Code::NotKept, LOST);
        }
        self.lost.add(entry.values(self.status))?;
        self.rows += 1;
        Ok(())
    }

    /// Makes the report appear under its name: `is_kept` says what became of the archive, `is_complete` whether every
    /// row of the table was added.
    pub fn finish(self, is_kept: bool, is_complete: bool) -> Result<()> {
        let Report { kept, lost, copy, .. } = self;
        let mut chosen = if is_kept { kept } else { lost };
        if !is_complete {
            chosen.add(Entry::unread())?;
        }
        chosen.finish()?;
        copy.map_or(Ok(()), |copy| copy.finish(is_kept))
    }
}

impl Copy {
    fn path(&self, is_kept: bool) -> String {
        let name = if is_kept { "kept" } else { "lost" };
        self.folder.path().join(name).to_string_lossy().into_owned() + &self.suffix
    }

    fn finish(mut self, is_kept: bool) -> Result<()> {
        let path = self.path(is_kept);
        let copied = File::open(&path).with_context(|| path.clone())?;
        io::copy(&mut &copied, &mut self.sink)?;
        self.sink.finish()?;
        self.folder.finish();
        Ok(())
    }
}

/// Whether an output goes to another program as it is written: stdout, a fifo, a device.
fn is_passing(name: &str) -> bool {
    name == "-" || (is_path(name) && !is_file(name))
}

/// Whether a name is that of a file, which appears when it is finished and not before.
fn is_file(name: &str) -> bool {
    is_path(name) && std::fs::metadata(location::path_of(name)).map_or(true, |found| found.is_file() || found.is_dir())
}

fn is_path(name: &str) -> bool {
    name != "-" && !sink::is_command(name) && location::scheme(name).is_none_or(|scheme| scheme == "file")
}
