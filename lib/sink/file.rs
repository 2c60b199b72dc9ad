//! Files that appear under their name only when they are complete.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;

use crate::run::owner;
use crate::run::signals;

const PREFIX: &str = ".tarpipe-";
const SUFFIX: &str = ".tmp";
/// If nothing else tells whether its writer is alive, a temporary file is
/// garbage once nobody has written to it for this long.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A file with a temporary name, `.tarpipe-….tmp`, in the folder of its target.
/// It is removed if it is dropped before [`Temporary::commit`] or
/// [`Temporary::place`], and if a signal ends the process; after a kill, the
/// next run that writes to the folder removes it.
pub struct Temporary {
    file: File,
    path: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl Temporary {
    /// Creates the temporary file for `target`; missing folders are created. If
    /// the target is a symbolic link, the file that it points to is replaced,
    /// not the link.
    ///
    /// # Errors
    ///
    /// The folder or the file cannot be created.
    pub fn create(target: &Path) -> Result<Self> {
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let mut temporary = Temporary::create_in(folder_of(&target))?;
        temporary.target = target;
        Ok(temporary)
    }

    /// Creates a temporary file in `folder`, which is created if it is missing.
    /// Its name is given later, by [`Temporary::place`].
    ///
    /// # Errors
    ///
    /// The folder or the file cannot be created.
    pub fn create_in(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        remove_garbage(folder);
        let (path, file) = owner::create(
            |unique| folder.join(format!("{PREFIX}{unique}{SUFFIX}")),
            |path| OpenOptions::new().write(true).create_new(true).open(path),
        )?;
        Ok(Temporary { file, path, target: PathBuf::new(), committed: false })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Renames the file to `name` in an open folder of the same file system,
    /// without syncing it. Fails if the name exists, unless `replace` is set; a
    /// symbolic link of that name is never followed.
    pub fn place(mut self, folder: BorrowedFd<'_>, name: &str, replace: bool) -> rustix::io::Result<()> {
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match renameat_with(CWD, &self.path, folder, name, flags) {
            // Not every file system can rename without replacing; a hard link does the same.
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

    /// Syncs the file and renames it to its target, atomically replacing what
    /// is there. When this returns, the file survives a crash of the machine.
    ///
    /// # Errors
    ///
    /// The file cannot be written to disk or renamed; it is then removed. A
    /// folder that cannot be synced is not an error, because the rename has
    /// succeeded.
    pub fn commit(mut self) -> Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target).context("cannot rename the temporary file")?;
        self.committed = true;
        signals::release_path(&self.path);
        // Not every file system can sync a folder; the rename itself has succeeded.
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

/// Removes what killed runs left in this folder. Done once per folder and
/// process, because it lists the folder.
fn remove_garbage(folder: &Path) {
    static CLEANED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if CLEANED.lock().insert(folder.to_owned()) {
        sweep(folder);
    }
}

/// Looks at every temporary file in the folder.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let unique = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        if let Some(unique) = unique {
            _ = remove_if_abandoned(&entry.path(), unique);
        }
    }
}

/// Removes a file whose writer is dead, while holding its lock.
fn remove_if_abandoned(path: &Path, unique: &str) -> rustix::io::Result<()> {
    // Somebody may have put a link or a fifo there: neither may be followed or block us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    if is_file && owner::is_abandoned(unique, &file, ABANDONED) {
        rustix::fs::unlink(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

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
    fn unlocked_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        // As written by a process in another namespace, by one of another machine, and by version 0.1.
        let near = owner::unique().replacen('.', "0.", 1);
        let far = owner::unique().replacen(owner::machine(), "0123456789ab", 1);
        let left = [&near, &far, "host-1-0"].map(|unique| folder.path().join(format!("{PREFIX}{unique}{SUFFIX}")));
        left.iter().for_each(|path| fs::write(path, "").unwrap());
        let alive = Temporary::create_in(folder.path()).unwrap();
        assert_eq!(left.map(|path| path.exists()), [false; 3]);
        assert!(alive.path.exists());
    }

    #[test]
    fn a_fifo_or_a_link_in_the_way_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |number: u32| folder.path().join(format!("{PREFIX}host-1-{number}{SUFFIX}"));
        fs::write(folder.path().join("kept"), "").unwrap();
        std::os::unix::fs::symlink("kept", path(0)).unwrap();
        rustix::fs::mknodat(CWD, path(1), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        sweep(folder.path());
        assert!(path(0).exists() && path(1).exists());
    }
}
