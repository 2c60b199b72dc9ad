//! One submission of a run to an engine: what was handed over, and under which names the engine knows it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::bundle;
use crate::folder::Folder;
use crate::job::Job;
use crate::plan::Plan;
use crate::settings::Engine;

/// The file that marks a submission whose tasks have all ended.
const OVER: &str = "over";

/// A part of the tasks that the engine knows by one name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The engine's name for it.
    pub id: String,
    /// The first of its tasks.
    pub first: usize,
    /// How many tasks it has.
    pub tasks: usize,
}

/// What is kept of a submission.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// Which engine.
    pub engine: Engine,
    /// What it was handed.
    pub parts: Vec<Part>,
    /// What no other submission has, on any machine: a random word in all names that the engine is given.
    #[serde(default)]
    pub identity: String,
    /// Whether it is still being handed over, by a process that holds the run's lock or has died.
    #[serde(default)]
    pub unfinished: bool,
    /// Whether its tasks are steps of one allocation, on Slurm.
    #[serde(default)]
    pub interactive: bool,
    /// Another cluster of the site that the tasks were sent to by -M, on Slurm.
    #[serde(default)]
    pub remote: Option<String>,
    /// The cluster, on Slurm by its name, on Kubernetes by kubectl's context.
    #[serde(default)]
    pub cluster: Option<String>,
    /// The namespace, on Kubernetes.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Its folder.
    #[serde(skip)]
    pub path: PathBuf,
}

/// What an engine says about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It will run.
    Waiting,
    /// It runs.
    Running,
    /// It has ended, as the engine calls it.
    Ended(String),
}

/// What an engine says about all tasks of a submission that it knows.
pub type TaskStates = HashMap<usize, TaskState>;

impl Submission {
    /// Makes the folder of a new submission, with its bundles.
    pub fn create(job: &Job, engine: Engine) -> Result<Self> {
        let path = job.folder.absolute()?.submission()?;
        bundle::write(&path, &job.head, &job.items, &job.todo, job.settings.chunk)?;
        Ok(Submission { engine, identity: identity()?, path, ..Submission::sketch(job) })
    }

    /// A submission that is only shown.
    pub fn sketch(job: &Job) -> Self {
        Submission {
            engine: job.settings.on,
            parts: Vec::new(),
            identity: "ID".into(),
            unfinished: false,
            interactive: job.settings.interactive,
            remote: None,
            cluster: None,
            namespace: None,
            path: job.folder.path().join("submit-NNN"),
        }
    }

    /// The start of all names that the engine is given.
    pub fn name(&self, plan: &Plan) -> String {
        format!("shardrun-{}-{}", plan.short_name(), self.identity)
    }

    /// Whether its engine was seen to have ended it.
    pub fn is_over(&self) -> bool {
        self.path.join(OVER).exists()
    }

    /// Notes that the engine has ended it, so that nobody has to ask again.
    pub fn set_over(&self) -> Result<()> {
        let path = self.path.join(OVER);
        std::fs::write(&path, "").with_context(|| path.display().to_string())
    }

    /// Notes what has been handed over so far.
    pub fn save(&self) -> Result<()> {
        let path = self.path.join("engine.json");
        tarpipe::sink::write_text(&path.to_string_lossy(), &(serde_json::to_string(self)? + "\n"))
    }

    /// All submissions of a run that were handed over.
    pub fn all(folder: &Folder) -> Result<Vec<Submission>> {
        let folders = folder.submissions().into_iter();
        folders.filter(|path| path.join("engine.json").is_file()).map(|path| Submission::open(&path)).collect()
    }

    fn open(path: &Path) -> Result<Submission> {
        let file = path.join("engine.json");
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let submission: Submission = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        // Absolute, as engines were given it.
        let path = std::fs::canonicalize(path).with_context(|| path.display().to_string())?;
        Ok(Submission { path, ..submission })
    }

    /// The names of all parts that the engine has, joined by commas.
    pub fn ids(&self) -> String {
        let ids = self.parts.iter().map(|part| part.id.as_str()).filter(|id| !id.is_empty());
        ids.collect::<Vec<_>>().join(",")
    }

    /// The task that the engine calls number `index` of part `id`.
    pub fn task(&self, id: &str, index: usize) -> Option<usize> {
        self.parts.iter().find(|part| part.id == id).map(|part| part.first + index)
    }

    /// The task that an item is part of.
    pub fn task_of(&self, item: u64) -> Option<usize> {
        let mut found = None;
        let look = |task, items: &bundle::Task| {
            if items.iter().any(|(index, _)| *index == item) {
                found = Some(task);
            }
        };
        bundle::each(&self.path, look).ok()?;
        found
    }
}

/// Ten random hexadecimal digits: names of pods have room for no more.
fn identity() -> Result<String> {
    let mut bytes = [0; 5];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("/dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
