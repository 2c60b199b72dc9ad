//! The plan of a run: the pipeline, its items and the names of its outputs. A run folder keeps its plan for good; resuming
//! the run with another plan is refused with a message that names the difference.

pub mod items;
mod quoting;
pub mod template;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tarpipe::cli::Usage;
use tarpipe::digest::{Digest, FingerprintMap, quick_fingerprint};
use tarpipe::{location, sink};

use crate::shardrun::settings::RunLimits;
use items::{RunItem, RunItems};
use template::ItemTemplate;

/// What is run: the same for every start of a run. `plan.json` holds it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct RunPlan {
    /// Version of shardrun that made the plan.
    pub shardrun: String,
    /// Template of the script.
    pub pipeline: String,
    /// Template of the name that stdout is committed to.
    pub output: Option<String>,
    /// Templates of the other files that the pipeline writes.
    pub also: Vec<String>,
    /// Number of items.
    pub count: u64,
    /// Whether the items are numbers, which are not stored in a file.
    pub numbers: bool,
    /// Digest of all values, one per line.
    pub sha256: String,
    /// Folder to run pipelines in; None is the worker's current folder.
    pub cwd: Option<String>,
    /// Whether paths exist only on the workers, so that this machine cannot check for outputs.
    #[serde(default)]
    pub remote: bool,
}

impl RunPlan {
    /// Identifies the plan in the names of folders and jobs: the first 12 digits of its digest.
    pub fn short_name(&self) -> String {
        let mut digest = Digest::new();
        digest.update(serde_json::to_string(self).unwrap_or_default().as_bytes());
        digest.hex()[..12].to_owned()
    }

    /// The parsed templates.
    pub fn templates(&self) -> Result<PlanTemplates> {
        PlanTemplates::parse(&self.pipeline, self.output.as_deref(), &self.also)
    }

    /// Fails with the first difference between this plan and an earlier one.
    pub fn check_same(&self, earlier: &RunPlan) -> Result<()> {
        let texts = |plan: &RunPlan| {
            let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
            [
                ("the version", plan.shardrun.clone()),
                ("the pipeline", plan.pipeline.clone()),
                ("-o", or_none(&plan.output)),
                ("--also", plan.also.join(" ")),
                ("the working folder", or_none(&plan.cwd)),
                ("the number of items", plan.count.to_string()),
                ("the list of items", plan.sha256[..12].to_owned()),
            ]
        };
        let pairs = texts(earlier).into_iter().zip(texts(self));
        match pairs.into_iter().find(|(then, now)| then.1 != now.1) {
            None => Ok(()),
            Some(((what, then), (_, now))) => {
                bail!(
                    "the plan has changed: {what} was '{then}' and is now '{now}'; use another --run, or --redo to start over"
                )
            }
        }
    }
}

/// What workers get: the plan, and the limits it is run with. The first line of a bundle holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSpec {
    /// What is run.
    #[serde(flatten)]
    pub plan: RunPlan,
    /// How it is run.
    #[serde(flatten)]
    pub limits: RunLimits,
}

/// The templates of a plan.
#[derive(Clone, Debug)]
pub struct PlanTemplates {
    /// The script.
    pub pipeline: ItemTemplate,
    /// The output.
    pub output: Option<ItemTemplate>,
    /// The other files.
    pub also: Vec<ItemTemplate>,
}

impl PlanTemplates {
    /// Parses them; an error names the faulty one.
    pub fn parse(pipeline: &str, output: Option<&str>, also: &[String]) -> Result<Self> {
        let name = |flag: &str, text: &str| {
            ItemTemplate::name(text).map_err(|err| anyhow!(Usage(format!("{flag} '{text}': {err:#}"))))
        };
        Ok(PlanTemplates {
            pipeline: ItemTemplate::script(pipeline).map_err(|err| anyhow!(Usage(format!("pipeline: {err:#}"))))?,
            output: output.map(|text| name("-o", text)).transpose()?,
            also: also.iter().map(|text| name("--also", text)).collect::<Result<_>>()?,
        })
    }

    /// The names of all files of an item, the output first.
    pub fn names<'a>(&'a self, item: &'a RunItem<'a>) -> impl Iterator<Item = String> + 'a {
        self.output.iter().chain(&self.also).map(|template| template.fill(item))
    }

    /// Refuses plans that would go wrong, before anything runs: two items with the same output, or values that need quoting
    /// inside quotes of the script.
    pub fn check(&self, items: &RunItems) -> Result<()> {
        let mut seen = FingerprintMap::default();
        for index in 0..items.count() {
            items.with(index, |item| self.check_item(item, &mut seen))?;
        }
        Ok(())
    }

    fn check_item(&self, item: &RunItem<'_>, seen: &mut FingerprintMap<u64>) -> Result<()> {
        let outputs = || self.output.iter().chain(&self.also);
        if let Some(output) = outputs().find(|template| template.becomes_command(item)) {
            bail!(Usage(format!("item '{}': its output name would be a command: {}", item.value, output.fill(item))));
        }
        if let Some(name) = self.also.iter().map(|template| template.fill(item)).find(|name| !is_path(name)) {
            bail!(Usage(format!("--also {name}: must be a file path")));
        }
        if self.pipeline.clashes(item) || outputs().any(|template| template.clashes(item)) {
            bail!(Usage(format!(
                "item '{}' contains shell metacharacters, and its placeholder is inside quotes; write \"$SHARD\" there",
                item.value
            )));
        }
        for name in self.names(item) {
            if let Some(other) = seen.insert(quick_fingerprint(&name), item.index) {
                bail!(Usage(format!(
                    "items {other} and {} would both write {name}; use {{}}, {{i}} or {{base}}",
                    item.index
                )));
            }
        }
        Ok(())
    }
}

/// Digest of all values.
pub fn digest(items: &RunItems) -> String {
    let mut digest = Digest::new();
    match items {
        RunItems::Numbers(count) => digest.update(format!("numbers {count}\n").as_bytes()),
        RunItems::Names(names) => names.iter().for_each(|name| {
            digest.update(name.as_bytes());
            digest.update(b"\n");
        }),
    }
    digest.hex()
}

/// Parses the text of `plan.json`.
pub fn parse(text: &str) -> Result<RunPlan> {
    serde_json::from_str(text).context("not a shardrun plan")
}

/// Whether a name is a path, rather than a command or a URL.
pub fn is_path(name: &str) -> bool {
    !sink::is_command(name) && location::is_path(name)
}
