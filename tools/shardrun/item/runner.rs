//! Runs an item from start to end: skips it if its output exists, repeats failed attempts, and makes its record.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tarpipe::cli::FORCE_VARIABLE;
use tarpipe::location;
use tarpipe::messages;
use tarpipe::run::backoff::Backoff;
use tarpipe::run::orphans::OrphanGuard;
use tarpipe::run::program::{self, ToolFolder};
use tarpipe::run::shell;
use tarpipe::sink;

use crate::shardrun::item::attempt::{AttemptFailure, ItemAttempt, StoredOutput};
use crate::shardrun::item::stderr_tail::StderrTail;
use crate::shardrun::plan::items::RunItem;
use crate::shardrun::plan::{PlanTemplates, RunSpec, is_path};
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{ItemRecord, ItemStatus};

/// The delays between attempts.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// Where the stderr of pipelines goes.
#[derive(Clone)]
pub enum StderrTo {
    /// To the file of the item in the run folder.
    Folder(RunFolder),
    /// To our stderr; its last part goes into the record.
    Tail(StderrTail),
}

/// Runs items of one plan.
pub struct ItemRunner {
    spec: RunSpec,
    templates: PlanTemplates,
    stderr_to: StderrTo,
    /// PATH with the folder of the tools appended.
    path: String,
    /// That folder, which may be removed when this value is dropped.
    _tools: ToolFolder,
    /// Ends the pipelines if this process is killed.
    _guard: Option<OrphanGuard>,
    bash: PathBuf,
    /// Whether items start long after the outputs were listed, so that stored outputs are checked again.
    is_task: bool,
}

impl ItemRunner {
    /// A runner for the items of one plan. `is_task` is false if the outputs were listed just now.
    pub fn new(spec: RunSpec, stderr_to: StderrTo, is_task: bool) -> Result<Self> {
        let tools = ToolFolder::find()?;
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        let path = format!("{path}:{}", tools.path().display());
        // With its own PATH, a program given by name is started by fork, which takes longer than posix_spawn.
        let bash = shell::find("bash").unwrap_or_else(|| "bash".into());
        let guard = [program::command("shardrun")?, vec!["guard".into()]].concat();
        let guard = OrphanGuard::start(&guard).context("cannot start shardrun guard")?;
        let templates = spec.plan.templates()?;
        Ok(ItemRunner { templates, spec, stderr_to, bash, path, _tools: tools, _guard: guard, is_task })
    }

    /// The plan and the limits.
    pub fn spec(&self) -> &RunSpec {
        &self.spec
    }

    /// Runs an item. A failure of the item is part of the record; an error is one of shardrun itself.
    pub fn run(&self, item: &RunItem<'_>) -> Result<ItemRecord> {
        let output = self.templates.output.as_ref().map(|template| template.fill(item));
        let also: Vec<String> = self.templates.also.iter().map(|template| template.fill(item)).collect();
        let mut record = ItemRecord::begin(item);
        if !self.spec.limits.redo && output.as_deref().is_some_and(|name| self.outputs_exist(name, &also)) {
            record.state = ItemStatus::Done;
            return Ok(record);
        }
        let script = self.templates.pipeline.fill(item);
        let started = Instant::now();
        loop {
            record.attempts += 1;
            let (result, tail) = self.attempt(item, record.attempts, &script, output.as_deref(), &also)?;
            record.seconds = started.elapsed().as_secs_f64();
            record.stderr = tail;
            set_result(&mut record, result);
            explain_early_reader(&mut record, &script);
            if record.state == ItemStatus::Done || record.attempts > self.spec.limits.retries {
                return Ok(record);
            }
            messages::detail(&format!("item {}: {}; retrying", item.index, record.message.as_deref().unwrap_or("")));
            std::thread::sleep(BACKOFF.after(record.attempts));
        }
    }

    /// Whether all files of an item exist: another copy of its task may have written them.
    fn outputs_exist(&self, output: &str, also: &[String]) -> bool {
        let exists = match location::is_object(output) {
            true => self.is_task && is_stored(output),
            false => is_file(output),
        };
        exists && also.iter().all(|name| is_file(name))
    }

