//! A run about to start: its plan, its folder and the items that are left to do.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::shardrun::args::Args;
use crate::shardrun::engine::{self, Submission};
use crate::shardrun::plan::items::{ItemFlags, RunItems};
use crate::shardrun::plan::{self, RunPlan, RunSpec};
use crate::shardrun::run::existing;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{self, ItemStatus};
use crate::shardrun::run::lock::RunLock;
use crate::shardrun::settings::{RunSettings, use_endpoint};
use crate::shardrun::status::snapshot::RunSnapshot;

/// A run about to start.
pub struct PendingRun {
    /// Folder of the run.
    pub folder: RunFolder,
    /// The plan and the limits, as workers get them.
    pub spec: RunSpec,
    /// All items.
    pub items: Arc<RunItems>,
    /// Numbers of the items to run.
    pub todo: Vec<u64>,
    /// The engine and its flags.
    pub settings: RunSettings,
    /// Keeps other processes from starting the same run; released once the engine has all tasks. None for a dry run.
    pub lock: Option<RunLock>,
    /// An earlier submission of this run that is still running on its engine.
    pub submission: Option<Submission>,
    /// Whether finished items run again, which the submission that is still running would not do.
    pub repeats: bool,
}

impl PendingRun {
    /// Makes the plan from the flags, and locks the run unless it is a dry run. `freeze` stores the plan.
    pub fn plan(args: &Args) -> Result<Self> {
        let items = RunItems::find(&ItemFlags {
            number: args.number,
            names: &args.items,
            files_from: &args.files_from,
            shards_of: &args.shards_of,
            rows_per_shard: args.rows_per_shard,
        })?;
        let plan = RunPlan {
            shardrun: env!("CARGO_PKG_VERSION").into(),
            pipeline: args.pipeline.clone().unwrap_or_default(),
            output: args.output.clone(),
            also: args.also.clone(),
            count: items.count(),
            numbers: matches!(items, RunItems::Numbers(_)),
            sha256: plan::digest(&items),
            cwd: cwd(args)?,
            remote: engine::of(args.settings.on).is_remote(),
        };
        plan.templates()?.check(&items)?;
        let folder = RunFolder::for_plan(args.run.as_deref(), &plan);
        let lock = if args.dry_run { None } else { Some(folder.lock()?) };
        // Before `todo`, because it collects results that only the engine has.
        let submission = if args.dry_run { None } else { engine::find_running(&folder)? };
        let todo = if args.redo { (0..items.count()).collect() } else { todo(&folder, &plan, &items)? };
        let pending = PendingRun::new(folder, plan, items, todo, args.settings.clone(), args.redo);
        Ok(PendingRun { lock, submission, repeats: args.redo, ..pending })
    }

    /// Repeats the last start of a run for its unfinished items, or for the failed ones only.
    pub fn retry(dir: Option<&Path>, failed: bool) -> Result<Self> {
        let folder = RunFolder::find(dir)?;
        let plan = folder.plan()?.context("plan.json is missing")?;
        let items = folder.items(&plan)?;
        let settings: RunSettings =
            folder.read_json("settings.json")?.context("this run was never started (settings.json is missing)")?;
        use_endpoint(settings.endpoint.as_deref());
        let lock = Some(folder.lock()?);
        let submission = engine::find_running(&folder)?;
        let todo = match failed {
            true => RunSnapshot::take(&folder)?.with_status(ItemStatus::Failed).collect(),
            false => todo(&folder, &plan, &items)?,
        };
        Ok(PendingRun {
            lock,
            submission,
            repeats: failed,
            ..PendingRun::new(folder, plan, items, todo, settings, false)
        })
    }

    fn new(
        folder: RunFolder,
        plan: RunPlan,
        items: RunItems,
        todo: Vec<u64>,
        settings: RunSettings,
        redo: bool,
    ) -> Self {
        let limits = settings.limits(redo, todo.len() as u64);
        let spec = RunSpec { plan, limits };
        PendingRun { folder, spec, items: Arc::new(items), todo, settings, lock: None, submission: None, repeats: redo }
    }

    /// Stores the plan and the settings. A run that is still running keeps those it was started with.
    pub fn freeze(&self, redo: bool) -> Result<()> {
        if self.submission.is_some() {
            return Ok(());
        }
        self.folder.freeze(&self.spec.plan, &self.items, redo)?;
        self.folder.write_json("settings.json", &self.settings)
    }
}

/// The folder to run pipelines in. In a pod, the image sets it unless --chdir does.
fn cwd(args: &Args) -> Result<Option<String>> {
    let is_remote = engine::of(args.settings.on).is_remote();
    let here = match &args.chdir {
        Some(folder) if is_remote => return Ok(Some(folder.to_string_lossy().into_owned())),
        Some(folder) => std::fs::canonicalize(folder).with_context(|| folder.display().to_string())?,
        None if is_remote => return Ok(None),
        None => std::env::current_dir()?,
    };
    Ok(Some(here.to_string_lossy().into_owned()))
}

/// Numbers of the items that are not done.
fn todo(folder: &RunFolder, plan: &RunPlan, items: &RunItems) -> Result<Vec<u64>> {
    let logged = match folder.path().join("log").is_dir() {
        true => job_log::done_items(folder, items.count())?,
        false => Vec::new(),
    };
    let done = existing::find_done(plan, items, |index| logged.get(index as usize).is_some_and(|&done| done))?;
    Ok((0..items.count()).filter(|&index| !done[index as usize]).collect())
}
