//! A shard as a folder of files, which appears under its name only when it is complete.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::io::Errno;
use tarpipe::location;
use tarpipe::run::scratch;
use tarpipe::run::signals;
use tarpipe::sample::Sample;

use crate::tardataset::storage::StorageRefusal;

const PREFIX: &str = ".tarpipe-";

/// Limits of file systems, with room for the path of the folder.
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 3000;

/// A folder being filled under a temporary name. Dropped before [`ShardFolder::finish`], it is removed.
pub struct ShardFolder {
    folder: PathBuf,
    target: PathBuf,
    /// While it is locked, no other run removes the folder as garbage.
    _locked: File,
    finished: bool,
}

impl ShardFolder {
    pub fn create(target: &str) -> Result<Self> {
        let target = PathBuf::from(location::path_of(target));
        let parent = target.parent().unwrap_or(Path::new("."));
        let shard = target.file_name().unwrap_or_default().to_string_lossy();
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        let suffix = format!("-folder-{shard}.tmp");
        scratch::remove_garbage(parent, |name| name.strip_prefix(PREFIX)?.strip_suffix(&suffix));
        let name = |unique: &str| parent.join(format!("{PREFIX}{unique}{suffix}"));
        let (folder, locked) = scratch::create_locked(0o777, name).with_context(|| parent.display().to_string())?;
        Ok(ShardFolder { folder, target, _locked: locked, finished: false })
    }

    /// Why the files of a sample cannot be written here, including the json it will get.
    pub fn refusal(&self, sample: &Sample) -> Option<StorageRefusal> {
        let fields = sample.members.iter().map(|member| member.field.as_str()).chain(["json"]);
        fields.map(|field| format!("{}.{field}", sample.key)).find_map(|name| self.problem_with(&name))
    }

    fn problem_with(&self, name: &str) -> Option<StorageRefusal> {
        if name.len() > LONGEST_PATH || name.split('/').any(|shard| shard.len() > LONGEST_NAME) {
            return Some(("name_long", "its name is too long for a file"));
        }
        match fs::symlink_metadata(self.folder.join(name)) {
            Ok(_) => Some(("exists", "an earlier sample has this name")),
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

    /// Syncs the files and renames the folder. A folder of that name is from a run that did not complete the shard,
    /// and is replaced.
    pub fn finish(mut self) -> Result<()> {
        let explain = || format!("{}: cannot rename the folder to this name", self.target.display());
        // One call for all files. File systems without it have nothing to sync.
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

impl Drop for ShardFolder {
    fn drop(&mut self) {
        if !self.finished {
            _ = fs::remove_dir_all(&self.folder);
            signals::release_path(&self.folder);
        }
    }
}