    fn attempt(
        &self,
        item: &RunItem<'_>,
        number: u32,
        script: &str,
        output: Option<&str>,
        also: &[String],
    ) -> Result<(Result<StoredOutput, AttemptFailure>, Option<String>)> {
        let env = [
            ("PATH", self.path.clone()),
            ("SHARD", item.value.to_owned()),
            ("SHARD_INDEX", item.index.to_string()),
            ("SHARD_COUNT", item.count.to_string()),
            ("SHARD_ATTEMPT", number.to_string()),
            (FORCE_VARIABLE, "1".to_owned()),
            ("TARPIPE_SHARD", format!("{}/{}", item.index, item.count)),
        ];
        let timeout = self.spec.limits.timeout.map(Duration::from_secs_f64);
        let attempt = ItemAttempt { bash: &self.bash, script, env: &env, output, also, timeout };
        match &self.stderr_to {
            StderrTo::Folder(folder) => Ok((attempt.run(open_stderr(folder, item.index)?), None))
                .inspect(|_| remove_if_empty(folder, item.index)),
            StderrTo::Tail(tail) => {
                let (reader, writer) = io::pipe()?;
                let pending = tail.forward(reader)?;
                let result = attempt.run(File::from(std::os::fd::OwnedFd::from(writer)));
                Ok((result, tail.finish(pending)))
            }
        }
    }
}

fn is_file(name: &str) -> bool {
    is_path(name) && fs::metadata(location::path_of(name)).is_ok_and(|found| found.is_file())
}

fn set_result(record: &mut ItemRecord, result: Result<StoredOutput, AttemptFailure>) {
    record.seconds = (record.seconds * 1e6).round() / 1e6;
    match result {
        Ok(stored) => {
            record.state = ItemStatus::Done;
            (record.bytes, record.samples) = (stored.bytes, stored.samples);
            (record.exit, record.code, record.message) = (Some(0), None, None);
        }
        Err(failure) => {
            record.state = ItemStatus::Failed;
            record.exit = failure.exit;
            record.code = Some(failure.code.to_owned());
            record.message = Some(failure.message);
        }
    }
}

/// Adds a hint if a stage failed because the next one stopped reading, which bash's pipefail treats like any failure. The
/// stage dies of SIGPIPE, or reports a write error as curl does.
fn explain_early_reader(record: &mut ItemRecord, script: &str) {
    let (stage, status) = match record.exit {
        Some(141) if script.contains('|') => ("a stage", 141),
        Some(23) if script.contains("curl") && script.contains('|') => ("curl", 23),
        _ => return,
    };
    if let Some(message) = record.message.as_mut() {
        message.push_str(&format!(
            ": {stage} could not write all of its output, as happens if the next stage stops reading early; if that is intended, write {{ STAGE || [ $? = {status} ]; }} | ..."
        ));
    }
}

/// Whether an object exists. If the store cannot be listed, the item runs again at worst.
fn is_stored(name: &str) -> bool {
    !sink::is_command(name)
        && sink::existing(name).map(|found| found.contains_key(name)).unwrap_or_else(|err| {
            messages::detail(&format!("{err:#}; running the item anyway"));
            false
        })
}

/// Opens the file for appending, because another copy of this task may write to it at the same time.
fn open_stderr(folder: &RunFolder, index: u64) -> Result<File> {
    let path = folder.stderr(index);
    let open = || OpenOptions::new().create(true).append(true).open(&path);
    let file = open().or_else(|err| match (err.kind(), path.parent()) {
        (io::ErrorKind::NotFound, Some(parent)) => fs::create_dir_all(parent).and_then(|()| open()),
        _ => Err(err),
    });
    file.with_context(|| path.display().to_string())
}

/// Removes the file of an item that wrote nothing.
fn remove_if_empty(folder: &RunFolder, index: u64) {
    let path = folder.stderr(index);
    if fs::metadata(&path).is_ok_and(|found| found.len() == 0) {
        _ = fs::remove_file(path);
    }
}
