//! The frozen plan of a run: what is run on which items, and where the results go. A run folder holds
//! one for ever; a resume with another is refused and says what differs.

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tarpipe::cli::Usage;
use tarpipe::digest::Digest;

use crate::item::is_path;
use crate::items::{Item, Items};
use crate::template::Template;

/// What a worker must know besides the items themselves.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Plan {
    /// The version that made it.
    pub shardrun: String,
    /// The template of the script.
    pub pipeline: String,
    /// The template of the name that its stdout is committed to.
    pub output: Option<String>,
    /// Templates of further files that it writes.
    pub also: Vec<String>,
    /// How many items there are.
    pub count: u64,
    /// Whether the items are numbers, which no file lists.
    pub numbers: bool,
    /// Of all values, a line each.
    pub sha256: String,
    /// Where pipelines run; None is where the worker happens to be.
    pub cwd: Option<String>,
    /// Whether paths are those of the workers, which this machine does not see.
    #[serde(default)]
    pub remote: bool,
}

impl Plan {
    /// What this run is known by, as part of a name.
    pub fn short_name(&self) -> String {
        let mut digest = Digest::new();
        digest.update(serde_json::to_string(self).unwrap_or_default().as_bytes());
        digest.hex()[..12].to_owned()
    }

    /// The templates, taken apart.
    pub fn templates(&self) -> Result<Templates> {
        Templates::parse(&self.pipeline, self.output.as_deref(), &self.also)
    }

    /// An error that says what differs between this plan and that of an earlier run.
    pub fn check_same(&self, earlier: &Plan) -> Result<()> {
        let texts = |plan: &Plan| {
            let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
            [
                ("the version", plan.shardrun.clone()),
                ("the pipeline", plan.pipeline.clone()),
                ("-o", or_none(&plan.output)),
                ("--also", plan.also.join(" ")),
                ("the folder", or_none(&plan.cwd)),
                ("the number of items", plan.count.to_string()),
                ("the items", plan.sha256[..12].to_owned()),
            ]
        };
        let pairs = texts(earlier).into_iter().zip(texts(self));
        match pairs.into_iter().find(|(then, now)| then.1 != now.1) {
            None => Ok(()),
            Some(((what, then), (_, now))) => {
                bail!(
                    "this run has another plan: {what} was '{then}' and is now '{now}' (take another --run, or --redo to start over)"
                )
            }
        }
    }
}

/// The templates of a plan.
#[derive(Clone, Debug)]
pub struct Templates {
    /// Of the script.
    pub pipeline: Template,
    /// Of the output.
    pub output: Option<Template>,
    /// Of the other files.
    pub also: Vec<Template>,
}

impl Templates {
    /// Takes them apart; a mistake says in which it is.
    pub fn parse(pipeline: &str, output: Option<&str>, also: &[String]) -> Result<Self> {
        let name = |flag: &str, text: &str| {
            Template::name(text).map_err(|err| anyhow!(Usage(format!("{flag} '{text}': {err:#}"))))
        };
        Ok(Templates {
            pipeline: Template::script(pipeline).map_err(|err| anyhow!(Usage(format!("the pipeline: {err:#}"))))?,
            output: output.map(|text| name("-o", text)).transpose()?,
            also: also.iter().map(|text| name("--also", text)).collect::<Result<_>>()?,
        })
    }

    /// All names that an item makes, the output first.
    pub fn names<'a>(&'a self, item: &'a Item<'a>) -> impl Iterator<Item = String> + 'a {
        self.output.iter().chain(&self.also).map(|template| template.fill(item))
    }

    /// Refuses what would go wrong before anything runs: two items with one output, values that
    /// would stand between quotes of the script.
    pub fn check(&self, items: &Items) -> Result<()> {
        let mut seen = Seen::new(items.count());
        for index in 0..items.count() {
            items.with(index, |item| self.check_item(item, &mut seen))?;
        }
        Ok(())
    }

    fn check_item(&self, item: &Item<'_>, seen: &mut Seen) -> Result<()> {
        let outputs = || self.output.iter().chain(&self.also);
        if let Some(output) = outputs().find(|template| template.becomes_command(item)) {
            bail!(Usage(format!("item '{}' makes a command of its output: {}", item.value, output.fill(item))));
        }
        if let Some(name) = self.also.iter().map(|template| template.fill(item)).find(|name| !is_path(name)) {
            bail!(Usage(format!("--also {name}: only files are looked for")));
        }
        if self.pipeline.clashes(item) || outputs().any(|template| template.clashes(item)) {
            bail!(Usage(format!(
                "item '{}' has characters that the shell knows, and its place is between quotes: write \"$SHARD\" there",
                item.value
            )));
        }
        for name in self.names(item) {
            if let Some(other) = seen.add(&name, item.index) {
                bail!(Usage(format!(
                    "items {other} and {} would both write {name} (use {{}}, {{i}} or {{base}})",
                    item.index
                )));
            }
        }
        Ok(())
    }
}

/// Names that were made, by 128 bits of their hash: half a million of them take 20 MB.
struct Seen(std::collections::HashMap<u128, u64>);

impl Seen {
    fn new(count: u64) -> Self {
        Seen(std::collections::HashMap::with_capacity(count.min(1 << 20) as usize))
    }

    /// The item that had the name before.
    fn add(&mut self, name: &str, index: u64) -> Option<u64> {
        self.0.insert(hash(name), index)
    }
}

fn hash(name: &str) -> u128 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};
    let half = |salt: u8| {
        let mut hasher = BuildHasherDefault::<DefaultHasher>::default().build_hasher();
        hasher.write_u8(salt);
        hasher.write(name.as_bytes());
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// The digest of all values.
pub fn digest(items: &Items) -> String {
    let mut digest = Digest::new();
    match items {
        Items::Numbers(count) => digest.update(format!("numbers {count}\n").as_bytes()),
        Items::Names(names) => names.iter().for_each(|name| {
            digest.update(name.as_bytes());
            digest.update(b"\n");
        }),
    }
    digest.hex()
}

/// Reads a plan from the text of its file.
pub fn parse(text: &str) -> Result<Plan> {
    serde_json::from_str(text).context("this is no plan of a run")
}
