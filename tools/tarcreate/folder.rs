//! --dir: files with the same path up to the first dot are one sample. Samples are sorted by name, whatever the order of
//! the directory listing.

use std::collections::BTreeMap;
use std::fs::{DirEntry, FileType};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tarpipe::sample::member_name;
use tarpipe::sort::Sorter;
use tarpipe::table::Flow;

use crate::tarcreate::Args;
use crate::tarcreate::content::Content;
use crate::tarcreate::inputs::Emit;
use crate::tarcreate::planned_sample::{InputPosition, ItemRefusal, PlannedSample};

/// A folder, and the numbers of its classes.
#[derive(Debug)]
pub struct SourceFolder {
    root: PathBuf,
    classes: Option<BTreeMap<String, usize>>,
}

impl SourceFolder {
    pub fn new(root: &Path, args: &Args) -> Result<Self> {
        let classes = match &args.use_classes {
            Some(file) => Some(read_classes(file)?),
            None if args.labels_from_dirs => Some(list_classes(root)?),
            None => None,
        };
        Ok(SourceFolder { root: root.to_owned(), classes })
    }

    /// The names of the classes, one per line.
    pub fn class_list(&self) -> Option<String> {
        let classes = self.classes.as_ref()?;
        Some(classes.keys().map(|name| format!("{name}\n")).collect())
    }

    /// Emits the samples of the folder.
    pub fn visit(&self, mut names: Sorter, emit: Emit<'_>) -> Result<Flow> {
        let source: Arc<str> = self.root.display().to_string().into();
        let mut number = 0;
        let mut position = || {
            number += 1;
            InputPosition { source: Arc::clone(&source), noun: "file", number }
        };
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let entry = entry.with_context(|| folder.display().to_string())?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                let position = position();
                let found = self.name(&entry).and_then(|(key, field)| Ok((self.class(&key)?, key, field)));
                let flow = match found {
                    // A NUL sorts before everything else, so the files of a sample stay together.
                    Ok((_, key, field)) => {
                        names.push(format!("{key}\0{field}").as_bytes(), &[])?;
                        Flow::Continue(())
                    }
                    Err(refusal) => emit(Err((position, refusal)))?,
                };
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        }
        self.emit_sorted(names, &source, emit)
    }

    fn emit_sorted(&self, names: Sorter, source: &Arc<str>, emit: Emit<'_>) -> Result<Flow> {
        let mut sorted = names.finish()?;
        let mut pending: Option<PlannedSample> = None;
        let mut number = 0;
        while let Some(record) = sorted.next()? {
            let name = std::str::from_utf8(record.key)?;
            let (key, field) = name.split_once('\0').context("the spilled data is damaged")?;
            let content = (field.to_owned(), Content::Path(self.root.join(format!("{key}.{field}"))));
            number += 1;
            match &mut pending {
                Some(sample) if sample.key == key => sample.fields.push(content),
                _ => {
                    let position = InputPosition { source: Arc::clone(source), noun: "file", number };
                    let sample = PlannedSample { position, key: key.to_owned(), fields: vec![content] };
                    if self.finish(pending.replace(sample), emit)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
            }
        }
        self.finish(pending, emit)
    }

    fn finish(&self, sample: Option<PlannedSample>, emit: Emit<'_>) -> Result<Flow> {
        let Some(mut sample) = sample else { return Ok(Flow::Continue(())) };
        if let Ok(Some(class)) = self.class(&sample.key) {
            sample.fields.push(("cls".into(), Content::Text(class.to_string().into_bytes())));
        }
        emit(sample.checked())
    }

    /// Key and field of a file below the folder.
    fn name(&self, entry: &DirEntry) -> Result<(String, String), ItemRefusal> {
        let path = entry.path();
        let shown = path.display().to_string();
        check_file_type(&path, entry.file_type().ok(), &shown)?;
        let below = path.strip_prefix(&self.root).unwrap_or(&path);
        let (key, field) = member_name::split(below.as_os_str().as_encoded_bytes()).map_err(|unfit| ItemRefusal {
            code: unfit.code(),
            why: format!("{shown}: {unfit}"),
            harmless: unfit.is_harmless(),
        })?;
        Ok((key.to_owned(), field.to_owned()))
    }

    /// The class number of a key; None without classes.
    fn class(&self, key: &str) -> Result<Option<usize>, ItemRefusal> {
        let Some(classes) = &self.classes else { return Ok(None) };
        let Some((folder, _)) = key.split_once('/') else {
            return Err(ItemRefusal::new("no_class", format!("{key} is not in a class folder")));
        };
        match classes.get(folder) {
            Some(number) => Ok(Some(*number)),
            None => Err(ItemRefusal::new("unknown_class", format!("{folder} is not a class of --use-classes"))),
        }
    }
}

/// Refuses everything but files and links to files.
fn check_file_type(path: &Path, kind: Option<FileType>, shown: &str) -> Result<(), ItemRefusal> {
    let drop = |code| Err(ItemRefusal { code, why: format!("{shown}: not a regular file"), harmless: true });
    match kind {
        Some(kind) if kind.is_file() => Ok(()),
        Some(kind) if kind.is_symlink() => match std::fs::metadata(path) {
            Ok(found) if found.is_file() => Ok(()),
            Ok(_) => drop("link"),
            Err(_) => Err(ItemRefusal::new("missing", format!("{shown}: broken link"))),
        },
        _ => drop("device"),
    }
}

/// The folders in `root`, numbered in name order.
fn list_classes(root: &Path) -> Result<BTreeMap<String, usize>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root).with_context(|| root.display().to_string())? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        match entry.file_name().into_string() {
            Ok(name) if !name.chars().any(char::is_control) => names.push(name),
            Ok(name) => bail!("{}: '{name}' cannot be a class name", root.display()),
            Err(name) => bail!("{}: '{}' cannot be a class name", root.display(), name.display()),
        }
    }
    names.sort_unstable();
    if names.is_empty() {
        bail!("{}: contains no class folders", root.display());
    }
    Ok(names.into_iter().enumerate().map(|(number, name)| (name, number)).collect())
}

fn read_classes(file: &str) -> Result<BTreeMap<String, usize>> {
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    let mut classes = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if classes.insert(line.to_owned(), number).is_some() {
            bail!("{file}: class {line} appears twice");
        }
    }
    Ok(classes)
}
