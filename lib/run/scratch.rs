//! The directory of a run, in which every sample gets a directory of its own. It is on a tmpfs
//! where there is one with room: files there cost a third of what they cost on a disk.

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

const SHARED_MEMORY: &str = "/dev/shm";
/// Where temporary files may go that are large or kept for long.
const LARGE_FILES: &str = "/var/tmp";
/// The type that statfs gives for a tmpfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Containers get a tmpfs of 64 MB, which a few large samples fill.
const ROOM: u64 = 1 << 30;
/// Where nothing else tells whether its owner lives, a directory is garbage when nothing in it was made or removed for
/// so long. A command may work on one sample for days.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3600);

/// A directory that goes away with everything in it.
pub struct Scratch {
    path: PathBuf,
    handle: File,
    keep: bool,
}

impl Scratch {
    /// Makes the directory in `place`, or where it is best. Before that, what killed runs left
    /// there is removed.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// For calls relative to it.
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// Whether directories stay.
    pub fn keeps(&self) -> bool {
        self.keep
    }

    /// Removes the directory, or says where it is.
    pub fn finish(&self) {
        if self.keep {
            messages::notice(&format!("{}: directories kept", self.path.display()));
            return;
        }
        remove_tree(&self.path);
        signals::release_path(&self.path);
    }
}

/// Makes a temporary directory with these permissions, as [`owner::create`] does.
pub fn create_locked(mode: u32, name: impl Fn(&str) -> PathBuf) -> io::Result<(PathBuf, File)> {
    owner::create(name, |path| {
        fs::DirBuilder::new().mode(mode).create(path)?;
        File::open(path).map_err(|err| match err.kind() {
            // Somebody took it for garbage before it was locked: the next name may last.
            io::ErrorKind::NotFound => io::ErrorKind::AlreadyExists.into(),
            _ => {
                _ = fs::remove_dir(path);
                err
            }
        })
    })
}

/// Removes the directories in `place` that killed runs left behind. `unique` finds the part of a name that
/// [`owner::unique`] made.
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

/// Removes a directory and everything in it, unreadable directories too.
pub fn remove_tree(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        make_removable(path);
        _ = fs::remove_dir_all(path);
    }
}

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

/// The tmpfs, or else the first place where commands may run scripts from their directories.
fn best_place() -> PathBuf {
    let roomy = |found: &rustix::fs::StatFs| found.f_bavail * found.f_bsize as u64 >= ROOM;
    let is_tmpfs = |found: &rustix::fs::StatFs| found.f_type as u64 == TMPFS_MAGIC;
    let has_memory = rustix::fs::statfs(SHARED_MEMORY).is_ok_and(|found| is_tmpfs(&found) && roomy(&found));
    let memory = has_memory.then(|| PathBuf::from(SHARED_MEMORY));
    let mut places = memory.into_iter().chain([std::env::temp_dir(), LARGE_FILES.into()]);
    places.find(|place| is_fit(place)).unwrap_or_else(std::env::temp_dir)
}

/// Whether directories can be made and programs run there.
fn is_fit(place: &Path) -> bool {
    let may_write = rustix::fs::access(place, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
    let mount = rustix::fs::statvfs(place);
    may_write && mount.is_ok_and(|mount| !mount.f_flag.contains(StatVfsMountFlags::NOEXEC))
}
