//! Finds the items whose outputs exist, by listing each folder and each bucket once instead of checking every item.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tarpipe::location;
use tarpipe::messages;
use tarpipe::sink;

use crate::shardrun::plan::items::{RunItem, RunItems};
use crate::shardrun::plan::template::ItemTemplate;
use crate::shardrun::plan::{PlanTemplates, RunPlan, is_path};

/// For every item, whether it is done. If its output can be listed, it must exist; if not, or if there is no output, the job
/// log decides, which `is_logged` looks up. The files of --also must exist wherever they can be listed.
pub fn find_done(plan: &RunPlan, items: &RunItems, is_logged: impl Fn(u64) -> bool) -> Result<Vec<bool>> {
    let templates = plan.templates()?;
    let mut listings = Listings {
        folders: BTreeMap::new(),
        buckets: templates.output.as_ref().map(|output| buckets(output, items)).unwrap_or_default(),
        cwd: plan.cwd.as_deref().map(PathBuf::from).unwrap_or_default(),
        remote: plan.remote,
    };
    (0..items.count())
        .map(|index| items.with(index, |item| listings.is_done(&templates, item, is_logged(index))))
        .collect()
}

/// The existing files and objects, listed when they are first needed.
struct Listings {
    /// The files of each folder.
    folders: BTreeMap<PathBuf, HashSet<OsString>>,
    /// The objects of each bucket that start like the outputs. Buckets that cannot be listed are missing.
    buckets: BTreeMap<String, BTreeMap<String, u64>>,
    cwd: PathBuf,
    /// Whether paths exist only on the workers.
    remote: bool,
}

impl Listings {
    fn is_done(&mut self, templates: &PlanTemplates, item: &RunItem<'_>, is_logged: bool) -> Result<bool> {
        let output = templates.output.as_ref().map(|template| template.fill(item));
        let exists = output.map_or(Ok(None), |name| self.exists(&name))?;
        let mut is_done = exists.unwrap_or(is_logged);
        for template in &templates.also {
            is_done = is_done && self.exists(&template.fill(item))?.unwrap_or(true);
        }
        Ok(is_done)
    }

    /// Whether a file or object exists; None if this machine cannot find out.
    fn exists(&mut self, name: &str) -> Result<Option<bool>> {
        if let Some(bucket) = bucket_of(name) {
            return Ok(self.buckets.get(bucket).map(|objects| objects.contains_key(name)));
        }
        if self.remote || !is_path(name) {
            return Ok(None);
        }
        let path = Path::new(location::path_of(name));
        let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else { return Ok(Some(false)) };
        if let Some(names) = self.folders.get(folder) {
            return Ok(Some(names.contains(file)));
        }
        let names = list(&self.cwd.join(folder))?;
        let exists = names.contains(file);
        self.folders.insert(folder.to_owned(), names);
        Ok(Some(exists))
    }
}

fn list(folder: &Path) -> Result<HashSet<OsString>> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match std::fs::read_dir(folder) {
        Ok(entries) => Ok(entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
            .map(|entry| entry.file_name())
            .collect()),
        Err(err) if matches!(err.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(HashSet::new())
        }
        Err(err) => Err(err).with_context(|| folder.display().to_string()),
    }
}

/// Lists the buckets of the outputs, each by the longest common prefix of its outputs.
fn buckets(output: &ItemTemplate, items: &RunItems) -> BTreeMap<String, BTreeMap<String, u64>> {
    if output.start().is_some_and(|start| !location::is_object(start)) {
        return BTreeMap::new(); // skips filling in every name
    }
    let mut prefixes: BTreeMap<String, String> = BTreeMap::new();
    for index in 0..items.count() {
        let name = items.with(index, |item| output.fill(item));
        let Some(bucket) = bucket_of(&name) else { continue };
        match prefixes.get_mut(bucket) {
            Some(prefix) => prefix.truncate(common_prefix(prefix, &name)),
            None => _ = prefixes.insert(bucket.to_owned(), name),
        }
    }
    let mut found = BTreeMap::new();
    for (bucket, prefix) in prefixes {
        match sink::existing(&prefix) {
            Ok(objects) => _ = found.insert(bucket, objects),
            // The workers may have credentials that this machine lacks.
            Err(err) => messages::notice(&format!("{err:#}; relying on the job log")),
        }
    }
    found
}

/// Scheme and bucket of the name of an object.
fn bucket_of(name: &str) -> Option<&str> {
    let slash = name.match_indices('/').nth(2).filter(|_| location::is_object(name));
    slash.map(|(at, _)| &name[..at])
}

/// Length of the common prefix of two names, in bytes but at a character boundary.
fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}
