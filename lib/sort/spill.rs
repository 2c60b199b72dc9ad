//! The file that takes what memory does not hold. It has no name: nothing is left of it, however
//! the process ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};

/// Space is given back in pieces of this size.
const PIECE: u64 = 1 << 20;

#[derive(Clone)]
pub(super) struct Spill {
    file: Arc<File>,
    folder: Arc<str>,
    pub(super) end: u64,
}

impl Spill {
    pub(super) fn create(folder: &Path) -> Result<Self> {
        let shown = folder.display().to_string();
        let file = tempfile::tempfile_in(folder).with_context(|| format!("{shown}: cannot make a temporary file"))?;
        Ok(Spill { file: Arc::new(file), folder: shown.into(), end: 0 })
    }

    /// Writes from `self.end` on.
    pub(super) fn append(&self) -> Append {
        Append { spill: self.clone() }
    }

    /// Reads a part of the file, and gives its space back behind itself.
    pub(super) fn part(&self, from: u64, to: u64) -> Part {
        Part { spill: self.clone(), at: from, to, kept: from.next_multiple_of(PIECE) }
    }

    /// Says where the trouble was, and what can be done about a full disk.
    fn explain(&self, err: io::Error, what: &str) -> io::Error {
        let hint = match err.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => " (name another folder with --tmpdir)",
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
    /// Where writing has come to.
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

/// A part of the file, for reading once.
pub(super) struct Part {
    spill: Spill,
    at: u64,
    to: u64,
    /// Up to here the space was given back.
    kept: u64,
}

impl Read for Part {
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
            // Not every file system can; the space then comes back at the end.
            _ = fallocate(&*self.spill.file, punch, self.kept, whole);
            self.kept += whole;
        }
        Ok(n)
    }
}
