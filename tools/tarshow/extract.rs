//! Extracts samples as files into a folder. Names in archives are untrusted: every subfolder is opened relative to its
//! parent, no link is followed, nothing is replaced unless asked, and a file appears only when it is complete.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use tarpipe::sample::Sample;
use tarpipe::sample::member_name;
use tarpipe::sink::Temporary;
use tarpipe::tally::Tally;

use crate::tarshow::args::Args;
use crate::tarshow::columns::{FieldColumns, FoundValue, SampleValues, text_of};
use crate::tarshow::samples::{SelectedSamples, leave_out};

const OPEN_FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Files that are written but not yet synced and renamed; one sync serves them all.
const PENDING_FILES: usize = 256;
const PENDING_BYTES: u64 = 64 << 20;

/// Writes the fields of every sample as files below `folder`.
pub fn extract(args: &Args, folder: &str) -> Result<Tally> {
    let samples = SelectedSamples::open(args)?;
    let tally = samples.tally();
    let mut tree = OutputTree::open(folder, args.force)?;
    for sample in samples {
        let sample = sample?;
        let written = match files(&sample, args.fields.as_ref()) {
            Ok(files) => tree.write(&sample, &files).with_context(|| folder.to_owned())?,
            Err(code) => Err(code),
        };
        match written {
            Ok(()) => tally.add(|tally| tally.done()),
            Err(code) => tally.add(|tally| leave_out(tally, &sample, code)),
        }
    }
    tree.publish_pending().with_context(|| folder.to_owned())?;
    Ok(tally.take())
}

/// A file name below the folder, and its content.
type NamedFile = (String, Vec<u8>);

fn files(sample: &Sample, columns: Option<&FieldColumns>) -> Result<Vec<NamedFile>, &'static str> {
    // Normalise the key: two spellings of one path would pass for two files.
    let key: Vec<&str> = sample.key.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let path = |field: &str| format!("{}.{field}", key.join("/"));
    let Some(columns) = columns else {
        return Ok(sample.members.iter().map(|member| (path(&member.field), member.data.clone())).collect());
    };
    let values = SampleValues::new(sample);
    let mut files = Vec::new();
    for column in &columns.0 {
        let data = match values.find(column)? {
            None => continue,
            Some(FoundValue::Field(member)) => member.data.clone(),
            Some(FoundValue::Value(value)) => text_of(&value).into_bytes(),
        };
        let path = path(&column.name);
        // The user chose the column name, but it must not leave the folder either.
        if member_name::split(path.as_bytes()).is_err() || column.name.contains('/') {
            return Err("name_field");
        }
        files.push((path, data));
    }
    if files.is_empty() { Err("no_field") } else { Ok(files) }
}

/// The folder to fill.
struct OutputTree {
    root: Rc<OwnedFd>,
    path: PathBuf,
    force: bool,
    pending: Vec<PendingFile>,
    pending_names: BTreeSet<String>,
    pending_bytes: u64,
    /// The last folder opened; consecutive samples often share it.
    last: (String, Rc<OwnedFd>),
}

/// A complete file under a temporary name.
struct PendingFile {
    file: Temporary,
    folder: Rc<OwnedFd>,
    name: String,
}

/// The outer error ends the run; the inner one is the reason code of a failed sample.
type WriteResult = Result<Result<(), &'static str>>;

impl OutputTree {
    /// Opens the folder, or creates it. Only the folder itself may be a link.
    fn open(folder: &str, force: bool) -> Result<Self> {
        let path = PathBuf::from(folder);
        std::fs::create_dir_all(&path).with_context(|| folder.to_owned())?;
        let flags = OPEN_FOLDER.difference(OFlags::NOFOLLOW);
        let root = Rc::new(rustix::fs::open(&path, flags, Mode::empty()).with_context(|| folder.to_owned())?);
        let last = (String::new(), Rc::clone(&root));
        let (pending, pending_names) = (Vec::new(), BTreeSet::new());
        Ok(OutputTree { root, path, force, pending, pending_names, pending_bytes: 0, last })
    }

    /// Writes all files of a sample, or none of them.
    fn write(&mut self, sample: &Sample, files: &[NamedFile]) -> WriteResult {
        // Pending files do not exist yet. If one has a name in these paths, publish it first, so that the check below
        // sees it.
        if files.iter().any(|(path, _)| prefixes(path).any(|prefix| self.pending_names.contains(prefix))) {
            self.publish_pending()?;
        }
        let mut targets = Vec::new();
        for (path, _) in files {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            match self.folder(folder).and_then(|folder| self.check_free(folder.as_fd(), name).map(|()| folder)) {
                Ok(folder) => targets.push((folder, name)),
                Err(err) => return as_reason_code(err),
            }
        }
        for ((path, data), (folder, name)) in files.iter().zip(targets) {
            if self.pending.len() >= PENDING_FILES {
                self.publish_pending()?; // one sample with very many files must not exhaust file descriptors
            }
            let mut file = Temporary::create_in(&self.path)?;
            file.write_all(data)?;
            set_mtime(&file, sample.mtime);
            self.pending.push(PendingFile { file, folder, name: name.to_owned() });
            self.pending_names.insert(path.clone());
            self.pending_bytes += data.len() as u64;
        }
        if self.pending.len() >= PENDING_FILES || self.pending_bytes >= PENDING_BYTES {
            self.publish_pending()?;
        }
        Ok(Ok(()))
    }

    /// Syncs pending files and gives them their names.
    fn publish_pending(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            rustix::fs::syncfs(&self.root)?;
        }
        for PendingFile { file, folder, name } in self.pending.drain(..) {
            // A conflict now means that another process has created the file, which is an error.
            file.place(folder.as_fd(), &name, self.force).with_context(|| name.clone())?;
        }
        self.pending_names.clear();
        self.pending_bytes = 0;
        Ok(())
    }

    /// Opens a folder below the root; creates missing ones.
    fn folder(&mut self, path: &str) -> Result<Rc<OwnedFd>, Errno> {
        if self.last.0 != path {
            let mut folder = Rc::clone(&self.root);
            for name in path.split('/').filter(|name| !name.is_empty()) {
                folder = Rc::new(open_or_create(folder.as_fd(), name)?);
            }
            self.last = (path.to_owned(), folder);
        }
        Ok(Rc::clone(&self.last.1))
    }

    /// Checks that a file can get this name. With --force files may be replaced, but folders may not.
    fn check_free(&self, folder: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Err(err) => Err(err),
            Ok(_) if !self.force => Err(Errno::EXIST),
            Ok(found) if rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir() => Err(Errno::ISDIR),
            Ok(_) => Ok(()),
        }
    }
}

/// All parent folders of a path, and the path itself.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

fn open_or_create(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => rustix::fs::openat(parent, name, OPEN_FOLDER, Mode::empty()),
        Err(err) => Err(err),
    }
}

/// Errors that concern a single sample become its reason code; others, such as a full disk, end the run.
fn as_reason_code(err: Errno) -> WriteResult {
    match err {
        Errno::EXIST => Ok(Err("exists")),
        Errno::LOOP | Errno::NOTDIR | Errno::ISDIR => Ok(Err("in_the_way")),
        Errno::NAMETOOLONG => Ok(Err("name_long")),
        err => Err(anyhow!(err)),
    }
}

/// Sets the modification time of the sample; on failure the file keeps the current time.
fn set_mtime(file: &Temporary, mtime: u64) {
    let Ok(tv_sec) = mtime.try_into() else { return };
    let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: keep, last_modification: Timespec { tv_sec, tv_nsec: 0 } };
    _ = rustix::fs::futimens(file.file(), &times);
}
