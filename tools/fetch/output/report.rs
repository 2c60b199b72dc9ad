//! The report of a run. Whether its samples are kept is known only when the archive is complete, so the report is written in
//! two versions, one for each case. Choosing one at the end takes no time, however many rows there are: after a signal there
//! is little.

use std::fs::File;
use std::io;

use anyhow::{Context, Result};
use tarpipe::location;
use tarpipe::report::ReportWriter;
use tarpipe::run::scratch::Scratch;
use tarpipe::sink::{self, Sink};

use super::report_row::{HANDED_ON, ReportRow, SUCCESS};
use crate::fetch::failure::FailureCode;

/// The message of a row whose sample was written and lost.
const LOST: &str = "fetched, but the run ended before its output was complete";

/// Both versions of the report, neither under its final name yet.
pub struct FetchReport {
    /// The version for the case that the archive is kept.
    kept: ReportWriter,
    /// The version for the case that it is lost.
    lost: ReportWriter,
    /// The status of rows that did not fail.
    status: &'static str,
    /// Rows so far.
    pub rows: u64,
    /// How to deliver the report if it cannot be renamed into place.
    copy: Option<ReportCopy>,
}

/// A report for an object store, a command or a pipe: both versions are files in a temporary folder, and one is copied.
struct ReportCopy {
    sink: Sink,
    folder: Scratch,
    suffix: String,
}

impl FetchReport {
    /// Creates the report `name` for a run that writes to `archive`.
    pub fn create(name: &str, archive: &str) -> Result<Self> {
        let suffix = ReportWriter::suffix(name)?.to_owned();
        let status = if is_handed_on(archive) { HANDED_ON } else { SUCCESS };
        if is_file(name) {
            let [kept, lost] =
                [ReportWriter::create(name, ReportRow::COLUMNS)?, ReportWriter::create(name, ReportRow::COLUMNS)?];
            return Ok(FetchReport { kept, lost, status, rows: 0, copy: None });
        }
        // A command gets the report uncompressed, whatever its name ends with.
        let suffix =
            if sink::is_command(name) { suffix.trim_end_matches(".gz").trim_end_matches(".zst") } else { &suffix };
        let sink = Sink::create_as_is(name)?;
        let folder = Scratch::create(Some(&std::env::temp_dir()), false)
            .context("cannot create a temporary folder for --report")?;
        let copy = ReportCopy { sink, folder, suffix: suffix.to_owned() };
        let [kept, lost] = [true, false].map(|is_kept| ReportWriter::create(&copy.path(is_kept), ReportRow::COLUMNS));
        Ok(FetchReport { kept: kept?, lost: lost?, status, rows: 0, copy: Some(copy) })
    }

    pub fn add(&mut self, mut row: ReportRow) -> Result<()> {
        self.kept.add(row.values(self.status))?;
        if row.code.is_none() {
            row.fail(FailureCode::NotKept, LOST);
        }
        self.lost.add(row.values(self.status))?;
        self.rows += 1;
        Ok(())
    }

    /// Completes the report under its name. `is_kept`: the archive is complete. `is_complete`: every row of the input was
    /// added.
    pub fn finish(self, is_kept: bool, is_complete: bool) -> Result<()> {
        let FetchReport { kept, lost, copy, .. } = self;
        let mut chosen = if is_kept { kept } else { lost };
        if !is_complete {
            chosen.add(ReportRow::unread())?;
        }
        chosen.finish()?;
        copy.map_or(Ok(()), |copy| copy.finish(is_kept))
    }
}

impl ReportCopy {
    fn path(&self, is_kept: bool) -> String {
        let name = if is_kept { "kept" } else { "lost" };
        self.folder.path().join(name).to_string_lossy().into_owned() + &self.suffix
    }

    fn finish(mut self, is_kept: bool) -> Result<()> {
        let path = self.path(is_kept);
        let chosen = File::open(&path).with_context(|| path.clone())?;
        io::copy(&mut &chosen, &mut self.sink)?;
        self.sink.finish()?;
        self.folder.finish();
        Ok(())
    }
}

/// Whether an output is consumed while it is written: stdout, a fifo, a device.
fn is_handed_on(name: &str) -> bool {
    name == "-" || (is_path(name) && !is_file(name))
}

/// Whether an output is a file, which appears under its name only when it is complete.
fn is_file(name: &str) -> bool {
    is_path(name) && std::fs::metadata(location::path_of(name)).map_or(true, |found| found.is_file() || found.is_dir())
}

fn is_path(name: &str) -> bool {
    name != "-" && !sink::is_command(name) && location::scheme(name).is_none_or(|scheme| scheme == "file")
}
