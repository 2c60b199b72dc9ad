//! Which items are done: one listing of each folder and each bucket of outputs, not a look at each item.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tarpipe::location;
use tarpipe::messages;
use tarpipe::sink;

use crate::item::is_path;
use crate::items::{Item, Items};
use crate::plan::{Plan, Templates};
use crate::template::Template;

/// For every item, whether it is done. Where the output can be listed, its being there decides; where it
/// cannot, or there is none, the job log does, as `marked` tells. Further files must be there in any case that can be seen.
pub fn find(plan: &Plan, items: &Items, marked: impl Fn(u64) -> bool) -> Result<Vec<bool>> {
    let templates = plan.templates()?;
    let mut listings = Listings {
        folders: BTreeMap::new(),
        buckets: templates.output.as_ref().map(|output| buckets(output, items)).unwrap_or_default(),
        cwd: plan.cwd.as_deref().map(PathBuf::from).unwrap_or_default(),
        remote: plan.remote,
    };
    (0..items.count())
        .map(|index| items.with(index, |item| listings.is_done(&templates, item, marked(index))))
        .collect()
}

/// What is there.
struct Listings {
    /// The names in each folder that was asked for.
    folders: BTreeMap<PathBuf, HashSet<OsString>>,
    /// The objects among which the outputs in a bucket would be. One that cannot be listed is missing.
    buckets: BTreeMap<String, BTreeMap<String, u64>>,
    cwd: PathBuf,
    /// Whether paths are those of the workers.
    remote: bool,
}

impl Listings {
    fn is_done(&mut self, templates: &Templates, item: &Item<'_>, is_marked: bool) -> Result<bool> {
        let output = templates.output.as_ref().map(|template| template.fill(item));
        let seen = output.map_or(Ok(None), |name| self.has(&name))?;
        let mut is_there = seen.unwrap_or(is_marked);
        for template in &templates.also {
            is_there = is_there && self.has(&template.fill(item))?.unwrap_or(true);
        }
        Ok(is_there)
    }

    /// Whether a name is there; None where this machine cannot see it.
    fn has(&mut self, name: &str) -> Result<Option<bool>> {
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
        let has = names.contains(file);
        self.folders.insert(folder.to_owned(), names);
        Ok(Some(has))
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

/// Lists each bucket that outputs go to: what starts as all of them do.
fn buckets(output: &Template, items: &Items) -> BTreeMap<String, BTreeMap<String, u64>> {
    if output.start().is_some_and(|start| !location::is_object(start)) {
        return BTreeMap::new(); // no need to look at every name
    }
    let mut prefixes: BTreeMap<String, String> = BTreeMap::new();
    for index in 0..items.count() {
        let name = items.with(index, |item| output.fill(item));
        let Some(bucket) = bucket_of(&name) else { continue };
        match prefixes.get_mut(bucket) {
            Some(prefix) => prefix.truncate(common(prefix, &name)),
            None => _ = prefixes.insert(bucket.to_owned(), name),
        }
    }
    let mut found = BTreeMap::new();
    for (bucket, prefix) in prefixes {
        match sink::existing(&prefix) {
            Ok(objects) => _ = found.insert(bucket, objects),
            // The workers may have keys that are not here.
            Err(err) => messages::notice(&format!("{err:#}; going by the job log")),
        }
    }
    found
}

/// Scheme and bucket of an object's name.
fn bucket_of(name: &str) -> Option<&str> {
    let slash = name.match_indices('/').nth(2).filter(|_| location::is_object(name));
    slash.map(|(at, _)| &name[..at])
}

/// How many bytes two names have in common at their start, whole characters only.
fn common(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}
