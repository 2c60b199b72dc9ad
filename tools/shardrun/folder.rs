//! The folder of a run and what stands where in it. Plans and items hold what was written, with the secrets in it: they
//! are for their owner alone.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tarpipe::sink::Temporary;

use crate::items::Items;
use crate::joblog;
use crate::lock::{self, Held, RunLock};
use crate::plan::{self, Plan};

/// Where runs are kept that were given no folder.
const HOME: &str = ".shardrun";
const LOCK: &str = "lock";

/// A run folder.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder for a plan: the one that was named, else one that only this plan has.
    pub fn for_plan(named: Option<&Path>, plan: &Plan) -> Folder {
        let path = named.map_or_else(|| Path::new(HOME).join(plan.short_name()), Path::to_owned);
        Folder { path }
    }

    /// A folder that holds a run; without a name the one that was used last here.
    pub fn find(named: Option<&Path>) -> Result<Folder> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => {
                let newest = Folder::all().into_iter().max_by_key(Folder::used);
                newest.context("there is no run in this folder: name its folder")?.path
            }
        };
        if !path.join("plan.json").is_file() {
            bail!("{}: there is no run in this folder", path.display());
        }
        Ok(Folder { path })
    }

    /// The folder that a submission is in.
    pub fn of_submission(submission: &Path) -> Result<Folder> {
        let path = submission.parent().context("a submission is inside of a run folder")?;
        Folder::find(Some(path))
    }

    /// The same folder, wherever this process goes.
    pub fn absolute(&self) -> Result<Folder> {
        let path = fs::canonicalize(&self.path).with_context(|| self.path.display().to_string())?;
        Ok(Folder { path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The plan that was frozen here, if there is one.
    pub fn plan(&self) -> Result<Option<Plan>> {
        let path = self.path.join("plan.json");
        match fs::read_to_string(&path) {
            Ok(text) => plan::parse(&text).map(Some).with_context(|| path.display().to_string()),
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
            Err(err) => Err(err).with_context(|| path.display().to_string()),
        }
    }

    /// Freezes a plan, or checks it against the one that is here. `redo` forgets an earlier one.
    pub fn freeze(&self, plan: &Plan, items: &Items, redo: bool) -> Result<()> {
        if let Some(earlier) = self.plan()? {
            if earlier == *plan {
                return Ok(());
            }
            if !redo {
                return plan.check_same(&earlier).with_context(|| self.path.display().to_string());
            }
            self.forget()?;
        }
        self.make("log")?;
        if let Items::Names(names) = items {
            self.write("items", &(names.join("\n") + "\n"))?;
        }
        self.write_json("plan.json", plan)
    }

    /// Takes away what an earlier plan left.
    fn forget(&self) -> Result<()> {
        for name in ["log", "stderr", "started", "items"] {
            let path = self.path.join(name);
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            if let Err(err) = removed
                && err.kind() != ErrorKind::NotFound
            {
                return Err(err).with_context(|| path.display().to_string());
            }
        }
        Ok(())
    }

    /// The items of the plan.
    pub fn items(&self, plan: &Plan) -> Result<Items> {
        if plan.numbers {
            return Ok(Items::Numbers(plan.count));
        }
        let path = self.path.join("items");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Items::Names(text.lines().map(str::to_owned).collect()))
    }

    /// Makes the folder itself. One that is there keeps its mode.
    fn create(&self) -> Result<()> {
        let parent = self.path.parent().unwrap_or(&self.path);
        let made = fs::create_dir_all(parent).and_then(|()| create_private(&self.path));
        match made {
            Err(err) if err.kind() == ErrorKind::AlreadyExists && self.path.is_dir() => Ok(()),
            made => made.with_context(|| self.path.display().to_string()),
        }
    }

    /// Makes a folder inside.
    pub fn make(&self, name: &str) -> Result<PathBuf> {
        self.create()?;
        let path = self.path.join(name);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Writes a small file, whole or not at all, for its owner alone.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        let write = || {
            let mut file = Temporary::create(&path)?;
            file.file().set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(text.as_bytes())?;
            file.commit()
        };
        write().with_context(|| path.display().to_string())
    }

    /// Writes a value as one line of JSON.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.write(name, &(serde_json::to_string(value)? + "\n"))
    }

    /// Reads a value; None where there is none.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path.join(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(err).with_context(|| path.display().to_string()),
        };
        serde_json::from_str(&text).map(Some).with_context(|| path.display().to_string())
    }

    /// Where an item's stderr goes.
    pub fn stderr(&self, index: u64) -> PathBuf {
        self.path.join("stderr").join(format!("{:03}", index / 1000)).join(format!("{index:06}"))
    }

    /// Notes that an item begins, in one small write, so that readers see whole lines.
    pub fn note_start(&self, index: u64) -> Result<()> {
        let path = self.path.join("started");
        let file = fs::OpenOptions::new().create(true).append(true).open(&path);
        let noted = file.and_then(|mut file| file.write_all(format!("{index} {:.3}\n", joblog::now()).as_bytes()));
        noted.with_context(|| path.display().to_string())
    }

    /// The next submission's folder, newly made.
    pub fn submission(&self) -> Result<PathBuf> {
        self.create()?;
        for number in 0..10_000 {
            let path = self.path.join(format!("submit-{number:03}"));
            match create_private(&path) {
                Ok(()) => return Ok(path),
                Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
                Err(err) => return Err(err).with_context(|| path.display().to_string()),
            }
        }
        bail!("{}: too many submissions", self.path.display())
    }

    /// All submissions, oldest first.
    pub fn submissions(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_one =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("submit-"));
        let mut paths: Vec<PathBuf> = entries.filter(is_one).collect();
        paths.sort();
        paths
    }

    /// Makes the folder if need be and locks the run for this process.
    pub fn lock(&self) -> Result<RunLock> {
        self.create()?;
        let folder = self.absolute()?;
        match RunLock::take(&folder.path.join(LOCK))? {
            Ok(lock) => Ok(lock),
            Err(holder) => {
                bail!("{}: another shardrun is at work on this run ({})", folder.path.display(), holder.describe())
            }
        }
    }

    /// The process at work on this run.
    pub fn holder(&self) -> Result<Held> {
        lock::look(&self.path.join(LOCK))
    }

    /// All runs that were given no folder of their own.
    pub fn all() -> Vec<Folder> {
        let runs = fs::read_dir(HOME).into_iter().flatten().flatten().map(|entry| Folder { path: entry.path() });
        runs.filter(|run| run.path.join("plan.json").is_file()).collect()
    }

    /// When the run was started last, on whatever engine.
    fn used(&self) -> Option<SystemTime> {
        let modified = |name: &&str| fs::metadata(self.path.join(name)).and_then(|found| found.modified()).ok();
        [LOCK, "settings.json"].iter().filter_map(modified).max()
    }
}

fn create_private(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}
