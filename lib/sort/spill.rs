//! The file for data that does not fit into memory. It has no name, so that
//! nothing is left of it however the process ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};

/// The unit in which disk space is released.
const PIECE: u64 = 1 << 20;

/// The open file, and where the next run begins.
#[derive(Clone)]
pub(super) struct Spill {
    file: Arc<File>,
    folder: Arc<str>,
    pub(super) end: u64,
}

impl Spill {
    /// Creates the file. Fails if the folder is not writable.
    pub(super) fn create(folder: &Path) -> Result<Self> {
        let shown = folder.display().to_string();
        let file = tempfile::tempfile_in(folder).with_context(|| format!("{shown}: cannot create a temporary file"))?;
        Ok(Spill { file: Arc::new(file), folder: shown.into(), end: 0 })
    }

    /// Writes from `self.end` on.
    pub(super) fn append(&self) -> Append {
        Append { spill: self.clone() }
    }

    /// The file itself, to be read at any offset. Its space is not released
    /// before it is closed.
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Reads a part of the file, releasing its space behind the reader.
    pub(super) fn part(&self, from: u64, to: u64) -> SpillPart {
        SpillPart { spill: self.clone(), at: from, to, kept: from.next_multiple_of(PIECE) }
    }

    /// Adds the folder, and what can be done about a full disk, to an error.
    fn explain(&self, err: io::Error, what: &str) -> io::Error {
        let hint = match err.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                " (choose another folder with --tmpdir or TMPDIR)"
            }
            _ => "",
        };
        io::Error::new(err.kind(), format!("{}: cannot {what} a temporary file: {err}{hint}", self.folder))
    }
}

/// The end of the file, for writing.
pub(super) struct Append {
    spill: Spill,
}

impl Append {
    /// The offset up to which data was written.
    pub(super) fn end(&self) -> u64 {
        self.spill.end
    }
}

impl Write for Append {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.spill.file.write_at(buf, self.spill.end);
        let n = written.map_err(|err| match err.kind() {
            io::ErrorKind::Interrupted => err,
            _ => self.spill.explain(err, "write"),
        })?;
        self.spill.end += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A part of the file, to be read once.
pub(super) struct SpillPart {
    spill: Spill,
    at: u64,
    to: u64,
    /// The space before this offset was released.
    kept: u64,
}

impl Read for SpillPart {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = (self.to - self.at).min(buf.len() as u64) as usize;
        let read = self.spill.file.read_at(&mut buf[..most], self.at);
        let n = read.map_err(|err| match err.kind() {
            io::ErrorKind::Interrupted => err,
            _ => self.spill.explain(err, "read"),
        })?;
        self.at += n as u64;
        if self.at >= self.kept + PIECE {
            let whole = (self.at - self.kept) / PIECE * PIECE;
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // If the file system does not support it, the space is released at the end.
            _ = fallocate(&*self.spill.file, punch, self.kept, whole);
            self.kept += whole;
        }
        Ok(n)
    }
}
