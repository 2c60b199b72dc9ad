//! What is to be run now: a plan, a run folder, and the items that are not done.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::done;
use crate::flags::Args;
use crate::folder::Folder;
use crate::item::Head;
use crate::items::{Items, Wanted};
use crate::joblog;
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
}

impl Job {
    /// Plans what the flags ask for. Nothing is written yet.
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
        let todo = if args.redo { (0..items.count()).collect() } else { todo(&folder, &plan, &items)? };
        Ok(Job::new(folder, plan, items, todo, args.settings.clone(), args.redo))
    }

    /// The same as the last time, for what is not done: all of it, or what failed.
    pub fn again(dir: Option<&Path>, failed: bool) -> Result<Self> {
        let folder = Folder::find(dir)?;
        let plan = folder.plan()?.context("there is no plan")?;
        let items = folder.items(&plan)?;
        let settings: Settings = folder.read_json("settings.json")?.context("this run was never started")?;
        use_endpoint(settings.endpoint.as_deref());
        let todo = match failed {
            true => Survey::take(&folder)?.which(Standing::Failed).collect(),
            false => todo(&folder, &plan, &items)?,
        };
        Ok(Job::new(folder, plan, items, todo, settings, false))
    }

    fn new(folder: Folder, plan: Plan, items: Items, todo: Vec<u64>, settings: Settings, redo: bool) -> Self {
        let limits = settings.limits(redo, todo.len() as u64);
        Job { folder, head: Head { plan, limits }, items: Arc::new(items), todo, settings }
    }

    /// Writes the plan down, or checks it against the one that is there.
    pub fn freeze(&self, redo: bool) -> Result<()> {
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
