//! A shard as a folder of files, which appears under its name only when it is whole.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::io::Errno;
use tarpipe::sample::Sample;
use tarpipe::sink::host;
use tarpipe::{signals, source};

use crate::body::Refusal;

/// What file systems take, with room for where the folder is.
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 3000;

/// A folder on its way. Dropped before [`Files::finish`], it is removed.
pub struct Files {
    folder: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl Files {
    pub fn create(target: &str) -> Result<Self> {
        let target = PathBuf::from(source::path_of(target));
        let parent = target.parent().unwrap_or(Path::new("."));
        let shard = target.file_name().unwrap_or_default().to_string_lossy();
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        remove_garbage(parent, &shard);
        let folder = parent.join(format!("{}{}-folder-{shard}.tmp", prefix(), std::process::id()));
        let create = || fs::create_dir(&folder);
        signals::create_guarded(&folder, create).with_context(|| folder.display().to_string())?;
        Ok(Files { folder, target, finished: false })
    }

    /// Why the files of a sample cannot stand here, or those that it gets beside its own.
    pub fn refusal(&self, sample: &Sample) -> Option<Refusal> {
        let fields = sample.members.iter().map(|member| member.field.as_str()).chain(["json"]);
        fields.map(|field| format!("{}.{field}", sample.key)).find_map(|name| self.wrong_with(&name))
    }

    fn wrong_with(&self, name: &str) -> Option<Refusal> {
        if name.len() > LONGEST_PATH || name.split('/').any(|part| part.len() > LONGEST_NAME) {
            return Some(("name_long", "its name is too long for a file"));
        }
        match fs::symlink_metadata(self.folder.join(name)) {
            Ok(_) => Some(("exists", "a sample before it has this name")),
            Err(err) if err.kind() == ErrorKind::NotADirectory => {
                Some(("in_the_way", "a file has the name of its folder"))
            }
            Err(_) => None,
        }
    }

    pub fn write(&mut self, sample: &Sample) -> Result<()> {
        for member in &sample.members {
            let path = self.folder.join(format!("{}.{}", sample.key, member.field));
            let write = || {
                fs::create_dir_all(path.parent().unwrap_or(&path))?;
                fs::write(&path, &member.data)
            };
            write().with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Syncs the files and gives the folder its name. One that is there is of a run that did not finish it.
    pub fn finish(mut self) -> Result<()> {
        let explain = || format!("{}: cannot put the folder in its place", self.target.display());
        // One call for all files; a file system without it is none that could lose them.
        let folder = File::open(&self.folder).with_context(explain)?;
        match rustix::fs::syncfs(&folder) {
            Err(Errno::NOSYS | Errno::INVAL) => {}
            synced => synced.with_context(explain)?,
        }
        if self.target.exists() {
            fs::remove_dir_all(&self.target).with_context(explain)?;
        }
        fs::rename(&self.folder, &self.target).with_context(explain)?;
        self.finished = true;
        signals::release_path(&self.folder);
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if !self.finished {
            _ = fs::remove_dir_all(&self.folder);
            signals::release_path(&self.folder);
        }
    }
}

fn prefix() -> String {
    format!(".tarpipe-{}-", host())
}

/// Removes what processes of this host that are no more have left of the shard.
fn remove_garbage(parent: &Path, shard: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(&prefix()).and_then(|rest| rest.strip_suffix(&format!("-folder-{shard}.tmp")));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            _ = fs::remove_dir_all(entry.path());
        }
    }
}
