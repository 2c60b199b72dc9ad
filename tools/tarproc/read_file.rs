//! Reads the files that a command left, and never one outside the sample's directory.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tarpipe::run::failure::Failure;
use tarpipe::sample::member_name;

use crate::tarproc::directory::DirectoryEntry;

/// A key is a path; a larger `__key__` file is invalid.
const MAX_KEY: u64 = 4096;

/// The bytes that may still be read, and buffers to read them into. Reusing the buffers of the unpacked data keeps one
/// copy of each sample in memory; with new ones, the allocator would hold on to both.
pub struct ReadAllowance {
    /// Bytes left.
    pub left: u64,
    /// Buffers of any size and content.
    pub buffers: Vec<Vec<u8>>,
}

impl ReadAllowance {
    /// A buffer of this size: an old one that fits closely, or a new one.
    fn take(&mut self, size: usize) -> Vec<u8> {
        let fits = |buf: &Vec<u8>| (size..=size + size / 2 + 4096).contains(&buf.capacity());
        let mut buf = match self.buffers.iter().position(fits) {
            Some(at) => self.buffers.swap_remove(at),
            None => return vec![0; size],
        };
        buf.resize(size, 0);
        buf
    }
}

/// The key in a `__key__` file.
pub fn read_key(directory: BorrowedFd<'_>, entry: &DirectoryEntry) -> Result<String, Failure> {
    let bad = |why: &str| Failure::new("bad_key", format!("the command wrote an invalid key: {why}"));
    let mut allowance = ReadAllowance { left: MAX_KEY, buffers: Vec::new() };
    let bytes = read(directory, entry, &mut allowance)
        .map_err(|failure| if failure.code == "too_large" { bad("it is too long") } else { failure })?;
    let key = std::str::from_utf8(&bytes).map_err(|_| bad("it is not UTF-8"))?.trim_end_matches(['\n', '\r']);
    member_name::check_key(key).map_err(|unfit| bad(&unfit.to_string()))?;
    Ok(key.to_owned())
}

/// The bytes of a regular file.
pub fn read(
    directory: BorrowedFd<'_>,
    entry: &DirectoryEntry,
    allowance: &mut ReadAllowance,
) -> Result<Vec<u8>, Failure> {
    let file = open(directory, entry)?;
    let failed = |err| Failure::system(&format!("read {}", entry.name.to_string_lossy()), err);
    let found = rustix::fs::fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(not_a_file(entry));
    }
    let size = found.st_size as u64;
    if size > allowance.left {
        let what = format!("{} makes the sample too large ({size} bytes)", entry.name.to_string_lossy());
        return Err(Failure::new("too_large", what));
    }
    allowance.left -= size;
    let mut data = allowance.take(size as usize);
    let mut filled = 0;
    while filled < data.len() {
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut data[filled..])).map_err(failed)? {
            0 => break,
            n => filled += n,
        }
    }
    data.truncate(filled);
    Ok(data)
}

/// Opens a file in the directory. Other kinds of files are never opened: opening a device can have side effects.
fn open(directory: BorrowedFd<'_>, entry: &DirectoryEntry) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let failed = |err| Failure::system(&format!("open {}", entry.name.to_string_lossy()), err);
    match entry.kind {
        FileType::RegularFile => {
            rustix::fs::openat(directory, &entry.name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(failed)
        }
        // Some file systems do not report types in listings; these are found out here.
        FileType::Symlink | FileType::Unknown => {
            let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            let resolve = |flags| rustix::fs::openat2(directory, &entry.name, flags, Mode::empty(), inside);
            let target = resolve(OFlags::PATH | OFlags::CLOEXEC).map_err(|err| match err {
                Errno::XDEV | Errno::LOOP | Errno::NOENT => link_outside(entry),
                Errno::NOSYS => unknown_link(entry),
                err => failed(err),
            })?;
            let found = rustix::fs::fstat(&target).map_err(failed)?;
            if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                return Err(not_a_file(entry));
            }
            resolve(flags).map_err(failed)
        }
        _ => Err(not_a_file(entry)),
    }
}

fn link_outside(entry: &DirectoryEntry) -> Failure {
    let what = format!("{} is a link whose target is not in the sample's directory", entry.name.to_string_lossy());
    Failure::new("link_outside", what)
}

fn unknown_link(entry: &DirectoryEntry) -> Failure {
    let name = entry.name.to_string_lossy();
    Failure::new("link_outside", format!("{name} is a link, which cannot be followed safely before Linux 5.6"))
}

fn not_a_file(entry: &DirectoryEntry) -> Failure {
    Failure::new("not_a_file", format!("{} is not a regular file", entry.name.to_string_lossy()))
}
