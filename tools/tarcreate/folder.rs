//! Folders: files with one path up to the first dot are one sample, in the order of their names,
//! whatever order the disk lists them in.

use std::collections::BTreeMap;
use std::fs::{DirEntry, FileType};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tarpipe::sample::member_name;
use tarpipe::sort::Sorter;

use crate::Args;
use crate::content::Content;
use crate::item::{Job, Place, Refusal};
use crate::recipe::{Flow, Give};

/// A folder, and the numbers of the classes in it.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    classes: Option<BTreeMap<String, usize>>,
}

impl Folder {
    pub fn new(root: &Path, args: &Args) -> Result<Self> {
        let classes = match &args.use_classes {
            Some(file) => Some(read_classes(file)?),
            None if args.labels_from_dirs => Some(list_classes(root)?),
            None => None,
        };
        Ok(Folder { root: root.to_owned(), classes })
    }

    /// The names of the classes, a line each.
    pub fn class_list(&self) -> Option<String> {
        let classes = self.classes.as_ref()?;
        Some(classes.keys().map(|name| format!("{name}\n")).collect())
    }

    /// Gives the samples of the folder.
    pub fn visit(&self, mut names: Sorter, give: Give<'_>) -> Result<Flow> {
        let source: Arc<str> = self.root.display().to_string().into();
        let mut number = 0;
        let mut place = || {
            number += 1;
            Place { source: Arc::clone(&source), noun: "file", number }
        };
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let entry = entry.with_context(|| folder.display().to_string())?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                let place = place();
                let found = self.name(&entry).and_then(|(key, field)| Ok((self.class(&key)?, key, field)));
                let flow = match found {
                    // A NUL sorts before all else, so the files of a sample stay together.
                    Ok((_, key, field)) => {
                        names.push(format!("{key}\0{field}").as_bytes(), &[])?;
                        Flow::Continue(())
                    }
                    Err(refusal) => give(Err((place, refusal)))?,
                };
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        }
        self.give_sorted(names, &source, give)
    }

    fn give_sorted(&self, names: Sorter, source: &Arc<str>, give: Give<'_>) -> Result<Flow> {
        let mut sorted = names.finish()?;
        let mut pending: Option<Job> = None;
        let mut number = 0;
        while let Some(record) = sorted.next()? {
            let name = std::str::from_utf8(record.key)?;
            let (key, field) = name.split_once('\0').context("a name was damaged")?;
            let part = (field.to_owned(), Content::Path(self.root.join(format!("{key}.{field}"))));
            number += 1;
            match &mut pending {
                Some(job) if job.key == key => job.fields.push(part),
                _ => {
                    let place = Place { source: Arc::clone(source), noun: "file", number };
                    let job = Job { place, key: key.to_owned(), fields: vec![part] };
                    if self.finish(pending.replace(job), give)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
            }
        }
        self.finish(pending, give)
    }

    fn finish(&self, job: Option<Job>, give: Give<'_>) -> Result<Flow> {
        let Some(mut job) = job else { return Ok(Flow::Continue(())) };
        if let Ok(Some(class)) = self.class(&job.key) {
            job.fields.push(("cls".into(), Content::Text(class.to_string().into_bytes())));
        }
        give(job.checked())
    }

    /// Key and field of a file below the folder.
    fn name(&self, entry: &DirEntry) -> Result<(String, String), Refusal> {
        let path = entry.path();
        let shown = path.display().to_string();
        refuse_kind(&path, entry.file_type().ok(), &shown)?;
        let below = path.strip_prefix(&self.root).unwrap_or(&path);
        let (key, field) = member_name::split(below.as_os_str().as_encoded_bytes()).map_err(|unfit| Refusal {
            code: unfit.code(),
            why: format!("{shown}: {unfit}"),
            harmless: unfit.is_harmless(),
        })?;
        Ok((key.to_owned(), field.to_owned()))
    }

    /// The number of the class of a key, if classes are asked for.
    fn class(&self, key: &str) -> Result<Option<usize>, Refusal> {
        let Some(classes) = &self.classes else { return Ok(None) };
        let Some((folder, _)) = key.split_once('/') else {
            return Err(Refusal::new("no_class", format!("{key} is in no class folder")));
        };
        match classes.get(folder) {
            Some(number) => Ok(Some(*number)),
            None => Err(Refusal::new("unknown_class", format!("{folder} is no class of --use-classes"))),
        }
    }
}

/// Links to files are files; what is neither is left out.
fn refuse_kind(path: &Path, kind: Option<FileType>, shown: &str) -> Result<(), Refusal> {
    let drop = |code| Err(Refusal { code, why: format!("{shown}: not a regular file"), harmless: true });
    match kind {
        Some(kind) if kind.is_file() => Ok(()),
        Some(kind) if kind.is_symlink() => match std::fs::metadata(path) {
            Ok(found) if found.is_file() => Ok(()),
            Ok(_) => drop("link"),
            Err(_) => Err(Refusal::new("missing", format!("{shown}: a link that leads nowhere"))),
        },
        _ => drop("device"),
    }
}

/// The folders in `root`, numbered in the order of their names.
fn list_classes(root: &Path) -> Result<BTreeMap<String, usize>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root).with_context(|| root.display().to_string())? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        match entry.file_name().into_string() {
            Ok(name) if !name.chars().any(char::is_control) => names.push(name),
            Ok(name) => bail!("{}: '{name}' cannot be the name of a class", root.display()),
            Err(name) => bail!("{}: '{}' cannot be the name of a class", root.display(), name.display()),
        }
    }
    names.sort_unstable();
    if names.is_empty() {
        bail!("{}: no class folders in it", root.display());
    }
    Ok(names.into_iter().enumerate().map(|(number, name)| (name, number)).collect())
}

fn read_classes(file: &str) -> Result<BTreeMap<String, usize>> {
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    let mut classes = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if classes.insert(line.to_owned(), number).is_some() {
            bail!("{file}: class {line} stands twice");
        }
    }
    Ok(classes)
}
