//! The folder of a run and the layout of its files. Plans and items may contain secrets from the command line, so only their
//! owner can read them.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tarpipe::sink::Temporary;

use crate::shardrun::plan::items::RunItems;
use crate::shardrun::plan::{self, RunPlan};
use crate::shardrun::run::job_log;
use crate::shardrun::run::lock::{self, LockState, RunLock};

/// Parent of the run folders that --run does not name.
const DEFAULT_PARENT: &str = ".shardrun";
const LOCK: &str = "lock";

/// The folder of a run, which need not exist yet.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// The folder for a plan: the named one, or the default folder of this plan.
    pub fn for_plan(named: Option<&Path>, plan: &RunPlan) -> RunFolder {
        let path = named.map_or_else(|| Path::new(DEFAULT_PARENT).join(plan.short_name()), Path::to_owned);
        RunFolder { path }
    }

    /// An existing run: the named one, or the one that was started last in the current folder.
    pub fn find(named: Option<&Path>) -> Result<RunFolder> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => {
                let newest = RunFolder::all().into_iter().max_by_key(RunFolder::last_started);
                newest.context("no run in this folder; name the folder of the run")?.path
            }
        };
        if !path.join("plan.json").is_file() {
            bail!("{}: not a run folder", path.display());
        }
        Ok(RunFolder { path })
    }

    /// The run that a submission belongs to.
    pub fn of_submission(submission: &Path) -> Result<RunFolder> {
        let path = submission.parent().context("not inside a run folder")?;
        RunFolder::find(Some(path))
    }

    /// The same folder by its absolute path, which stays valid when this process changes its folder.
    pub fn absolute(&self) -> Result<RunFolder> {
        let path = fs::canonicalize(&self.path).with_context(|| self.path.display().to_string())?;
        Ok(RunFolder { path })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The plan of the run; None if it has none yet.
    pub fn plan(&self) -> Result<Option<RunPlan>> {
        let path = self.path.join("plan.json");
        match fs::read_to_string(&path) {
            Ok(text) => plan::parse(&text).map(Some).with_context(|| path.display().to_string()),
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
            Err(err) => Err(err).with_context(|| path.display().to_string()),
        }
    }

    /// Stores the plan and the items. If the folder has another plan, `redo` replaces it; otherwise this fails.
    pub fn freeze(&self, plan: &RunPlan, items: &RunItems, redo: bool) -> Result<()> {
        if let Some(earlier) = self.plan()? {
            if earlier == *plan {
                return Ok(());
            }
            if !redo {
                return plan.check_same(&earlier).with_context(|| self.path.display().to_string());
            }
            self.remove_state()?;
        }
        self.create_inside("log")?;
        if let RunItems::Names(names) = items {
            self.write("items", &(names.join("\n") + "\n"))?;
        }
        self.write_json("plan.json", plan)
    }

    /// Removes the files of an earlier plan.
    fn remove_state(&self) -> Result<()> {
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
    pub fn items(&self, plan: &RunPlan) -> Result<RunItems> {
        if plan.numbers {
            return Ok(RunItems::Numbers(plan.count));
        }
        let path = self.path.join("items");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(RunItems::Names(text.lines().map(str::to_owned).collect()))
    }

    /// Creates the folder itself. An existing folder keeps its permissions.
    fn create(&self) -> Result<()> {
        let parent = self.path.parent().unwrap_or(&self.path);
        let made = fs::create_dir_all(parent).and_then(|()| create_private(&self.path));
        match made {
            Err(err) if err.kind() == ErrorKind::AlreadyExists && self.path.is_dir() => Ok(()),
            made => made.with_context(|| self.path.display().to_string()),
        }
    }

    /// Creates a folder inside.
    pub fn create_inside(&self, name: &str) -> Result<PathBuf> {
        self.create()?;
        let path = self.path.join(name);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Writes a small file atomically, readable by its owner only.
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

    /// Reads a value; None if the file does not exist.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path.join(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(err).with_context(|| path.display().to_string()),
        };
        serde_json::from_str(&text).map(Some).with_context(|| path.display().to_string())
    }

    /// The file with the stderr of an item.
    pub fn stderr(&self, index: u64) -> PathBuf {
        self.path.join("stderr").join(format!("{:03}", index / 1000)).join(format!("{index:06}"))
    }

    /// Records the start of an item. It is a single small write, so that readers see whole lines.
    pub fn record_start(&self, index: u64) -> Result<()> {
        let path = self.path.join("started");
        let file = fs::OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(format!("{index} {:.3}\n", job_log::now()).as_bytes()));
        written.with_context(|| path.display().to_string())
    }

    /// Creates the folder of the next submission.
    pub fn create_submission(&self) -> Result<PathBuf> {
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

    /// The folders of all submissions, oldest first.
    pub fn submissions(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_submission =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("submit-"));
        let mut paths: Vec<PathBuf> = entries.filter(is_submission).collect();
        paths.sort();
        paths
    }

    /// Creates the folder if necessary and locks the run for this process.
    pub fn lock(&self) -> Result<RunLock> {
        self.create()?;
        let folder = self.absolute()?;
        match RunLock::acquire(&folder.path.join(LOCK))? {
            Ok(lock) => Ok(lock),
            Err(holder) => {
                bail!("{}: another shardrun is working on this run ({})", folder.path.display(), holder.describe())
            }
        }
    }

    /// Whether a process is working on this run, and which.
    pub fn lock_state(&self) -> Result<LockState> {
        lock::inspect(&self.path.join(LOCK))
    }

    /// All runs in the current folder that --run did not name.
    pub fn all() -> Vec<RunFolder> {
        let runs =
            fs::read_dir(DEFAULT_PARENT).into_iter().flatten().flatten().map(|entry| RunFolder { path: entry.path() });
        runs.filter(|run| run.path.join("plan.json").is_file()).collect()
    }

    /// When the run was last started, on any engine.
    fn last_started(&self) -> Option<SystemTime> {
        let modified = |name: &&str| fs::metadata(self.path.join(name)).and_then(|found| found.modified()).ok();
        [LOCK, "settings.json"].iter().filter_map(modified).max()
    }
}

fn create_private(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}
