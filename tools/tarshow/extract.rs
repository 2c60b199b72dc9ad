//! Samples as files in a folder. Names come from strangers: every folder on the way is opened from
//! the one above it, no link is followed, nothing is replaced unasked, and a file is whole or not
//! there.

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

use crate::args::Args;
use crate::columns::{Columns, Found, View, text_of};
use crate::flow::{Taken, tell};

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Files written but not yet synced and named: one sync serves them all.
const WAITING_FILES: usize = 256;
const WAITING_BYTES: u64 = 64 << 20;

/// Writes the fields of every sample as files below `folder`.
pub fn extract(args: &Args, folder: &str) -> Result<Tally> {
    let taken = Taken::open(args)?;
    let tally = taken.tally();
    let mut tree = Tree::open(folder, args.force)?;
    for sample in taken {
        let sample = sample?;
        let written = match files(&sample, args.fields.as_ref()) {
            Ok(files) => tree.write(&sample, &files).with_context(|| folder.to_owned())?,
            Err(code) => Err(code),
        };
        match written {
            Ok(()) => tally.add(|tally| tally.done()),
            Err(code) => {
                tell(&sample, code);
                tally.add(|tally| tally.fail(code));
            }
        }
    }
    tree.settle().with_context(|| folder.to_owned())?;
    Ok(tally.take())
}

/// A file's name below the folder, and its bytes.
type File = (String, Vec<u8>);

fn files(sample: &Sample, columns: Option<&Columns>) -> Result<Vec<File>, &'static str> {
    // Two names for one file would be taken for two files.
    let key: Vec<&str> = sample.key.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let path = |field: &str| format!("{}.{field}", key.join("/"));
    let Some(columns) = columns else {
        return Ok(sample.members.iter().map(|member| (path(&member.field), member.data.clone())).collect());
    };
    let view = View::new(sample);
    let mut files = Vec::new();
    for column in &columns.0 {
        let data = match view.find(column)? {
            None => continue,
            Some(Found::Field(member)) => member.data.clone(),
            Some(Found::Value(value)) => text_of(&value).into_bytes(),
        };
        let path = path(&column.name);
        // The name of a column is the user's, but must not lead elsewhere either.
        if member_name::split(path.as_bytes()).is_err() || column.name.contains('/') {
            return Err("name_field");
        }
        files.push((path, data));
    }
    if files.is_empty() { Err("no_field") } else { Ok(files) }
}

/// The folder that is filled.
struct Tree {
    root: Rc<OwnedFd>,
    path: PathBuf,
    force: bool,
    waiting: Vec<Waiting>,
    waiting_names: BTreeSet<String>,
    waiting_bytes: u64,
    /// The last folder that was opened: samples come in runs.
    last: (String, Rc<OwnedFd>),
}

/// A file under a temporary name.
struct Waiting {
    file: Temporary,
    folder: Rc<OwnedFd>,
    name: String,
}

/// An error of the output, or the reason code of a sample that cannot be written.
type Written = Result<Result<(), &'static str>>;

impl Tree {
    /// Opens the folder, which is made where it is missing. It alone may be a link.
    fn open(folder: &str, force: bool) -> Result<Self> {
        let path = PathBuf::from(folder);
        std::fs::create_dir_all(&path).with_context(|| folder.to_owned())?;
        let flags = OPEN.difference(OFlags::NOFOLLOW);
        let root = Rc::new(rustix::fs::open(&path, flags, Mode::empty()).with_context(|| folder.to_owned())?);
        let last = (String::new(), Rc::clone(&root));
        let (waiting, waiting_names) = (Vec::new(), BTreeSet::new());
        Ok(Tree { root, path, force, waiting, waiting_names, waiting_bytes: 0, last })
    }

    /// Writes a sample's files, all or none of them.
    fn write(&mut self, sample: &Sample, files: &[File]) -> Written {
        // What waits is not there yet, and would be missed: a name that comes back, a file where a
        // folder should be.
        if files.iter().any(|(path, _)| ways(path).any(|way| self.waiting_names.contains(way))) {
            self.settle()?;
        }
        let mut places = Vec::new();
        for (path, _) in files {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            match self.folder(folder).and_then(|folder| self.is_free(folder.as_fd(), name).map(|()| folder)) {
                Ok(folder) => places.push((folder, name)),
                Err(err) => return refuse(err),
            }
        }
        for ((path, data), (folder, name)) in files.iter().zip(places) {
            if self.waiting.len() >= WAITING_FILES {
                self.settle()?; // a sample of very many files: descriptors are few
            }
            let mut file = Temporary::create_in(&self.path)?;
            file.write_all(data)?;
            stamp(&file, sample.mtime);
            self.waiting.push(Waiting { file, folder, name: name.to_owned() });
            self.waiting_names.insert(path.clone());
            self.waiting_bytes += data.len() as u64;
        }
        if self.waiting.len() >= WAITING_FILES || self.waiting_bytes >= WAITING_BYTES {
            self.settle()?;
        }
        Ok(Ok(()))
    }

    /// Syncs what waits and gives it its names.
    fn settle(&mut self) -> Result<()> {
        if !self.waiting.is_empty() {
            rustix::fs::syncfs(&self.root)?;
        }
        for Waiting { file, folder, name } in self.waiting.drain(..) {
            // What came into the way since it was looked for is somebody else's doing.
            file.place(folder.as_fd(), &name, self.force).with_context(|| name.clone())?;
        }
        self.waiting_names.clear();
        self.waiting_bytes = 0;
        Ok(())
    }

    /// Opens a folder below the root, making what is missing.
    fn folder(&mut self, path: &str) -> Result<Rc<OwnedFd>, Errno> {
        if self.last.0 != path {
            let mut folder = Rc::clone(&self.root);
            for name in path.split('/').filter(|name| !name.is_empty()) {
                folder = Rc::new(enter(folder.as_fd(), name)?);
            }
            self.last = (path.to_owned(), folder);
        }
        Ok(Rc::clone(&self.last.1))
    }

    /// Whether the name can be given. Where files may be replaced, folders may not.
    fn is_free(&self, folder: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Err(err) => Err(err),
            Ok(_) if !self.force => Err(Errno::EXIST),
            Ok(found) if rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir() => Err(Errno::ISDIR),
            Ok(_) => Ok(()),
        }
    }
}

/// A path, and every folder on the way to it.
fn ways(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

fn enter(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => rustix::fs::openat(parent, name, OPEN, Mode::empty()),
        Err(err) => Err(err),
    }
}

/// What belongs to one sample costs that sample; anything else, such as a full disk, ends the run.
fn refuse(err: Errno) -> Written {
    match err {
        Errno::EXIST => Ok(Err("exists")),
        Errno::LOOP | Errno::NOTDIR | Errno::ISDIR => Ok(Err("in_the_way")),
        Errno::NAMETOOLONG => Ok(Err("name_long")),
        err => Err(anyhow!(err)),
    }
}

/// Gives the file its sample's time. Where that fails it has the present one.
fn stamp(file: &Temporary, mtime: u64) {
    let Ok(tv_sec) = mtime.try_into() else { return };
    let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: keep, last_modification: Timespec { tv_sec, tv_nsec: 0 } };
    _ = rustix::fs::futimens(file.file(), &times);
}
