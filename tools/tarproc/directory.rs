//! The directory of a sample. It is made, filled, listed and removed through a file descriptor, so that nothing a
//! command does can redirect these calls to another place.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use tarpipe::run::failure::Failure;
use tarpipe::run::scratch::{Scratch, remove_tree};
use tarpipe::sample::Sample;

const OPEN_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory for one run of a command. Its owner must call [`SampleDirectory::remove`].
pub struct SampleDirectory {
    scratch: Arc<Scratch>,
    name: String,
    handle: OwnedFd,
}

/// A name in a directory.
pub struct DirectoryEntry {
    /// Bytes, because commands may use any name.
    pub name: CString,
    /// From the listing; links are not followed.
    pub kind: FileType,
}

impl SampleDirectory {
    /// Makes an empty directory.
    pub fn create(scratch: &Arc<Scratch>, name: String) -> Result<Self, Failure> {
        let handle = create(scratch.handle().as_fd(), &name)?;
        Ok(SampleDirectory { scratch: Arc::clone(scratch), name, handle })
    }

    /// The path, for the command.
    pub fn path(&self) -> PathBuf {
        self.scratch.path().join(&self.name)
    }

    /// The descriptor, for calls relative to it.
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// An error if the command removed the directory or made it unreadable.
    pub fn check(&self) -> Result<(), Failure> {
        let found = rustix::fs::fstat(&self.handle).map_err(|err| Failure::system("look at the directory", err))?;
        if found.st_nlink == 0 {
            return Err(gone());
        }
        if Mode::from_raw_mode(found.st_mode).contains(Mode::RWXU) {
            Ok(())
        } else {
            Err(Failure::new("unreadable", "the command made its directory unreadable"))
        }
    }

    /// Removes the directory and its contents; `entries` is its listing, if there is one. An error if it is already gone.
    pub fn remove(self, entries: Option<&[DirectoryEntry]>) -> Result<(), Failure> {
        if self.scratch.keeps() {
            return Ok(());
        }
        for entry in entries.unwrap_or_default().iter().filter(|entry| entry.kind != FileType::Directory) {
            _ = rustix::fs::unlinkat(&self.handle, &entry.name, AtFlags::empty());
        }
        match rustix::fs::unlinkat(self.scratch.handle(), &self.name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => Err(gone()),
            Err(_) => {
                remove_tree(&self.path());
                Ok(())
            }
        }
    }
}

/// Makes a directory below another and opens it.
pub fn create(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Failure> {
    let failed = |err| Failure::system("make a directory", err);
    rustix::fs::mkdirat(parent, name, Mode::RWXU).map_err(failed)?;
    rustix::fs::openat(parent, name, OPEN_DIRECTORY, Mode::empty()).map_err(failed)
}

/// Opens a directory below another.
pub fn open(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, OPEN_DIRECTORY, Mode::empty())
}

fn gone() -> Failure {
    Failure::new("directory_gone", "the command removed its directory")
}

/// The entries of a directory, in no order. A descriptor can be listed only once.
pub fn list(directory: BorrowedFd<'_>) -> Result<Vec<DirectoryEntry>, Failure> {
    let mut buf = [MaybeUninit::uninit(); 4096];
    let mut raw = RawDir::new(directory, &mut buf);
    let mut entries = Vec::with_capacity(8);
    while let Some(entry) = raw.next() {
        let entry = entry.map_err(|err| Failure::system("list the directory", err))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            entries.push(DirectoryEntry { name: entry.file_name().to_owned(), kind: entry.file_type() });
        }
    }
    Ok(entries)
}

/// Writes a sample's files: `BASE.FIELD` for each field, `__key__` and `__source__`.
pub fn unpack(directory: BorrowedFd<'_>, base: &str, sample: &Sample) -> Result<(), Failure> {
    write(directory, "__key__", sample.key.as_bytes())?;
    write(directory, "__source__", sample.source.as_bytes())?;
    for member in &sample.members {
        write(directory, &format!("{base}.{}", member.field), &member.data)?;
    }
    Ok(())
}

fn write(directory: BorrowedFd<'_>, name: &str, mut data: &[u8]) -> Result<(), Failure> {
    let failed = |err| Failure::system("unpack", err);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let file = rustix::fs::openat(directory, Path::new(name), flags, mode).map_err(failed)?;
    while !data.is_empty() {
        let n = rustix::io::retry_on_intr(|| rustix::io::write(&file, data)).map_err(failed)?;
        data = &data[n..];
    }
    Ok(())
}
