//! A file that appears under its name only when it is whole.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rustix::fs::{AtFlags, CWD, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;

use crate::signals;

const PREFIX: &str = ".tarpipe-";
const SUFFIX: &str = ".tmp";
/// A temporary file of another host is garbage when nobody wrote to it for so long.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A file under a temporary name beside its target. Dropped before [`Temporary::commit`],
/// it is removed.
pub struct Temporary {
    file: File,
    path: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl Temporary {
    /// Creates the temporary file; folders on the way to it are made. A link is followed: what
    /// it points to is replaced, not the link.
    pub fn create(target: &Path) -> Result<Self> {
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let mut temporary = Temporary::create_in(folder_of(&target))?;
        temporary.target = target;
        Ok(temporary)
    }

    /// Creates a temporary file in `folder`, which is made, for [`Temporary::place`].
    pub fn create_in(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        remove_garbage(folder);
        loop {
            let path = folder.join(format!("{PREFIX}{}{SUFFIX}", unique()));
            let create = || OpenOptions::new().write(true).create_new(true).open(&path);
            let file = signals::create_guarded(&path, create)?;
            let temporary = Temporary { file, path, target: PathBuf::new(), committed: false };
            // Says that we live. Where the file system has no locks, age decides.
            let locked = temporary.file.try_lock();
            // Whoever came before that took it for garbage, and holds the lock or has removed it.
            let is_taken = matches!(locked, Err(TryLockError::WouldBlock));
            if !is_taken && temporary.file.metadata()?.nlink() > 0 {
                return Ok(temporary);
            }
        }
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file the name `name` in an opened folder of the same file system; it is not synced.
    /// A link of that name is never followed. A name that exists is an error, or is replaced.
    pub fn place(mut self, folder: BorrowedFd<'_>, name: &str, replace: bool) -> rustix::io::Result<()> {
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match renameat_with(CWD, &self.path, folder, name, flags) {
            // Not every file system can rename without replacing; all that have links can do this.
            Err(Errno::INVAL | Errno::NOSYS) if !replace => {
                linkat(CWD, &self.path, folder, name, AtFlags::empty())?;
                _ = fs::remove_file(&self.path);
            }
            result => result?,
        }
        self.committed = true;
        signals::release_path(&self.path);
        Ok(())
    }

    /// Syncs the file and gives it its name.
    pub fn commit(mut self) -> Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target).context("cannot rename the temporary file")?;
        self.committed = true;
        signals::release_path(&self.path);
        // Not every file system can sync a folder; the rename itself has happened.
        _ = File::open(folder_of(&self.target)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Write for Temporary {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.file.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.committed {
            _ = fs::remove_file(&self.path);
            signals::release_path(&self.path);
        }
    }
}

fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Host, process and a number: no two live files share it, on a shared file system either.
pub(crate) fn unique() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}-{}", host(), std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The name of this machine, as far as a file name takes it.
pub fn host() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    name.chars().filter(|c| c.is_ascii_alphanumeric()).take(32).collect()
}

/// Removes what killed runs left in this folder; once a folder, for it is a listing.
fn remove_garbage(folder: &Path) {
    static CLEANED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if CLEANED.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned()) {
        sweep(folder);
    }
}

fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            _ = remove_if_abandoned(&entry.path(), name);
        }
    }
}

/// Removes a file when whoever wrote it is dead: its lock is free, and it ran on this host or long ago. The lock is
/// held meanwhile, so that the writer of a new file sees what is going on.
fn remove_if_abandoned(path: &Path, name: &str) -> io::Result<()> {
    let file = File::open(path)?;
    let ours = name[PREFIX.len()..].starts_with(&format!("{}-", host()));
    let age = SystemTime::now().duration_since(file.metadata()?.modified()?);
    let is_old = age.is_ok_and(|age| age > ABANDONED);
    if ours || is_old {
        file.try_lock()?;
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_new_file_is_not_taken_for_garbage() {
        let folder = tempfile::tempdir().unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        sweep(folder.path())
                    }
                });
            }
            let lost = (0..3000).filter(|_| !Temporary::create_in(folder.path()).unwrap().path.exists()).count();
            over.store(true, Ordering::Relaxed);
            assert_eq!(lost, 0);
        });
    }

    #[test]
    fn what_nobody_has_locked_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("{PREFIX}{}{SUFFIX}", unique()));
        fs::write(&left, "").unwrap();
        let alive = Temporary::create_in(folder.path()).unwrap();
        assert!(!left.exists() && alive.path.exists());
    }
}
