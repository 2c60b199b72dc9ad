//! What is to be run now: a plan, a run folder, and the items that are not done.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::done;
use crate::engine::{self, Submission};
use crate::flags::Args;
use crate::folder::Folder;
use crate::item::Head;
use crate::items::{Items, Wanted};
use crate::joblog;
use crate::lock::RunLock;
use crate::plan::{self, Plan};
use crate::settings::{Engine, Settings, use_endpoint};
use crate::survey::{Standing, Survey};

/// A run about to start.
pub struct Job {
    /// Where it is kept.
    pub folder: Folder,
    /// What workers have to know.
    pub head: Head,
    /// All items.
    pub items: Arc<Items>,
    /// The numbers of those that are to be run.
    pub todo: Vec<u64>,
    /// The engine and its flags.
    pub settings: Settings,
    /// Keeps others from starting the same run; dropped once the engine has everything. None for a dry run.
    pub lock: Option<RunLock>,
    /// An earlier submission of this run that its engine still works on.
    pub live: Option<Submission>,
    /// Whether items that have ended are to run again, which a live submission does not do.
    pub repeats: bool,
}

impl Job {
    /// Plans what the flags ask for, and locks the run unless it is a dry run. The plan is not written yet.
    pub fn plan(args: &Args) -> Result<Self> {
        let items = Items::find(&Wanted {
            number: args.number,
            names: &args.items,
            files_from: &args.files_from,
            shards_of: &args.shards_of,
            rows_per_shard: args.rows_per_shard,
        })?;
        let plan = Plan {
            shardrun: env!("CARGO_PKG_VERSION").into(),
            pipeline: args.pipeline.clone().unwrap_or_default(),
            output: args.output.clone(),
            also: args.also.clone(),
            count: items.count(),
            numbers: matches!(items, Items::Numbers(_)),
            sha256: plan::digest(&items),
            cwd: cwd(args)?,
            remote: args.settings.on == Engine::K8s,
        };
        plan.templates()?.check(&items)?;
        let folder = Folder::for_plan(args.run.as_deref(), &plan);
        let lock = if args.dry_run { None } else { Some(folder.lock()?) };
        // Before the items are counted: it collects results that only the engine has.
        let live = if args.dry_run { None } else { engine::live(&folder)? };
        let todo = if args.redo { (0..items.count()).collect() } else { todo(&folder, &plan, &items)? };
        let job = Job::new(folder, plan, items, todo, args.settings.clone(), args.redo);
        Ok(Job { lock, live, repeats: args.redo, ..job })
    }

    /// The same as the last time, for what is not done: all of it, or what failed.
    pub fn again(dir: Option<&Path>, failed: bool) -> Result<Self> {
        let folder = Folder::find(dir)?;
        let plan = folder.plan()?.context("there is no plan")?;
        let items = folder.items(&plan)?;
        let settings: Settings = folder.read_json("settings.json")?.context("this run was never started")?;
        use_endpoint(settings.endpoint.as_deref());
        let lock = Some(folder.lock()?);
        let live = engine::live(&folder)?;
        let todo = match failed {
            true => Survey::take(&folder)?.which(Standing::Failed).collect(),
            false => todo(&folder, &plan, &items)?,
        };
        Ok(Job { lock, live, repeats: failed, ..Job::new(folder, plan, items, todo, settings, false) })
    }

    fn new(folder: Folder, plan: Plan, items: Items, todo: Vec<u64>, settings: Settings, redo: bool) -> Self {
        let limits = settings.limits(redo, todo.len() as u64);
        let head = Head { plan, limits };
        Job { folder, head, items: Arc::new(items), todo, settings, lock: None, live: None, repeats: redo }
    }

    /// Writes the plan down, or checks it against the one that is there. A live run keeps what it was started with.
    pub fn freeze(&self, redo: bool) -> Result<()> {
        if self.live.is_some() {
            return Ok(());
        }
        self.folder.freeze(&self.head.plan, &self.items, redo)?;
        self.folder.write_json("settings.json", &self.settings)
    }
}

/// Where pipelines run. In a container it is the image that knows.
fn cwd(args: &Args) -> Result<Option<String>> {
    let here = match &args.chdir {
        Some(folder) if args.settings.on == Engine::K8s => return Ok(Some(folder.to_string_lossy().into_owned())),
        Some(folder) => std::fs::canonicalize(folder).with_context(|| folder.display().to_string())?,
        None if args.settings.on == Engine::K8s => return Ok(None),
        None => std::env::current_dir()?,
    };
    Ok(Some(here.to_string_lossy().into_owned()))
}

/// The items that are not done.
fn todo(folder: &Folder, plan: &Plan, items: &Items) -> Result<Vec<u64>> {
    let marked = match folder.path().join("log").is_dir() {
        true => joblog::marked(folder, items.count())?,
        false => Vec::new(),
    };
    let done = done::find(plan, items, |index| marked.get(index as usize).is_some_and(|&done| done))?;
    Ok((0..items.count()).filter(|&index| !done[index as usize]).collect())
}
