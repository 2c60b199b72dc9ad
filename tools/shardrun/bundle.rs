//! Bundles: a run's tasks in a form that needs nothing but itself. The first line says what is run, every
//! other line is a task: a list of items.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use tarpipe::location;
use tarpipe::source;

use crate::item::Head;
use crate::items::Items;

/// Workers read the file that has their task: a file holds so many items, and so many tasks, at most.
const ITEMS: usize = 10_000;
const TASKS: usize = 1_000;

/// The items of a task: index and value.
pub type Task = Vec<(u64, String)>;

/// How many tasks `todo` makes in chunks of this size.
pub fn count(todo: &[u64], chunk: usize) -> usize {
    todo.len().div_ceil(chunk)
}

/// Writes `todo` as tasks of `chunk` items into files of `folder`, named by their first task.
pub fn write(folder: &Path, head: &Head, items: &Items, todo: &[u64], chunk: usize) -> Result<()> {
    let per_file = (ITEMS / chunk).clamp(1, TASKS);
    for (number, part) in todo.chunks(chunk * per_file).enumerate() {
        let path = folder.join(format!("{:06}.jsonl", number * per_file));
        let write = || -> Result<()> {
            let mut file = BufWriter::new(File::create_new(&path)?);
            write_one(&mut file, head, items, part, chunk)?;
            Ok(file.flush()?)
        };
        write().with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Writes one bundle.
pub fn write_one(out: &mut impl Write, head: &Head, items: &Items, todo: &[u64], chunk: usize) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(head)?)?;
    for task in todo.chunks(chunk) {
        let task: Task = task.iter().map(|&index| (index, items.value(index))).collect();
        writeln!(out, "{}", serde_json::to_string(&task)?)?;
    }
    Ok(())
}

/// The head and one task of a bundle: a file, perhaps compressed, `-`, or a folder of bundles.
pub fn read(name: &str, task: usize) -> Result<(Head, Task)> {
    let (name, skip) = match Path::new(name).is_dir() {
        true => file_of(Path::new(name), task)?,
        false => (name.to_owned(), task),
    };
    read_one(source::open(&name)?, skip).with_context(|| location::display(&name))
}

fn read_one(input: impl Read, skip: usize) -> Result<(Head, Task)> {
    let mut lines = BufReader::new(input).lines();
    let text = lines.next().context("empty: not even a plan")??;
    let Some(task) = lines.nth(skip) else { bail!("there is no task {skip}") };
    let task = items(&task?).with_context(|| format!("task {skip}"))?;
    Ok((head(&text)?, task))
}

/// A bundle of one task, of which there are more in `input`; its head as it stands.
pub fn read_next(input: &mut impl BufRead) -> Result<(String, Task)> {
    let (mut text, mut task) = (String::new(), String::new());
    input.read_line(&mut text)?;
    input.read_line(&mut task)?;
    Ok((text, items(&task)?))
}

/// A head by its text.
pub fn head(text: &str) -> Result<Head> {
    serde_json::from_str(text).context("no plan")
}

fn items(text: &str) -> Result<Task> {
    serde_json::from_str(text).context("no list of items")
}

/// Shows every task of a folder of bundles, by its number.
pub fn each(folder: &Path, mut show: impl FnMut(usize, &Task)) -> Result<()> {
    let mut number = 0;
    for path in files(folder)? {
        let lines = BufReader::new(File::open(&path)?).lines();
        for line in lines.skip(1) {
            let task = serde_json::from_str(&line?).with_context(|| path.display().to_string())?;
            show(number, &task);
            number += 1;
        }
    }
    Ok(())
}

/// The file with a task, and its place there.
fn file_of(folder: &Path, task: usize) -> Result<(String, usize)> {
    let first = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<usize>().ok();
    let files = files(folder)?.into_iter().filter_map(|path| Some((first(&path)?, path)));
    let (first, path) = files.filter(|(first, _)| *first <= task).max().context("no bundle with this task")?;
    Ok((path.to_string_lossy().into_owned(), task - first))
}

/// The bundles in a folder, in order.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let is_bundle = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "jsonl");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_bundle).collect();
    paths.sort();
    Ok(paths)
}

/// When the bundles of a folder were written, before their first task could begin.
pub fn time(folder: &Path) -> f64 {
    let modified = fs::metadata(folder.join("000000.jsonl")).and_then(|found| found.modified());
    let since = modified.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0.0, |since| since.as_secs_f64())
}
