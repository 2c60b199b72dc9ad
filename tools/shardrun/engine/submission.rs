//! One submission of a run to an engine: its tasks, and the names by which the engine knows them.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::shardrun::engine::{self, Engine};
use crate::shardrun::plan::RunPlan;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::ItemStatus;
use crate::shardrun::run::pending::PendingRun;
use crate::shardrun::settings::EngineKind;
use crate::shardrun::task::bundle;

/// File that marks a submission whose tasks have all ended.
const OVER: &str = "over";

/// Consecutive tasks that the engine knows by one name, such as a job array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubmissionPart {
    /// The engine's name for the part.
    pub id: String,
    /// First task.
    pub first: usize,
    /// Number of tasks.
    pub tasks: usize,
}

/// A submission, as `engine.json` describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// The engine.
    pub engine: EngineKind,
    /// The submitted parts.
    pub parts: Vec<SubmissionPart>,
    /// Random text, part of all names given to the engine, which makes them unique across machines.
    #[serde(default)]
    pub identity: String,
    /// Whether the submission is incomplete: its process holds the run's lock, or has died.
    #[serde(default)]
    pub unfinished: bool,
    /// Slurm: whether the tasks are steps of one allocation.
    #[serde(default)]
    pub interactive: bool,
    /// Slurm: the cluster that the tasks were sent to by -M.
    #[serde(default)]
    pub remote: Option<String>,
    /// The cluster: its name in Slurm, or kubectl's context.
    #[serde(default)]
    pub cluster: Option<String>,
    /// Kubernetes: the namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Folder of the submission.
    #[serde(skip)]
    pub path: PathBuf,
}

/// How tasks end that leave their unfinished items to run later; after any other end, such items are lost.
const CLEAN_ENDS: [&str; 5] = ["completed", "cancelled", "preempted", "succeeded", "revoked"];

/// What the engine reports of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// Left if the task waits, Failed if the engine ended it. Done says nothing about its items.
    pub status: ItemStatus,
    /// The engine's word for how it ended.
    pub how: String,
}

/// The reports on the tasks that the engine knows, by number.
pub type TaskReports = HashMap<usize, TaskReport>;

impl TaskReport {
    /// A task that has not ended.
    pub fn open(status: ItemStatus) -> Self {
        TaskReport { status, how: String::new() }
    }

    /// A task that has ended; the engine's word for how, in any case.
    pub fn ended(how: &str) -> Self {
        let how = how.to_ascii_lowercase();
        let status = if CLEAN_ENDS.contains(&how.as_str()) { ItemStatus::Done } else { ItemStatus::Failed };
        TaskReport { status, how }
    }
}

impl Submission {
    /// Creates the folder of a new submission and its bundles.
    pub fn create(pending: &PendingRun) -> Result<Self> {
        let path = pending.folder.absolute()?.create_submission()?;
        bundle::write(&path, &pending.spec, &pending.items, &pending.todo, pending.settings.chunk)?;
        Ok(Submission { identity: identity()?, path, ..Submission::for_dry_run(pending) })
    }

    /// A submission for a dry run, without a folder.
    pub fn for_dry_run(pending: &PendingRun) -> Self {
        Submission {
            engine: pending.settings.on,
            parts: Vec::new(),
            identity: "ID".into(),
            unfinished: false,
            interactive: pending.settings.interactive,
            remote: None,
            cluster: None,
            namespace: None,
            path: pending.folder.path().join("submit-NNN"),
        }
    }

    /// The engine.
    pub fn engine(&self) -> &'static dyn Engine {
        engine::of(self.engine)
    }

    /// Whether it has a driver that is alive or about to start.
    pub fn is_driven(&self) -> bool {
        self.engine().is_driven(self)
    }

    /// The prefix of all names given to the engine.
    pub fn name(&self, plan: &RunPlan) -> String {
        format!("shardrun-{}-{}", plan.short_name(), self.identity)
    }

    /// Whether all tasks are known to have ended.
    pub fn is_over(&self) -> bool {
        self.path.join(OVER).exists()
    }

    /// Records that all tasks have ended, so that the engine is not queried again.
    pub fn set_over(&self) -> Result<()> {
        let path = self.path.join(OVER);
        std::fs::write(&path, "").with_context(|| path.display().to_string())
    }

    /// Saves the state of the submission.
    pub fn save(&self) -> Result<()> {
        let path = self.path.join("engine.json");
        tarpipe::sink::write_text(&path.to_string_lossy(), &(serde_json::to_string(self)? + "\n"))
    }

    /// All submissions of a run that reached an engine, oldest first.
    pub fn all(folder: &RunFolder) -> Result<Vec<Submission>> {
        let folders = folder.submissions().into_iter();
        folders.filter(|path| path.join("engine.json").is_file()).map(|path| Submission::open(&path)).collect()
    }

    fn open(path: &Path) -> Result<Submission> {
        let file = path.join("engine.json");
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let submission: Submission = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        // Engines were given the absolute path.
        let path = std::fs::canonicalize(path).with_context(|| path.display().to_string())?;
        Ok(Submission { path, ..submission })
    }

    /// The names of all submitted parts, joined by commas.
    pub fn ids(&self) -> String {
        let ids = self.parts.iter().map(|part| part.id.as_str()).filter(|id| !id.is_empty());
        ids.collect::<Vec<_>>().join(",")
    }

    /// The task that is number `index` of the part `id`.
    pub fn task(&self, id: &str, index: usize) -> Option<usize> {
        self.parts.iter().find(|part| part.id == id).map(|part| part.first + index)
    }

    /// The task that contains an item.
    pub fn task_of(&self, item: u64) -> Option<usize> {
        let mut found = None;
        let find = |task, items: &bundle::TaskItems| {
            if items.iter().any(|(index, _)| *index == item) {
                found = Some(task);
            }
        };
        bundle::each_task(&self.path, find).ok()?;
        found
    }
}

/// Ten random hexadecimal digits: longer names would not fit a pod.
fn identity() -> Result<String> {
    let mut bytes = [0; 5];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("/dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
