//! A file that a command left, read without leaving the sample's directory.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tarpipe::run::failure::Failure;
use tarpipe::sample::member_name;

use crate::directory::Entry;

/// A key is a path; a `__key__` larger than this is none.
const MAX_KEY: u64 = 4096;

/// What a sample may still hold, and memory for it. Using again what the unpacked data stood in
/// keeps each sample in one place; the allocator would hold on to both.
pub struct Room {
    /// Of bytes.
    pub left: u64,
    /// Of any size and content.
    pub spare: Vec<Vec<u8>>,
}

impl Room {
    /// A buffer of this size: a spare one that fits closely, or a new one.
    fn take(&mut self, size: usize) -> Vec<u8> {
        let fits = |buf: &Vec<u8>| (size..=size + size / 2 + 4096).contains(&buf.capacity());
        let mut buf = match self.spare.iter().position(fits) {
            Some(at) => self.spare.swap_remove(at),
            None => return vec![0; size],
        };
        buf.resize(size, 0);
        buf
    }
}

/// The key that a command left in a file.
pub fn read_key(directory: BorrowedFd<'_>, entry: &Entry) -> Result<String, Failure> {
    let bad = |why: &str| Failure::new("bad_key", format!("the key that the command wrote cannot be one: {why}"));
    let mut room = Room { left: MAX_KEY, spare: Vec::new() };
    let bytes = read(directory, entry, &mut room)
        .map_err(|failure| if failure.code == "too_large" { bad("it is too long") } else { failure })?;
    let key = std::str::from_utf8(&bytes).map_err(|_| bad("it is not UTF-8"))?.trim_end_matches(['\n', '\r']);
    member_name::check_key(key).map_err(|unfit| bad(&unfit.to_string()))?;
    Ok(key.to_owned())
}

/// The bytes of a regular file.
pub fn read(directory: BorrowedFd<'_>, entry: &Entry, room: &mut Room) -> Result<Vec<u8>, Failure> {
    let file = open(directory, entry)?;
    let failed = |err| Failure::system(&format!("read {}", entry.name.to_string_lossy()), err);
    let found = rustix::fs::fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(not_a_file(entry));
    }
    let size = found.st_size as u64;
    if size > room.left {
        let what = format!("{} makes the sample too large ({size} bytes)", entry.name.to_string_lossy());
        return Err(Failure::new("too_large", what));
    }
    room.left -= size;
    let mut data = room.take(size as usize);
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

/// Opens a file without leaving the directory, and without touching what is no file: opening a
/// device can do things.
fn open(directory: BorrowedFd<'_>, entry: &Entry) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let failed = |err| Failure::system(&format!("open {}", entry.name.to_string_lossy()), err);
    match entry.kind {
        FileType::RegularFile => {
            rustix::fs::openat(directory, &entry.name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(failed)
        }
        // A file system that does not tell kinds in its listing is asked by the open itself.
        FileType::Symlink | FileType::Unknown => {
            let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            let resolve = |flags| rustix::fs::openat2(directory, &entry.name, flags, Mode::empty(), inside);
            let target = resolve(OFlags::PATH | OFlags::CLOEXEC).map_err(|err| match err {
                Errno::XDEV | Errno::LOOP | Errno::NOENT => leads_out(entry),
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

fn leads_out(entry: &Entry) -> Failure {
    let what = format!("{} is a link to nothing in the sample's directory", entry.name.to_string_lossy());
    Failure::new("link_outside", what)
}

fn unknown_link(entry: &Entry) -> Failure {
    let name = entry.name.to_string_lossy();
    Failure::new("link_outside", format!("{name} is a link, and before Linux 5.6 none can be followed safely"))
}

fn not_a_file(entry: &Entry) -> Failure {
    Failure::new("not_a_file", format!("{} is not a regular file", entry.name.to_string_lossy()))
}
