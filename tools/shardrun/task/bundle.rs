//! Bundles: self-contained files of tasks for workers. The first line is the plan with its limits; each further line is one
//! task, a list of items.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use tarpipe::location;
use tarpipe::source;

use crate::shardrun::plan::RunSpec;
use crate::shardrun::plan::items::RunItems;

/// Limits of a file, because each worker reads the whole file up to its task.
const MAX_ITEMS: usize = 10_000;
const MAX_TASKS: usize = 1_000;

/// The items of a task: number and value.
pub type TaskItems = Vec<(u64, String)>;

/// Number of tasks for these items in chunks of this size.
pub fn count_tasks(todo: &[u64], chunk: usize) -> usize {
    todo.len().div_ceil(chunk)
}

/// Writes the items `todo` in tasks of `chunk` items to bundles in `folder`. Each bundle is named after its first task.
pub fn write(folder: &Path, spec: &RunSpec, items: &RunItems, todo: &[u64], chunk: usize) -> Result<()> {
    let per_file = (MAX_ITEMS / chunk).clamp(1, MAX_TASKS);
    for (number, part) in todo.chunks(chunk * per_file).enumerate() {
        let path = folder.join(format!("{:06}.jsonl", number * per_file));
        let write = || -> Result<()> {
            let mut file = BufWriter::new(File::create_new(&path)?);
            write_one(&mut file, spec, items, part, chunk)?;
            Ok(file.flush()?)
        };
        write().with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Writes one bundle.
pub fn write_one(out: &mut impl Write, spec: &RunSpec, items: &RunItems, todo: &[u64], chunk: usize) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(spec)?)?;
    for task in todo.chunks(chunk) {
        let task: TaskItems = task.iter().map(|&index| (index, items.value(index))).collect();
        writeln!(out, "{}", serde_json::to_string(&task)?)?;
    }
    Ok(())
}

/// Reads the plan and one task of a bundle: a file, which may be compressed, `-`, or a folder of bundles.
pub fn read(name: &str, task: usize) -> Result<(RunSpec, TaskItems)> {
    let (name, skip) = match Path::new(name).is_dir() {
        true => file_of(Path::new(name), task)?,
        false => (name.to_owned(), task),
    };
    read_one(source::open(&name)?, skip).with_context(|| location::display(&name))
}

fn read_one(input: impl Read, skip: usize) -> Result<(RunSpec, TaskItems)> {
    let mut lines = BufReader::new(input).lines();
    let text = lines.next().context("empty file: expected a plan")??;
    let Some(task) = lines.nth(skip) else { bail!("no task {skip}") };
    let task = parse_items(&task?).with_context(|| format!("task {skip}"))?;
    Ok((parse_spec(&text)?, task))
}

/// Reads the next bundle from a stream of bundles with one task each; its plan is returned as text.
pub fn read_next(input: &mut impl BufRead) -> Result<(String, TaskItems)> {
    let (mut text, mut task) = (String::new(), String::new());
    input.read_line(&mut text)?;
    input.read_line(&mut task)?;
    Ok((text, parse_items(&task)?))
}

/// Parses the first line of a bundle.
pub fn parse_spec(text: &str) -> Result<RunSpec> {
    serde_json::from_str(text).context("not a plan")
}

fn parse_items(text: &str) -> Result<TaskItems> {
    serde_json::from_str(text).context("not a list of items")
}

/// Calls `show` with every task of a folder of bundles and its number.
pub fn each_task(folder: &Path, mut show: impl FnMut(usize, &TaskItems)) -> Result<()> {
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

/// The bundle that contains a task, and the position of the task in it.
fn file_of(folder: &Path, task: usize) -> Result<(String, usize)> {
    let first = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<usize>().ok();
    let files = files(folder)?.into_iter().filter_map(|path| Some((first(&path)?, path)));
    let (first, path) =
        files.filter(|(first, _)| *first <= task).max().with_context(|| format!("no bundle contains task {task}"))?;
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

/// When the bundles of a folder were written, which is before their first task started.
pub fn written_at(folder: &Path) -> f64 {
    let modified = fs::metadata(folder.join("000000.jsonl")).and_then(|found| found.modified());
    let since = modified.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0.0, |since| since.as_secs_f64())
}
