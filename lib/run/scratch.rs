//! Temporary directories of a run: one directory per run, in which each sample
//! gets a directory of its own (tarproc, tarvideo, shardrun).
//!
//! By default it is on a tmpfs with enough room, where files cost a third of
//! what they cost on a disk. A directory is removed at the end of the run and
//! when a signal ends it; if the run is killed, the next run in the same place
//! removes it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};

use crate::messages;
use crate::run::owner;
use crate::run::signals;

/// The tmpfs of every Linux system.
const SHARED_MEMORY: &str = "/dev/shm";
/// For temporary files that are large or kept for a long time.
const LARGE_FILES: &str = "/var/tmp";
/// The `f_type` of a tmpfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Free space that a tmpfs must have: containers get one of 64 MB, which a few
/// large samples fill.
const ROOM: u64 = 1 << 30;
/// If nothing else tells whether its owner is alive, a directory is garbage
/// once nothing in it was created or removed for this long. A command may work
/// on one sample for days.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3600);

/// A temporary directory. Not removed on drop, since that could fail unnoticed:
/// call [`Scratch::finish`].
///
/// ```
/// use tarpipe::run::scratch::Scratch;
///
/// let scratch = Scratch::create(None, false)?;
/// std::fs::write(scratch.path().join("frame.png"), b"pixels")?;
/// scratch.finish();
/// assert!(!scratch.path().exists());
/// # anyhow::Ok(())
/// ```
pub struct Scratch {
    path: PathBuf,
    handle: File,
    keep: bool,
}

impl Scratch {
    /// Creates the directory, mode 0700, in `place` (`--tmpdir`) or in the best
    /// place: `/dev/shm` if it is a tmpfs with 1 GB of room, else the first of
    /// `$TMPDIR` (or `/tmp`) and `/var/tmp` that is writable and allows
    /// executing programs.
    ///
    /// First removes what killed runs of the same tool left there. With `keep`,
    /// the directory is never removed and [`Scratch::finish`] says where it is.
    /// Fails if `place` does not exist or is not writable.
    pub fn create(place: Option<&Path>, keep: bool) -> Result<Self> {
        let place = fs::canonicalize(place.map_or_else(best_place, Path::to_owned)).context("--tmpdir")?;
        // Version 0.1 wrote TOOL-HOST-PID-NUMBER, which others may call their own directories, too.
        let (prefix, old) = (format!("{}-", messages::tool()), format!("{}-{}-", messages::tool(), owner::host()));
        let is_ours = |name: &&str| name.split('-').count() > 4 || name.starts_with(&old);
        remove_garbage(&place, |name| Some(name).filter(is_ours)?.strip_prefix(&prefix));
        let kind = if keep { "kept-" } else { "" };
        let name = |unique: &str| place.join(format!("{}-{kind}{unique}", messages::tool()));
        let (path, handle) = create_locked(0o700, name).with_context(|| place.display().to_string())?;
        if keep {
            signals::release_path(&path);
        }
        Ok(Scratch { path, handle, keep })
    }

    /// The absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory, for system calls relative to it. It holds the lock
    /// that marks the directory as in use.
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// Whether the directory is kept after the run.
    pub fn keeps(&self) -> bool {
        self.keep
    }

    /// Removes the directory with everything in it, or prints where it is if it
    /// is kept. Failures are ignored: the next run tries again.
    pub fn finish(&self) {
        if self.keep {
            messages::notice(&format!("{}: directories kept", self.path.display()));
            return;
        }
        remove_tree(&self.path);
        signals::release_path(&self.path);
    }
}

/// Creates a temporary directory with these permissions and locks it, as
/// [`owner::create`] does.
///
/// # Errors
///
/// The directory cannot be created or locked.
pub fn create_locked(mode: u32, name: impl Fn(&str) -> PathBuf) -> io::Result<(PathBuf, File)> {
    owner::create(name, |path| {
        fs::DirBuilder::new().mode(mode).create(path)?;
        File::open(path).map_err(|err| match err.kind() {
            // Another run took it for garbage before it was locked: try the next name.
            io::ErrorKind::NotFound => io::ErrorKind::AlreadyExists.into(),
            _ => {
                _ = fs::remove_dir(path);
                err
            }
        })
    })
}

/// Removes the directories in `place` that killed runs left behind, as far as
/// they belong to the current user. `unique` extracts the part of a name that
/// [`owner::unique`] made, or None for names that are not ours. Failures are
/// ignored.
pub fn remove_garbage(place: &Path, unique: impl Fn(&str) -> Option<&str>) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(unique) = name.to_str().and_then(&unique) else { continue };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(handle) = rustix::fs::open(entry.path(), flags, Mode::empty()) else { continue };
        let handle = File::from(handle);
        let is_ours = handle.metadata().is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw());
        if is_ours && owner::is_abandoned(unique, &handle, ABANDONED) {
            remove_tree(&entry.path());
        }
    }
}

/// Removes a directory and everything in it, including directories without read
/// or write permission. Symbolic links are not followed. Failures are ignored.
pub fn remove_tree(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        make_removable(path);
        _ = fs::remove_dir_all(path);
    }
}

/// Gives the owner all permissions on a directory and those below it.
fn make_removable(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    if !is_directory {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    _ = rustix::fs::chmodat(rustix::fs::CWD, path, Mode::RWXU, rustix::fs::AtFlags::empty());
    if rustix::fs::open(path, flags, Mode::empty()).is_err() {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        make_removable(&entry.path());
    }
}

/// The tmpfs, or else the first place where commands can run scripts from their
/// directories.
fn best_place() -> PathBuf {
    let roomy = |found: &rustix::fs::StatFs| found.f_bavail * found.f_bsize as u64 >= ROOM;
    let is_tmpfs = |found: &rustix::fs::StatFs| found.f_type as u64 == TMPFS_MAGIC;
    let has_memory = rustix::fs::statfs(SHARED_MEMORY).is_ok_and(|found| is_tmpfs(&found) && roomy(&found));
    let memory = has_memory.then(|| PathBuf::from(SHARED_MEMORY));
    let mut places = memory.into_iter().chain([std::env::temp_dir(), LARGE_FILES.into()]);
    places.find(|place| is_fit(place)).unwrap_or_else(std::env::temp_dir)
}

/// Whether directories can be created and programs executed there.
fn is_fit(place: &Path) -> bool {
    let may_write = rustix::fs::access(place, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
    let mount = rustix::fs::statvfs(place);
    may_write && mount.is_ok_and(|mount| !mount.f_flag.contains(StatVfsMountFlags::NOEXEC))
}
