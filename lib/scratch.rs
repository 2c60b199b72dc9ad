//! The directory of a run, in which every sample gets a directory of its own. It is on a tmpfs
//! where there is one with room: files there cost a third of what they cost on a disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::Pid;

use crate::messages;
use crate::signals;
use crate::sink::host;

const SHARED_MEMORY: &str = "/dev/shm";
/// The type that statfs gives for a tmpfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Containers get a tmpfs of 64 MB, which a few large samples fill.
const ROOM: u64 = 1 << 30;

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
        remove_garbage(&place);
        let path = create_in(&place, keep)?;
        let handle = File::open(&path).with_context(|| path.display().to_string())?;
        // Says that we live. A process of that number on this host says it too.
        _ = rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive);
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

/// Containers may share the place and have the same process numbers, so a name may be taken.
fn create_in(place: &Path, keep: bool) -> Result<PathBuf> {
    let kind = if keep { "kept-" } else { "" };
    let mut number = 0;
    loop {
        let path = place.join(format!("{}-{kind}{}-{}-{number}", messages::tool(), host(), std::process::id()));
        let create = || fs::DirBuilder::new().mode(0o700).create(&path);
        match if keep { create() } else { signals::create_guarded(&path, create) } {
            Ok(()) => return Ok(path),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(err) => return Err(err).with_context(|| path.display().to_string()),
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

fn best_place() -> PathBuf {
    let roomy = |found: &rustix::fs::StatFs| found.f_bavail * found.f_bsize as u64 >= ROOM;
    match rustix::fs::statfs(SHARED_MEMORY) {
        Ok(found) if found.f_type as u64 == TMPFS_MAGIC && roomy(&found) && is_writable(SHARED_MEMORY) => {
            SHARED_MEMORY.into()
        }
        _ => std::env::temp_dir(),
    }
}

fn is_writable(path: &str) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}

/// Removes the directories of runs on this host that were killed.
fn remove_garbage(place: &Path) {
    let prefix = format!("{}-{}-", messages::tool(), host());
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        let pid = rest.and_then(|rest| rest.split('-').next()).and_then(|pid| pid.parse().ok());
        if pid.is_some_and(is_dead) && is_abandoned(&entry.path()) {
            remove_tree(&entry.path());
        }
    }
}

fn is_dead(pid: i32) -> bool {
    if pid as u32 == std::process::id() {
        return true; // whoever had our number before
    }
    let is_gone =
        |pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) || has_ended(pid.as_raw_pid());
    Pid::from_raw(pid).is_some_and(is_gone)
}

/// Whether only its parent has not taken notice yet, which in a container may be never.
fn has_ended(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|state| state.starts_with(['Z', 'X']))
}

/// Ours, and not locked: containers share a host name and a tmpfs, but not process numbers.
fn is_abandoned(path: &Path) -> bool {
    let ours = fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw());
    let Ok(handle) = File::open(path) else { return false };
    ours && rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive).is_ok()
}
