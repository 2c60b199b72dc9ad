//! Which items are done: one listing of each folder of outputs, not a look at each item.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tarpipe::source;

use crate::item::is_path;
use crate::items::{Item, Items};
use crate::joblog::{Record, State};
use crate::plan::{Plan, Templates};

/// For every item, whether it is done. Where the output can be listed, its being there decides; where it
/// cannot, or there is none, the job log does. Further files must be there in any case that can be seen.
pub fn find(plan: &Plan, items: &Items, log: &[Option<Record>]) -> Result<Vec<bool>> {
    let marked = |index: u64| log[index as usize].as_ref().is_some_and(|record| record.state == State::Done);
    if plan.remote {
        return Ok((0..items.count()).map(marked).collect());
    }
    let templates = plan.templates()?;
    let mut listings =
        Listings { folders: BTreeMap::new(), cwd: plan.cwd.as_deref().map(PathBuf::from).unwrap_or_default() };
    (0..items.count())
        .map(|index| items.with(index, |item| listings.is_done(&templates, item, marked(index))))
        .collect()
}

/// The names in each folder that was asked for.
struct Listings {
    folders: BTreeMap<PathBuf, HashSet<OsString>>,
    cwd: PathBuf,
}

impl Listings {
    fn is_done(&mut self, templates: &Templates, item: &Item<'_>, is_marked: bool) -> Result<bool> {
        let output = templates.output.as_ref().map(|template| template.fill(item)).filter(|name| is_path(name));
        let mut is_there = output.map_or(Ok(is_marked), |name| self.has(&name))?;
        for template in &templates.also {
            is_there = is_there && self.has(&template.fill(item))?;
        }
        Ok(is_there)
    }

    fn has(&mut self, name: &str) -> Result<bool> {
        let path = Path::new(source::path_of(name));
        let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else { return Ok(false) };
        if let Some(names) = self.folders.get(folder) {
            return Ok(names.contains(file));
        }
        let names = list(&self.cwd.join(folder))?;
        let has = names.contains(file);
        self.folders.insert(folder.to_owned(), names);
        Ok(has)
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
