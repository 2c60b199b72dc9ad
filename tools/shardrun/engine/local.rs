//! The local engine: runs items on this machine, by default one per core.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use tarpipe::cli::{Outcome, ParallelFlags};
use tarpipe::messages::progress;
use tarpipe::run::pool::WorkerPanicked;
use tarpipe::run::shell::quote;
use tarpipe::run::signals;
use tarpipe::tally::{MaxFailures, Tally};

use crate::shardrun::engine::Engine;
use crate::shardrun::item::runner::{ItemRunner, StderrTo};
use crate::shardrun::plan::items::RunItems;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{self, ItemRecord, ItemStatus, JobLog};
use crate::shardrun::run::pending::PendingRun;
use crate::shardrun::task::worker;

/// This machine.
pub struct Local;

impl Engine for Local {
    fn run(&self, pending: PendingRun) -> Result<Outcome> {
        run(&pending)
    }

    fn dry_run(&self, pending: &PendingRun) -> Result<String> {
        script(pending)
    }
}

/// The state that the threads share.
struct LocalRun {
    runner: ItemRunner,
    items: Arc<RunItems>,
    todo: Vec<u64>,
    chunk: usize,
    jitter: Option<f64>,
    next: AtomicUsize,
    failed: AtomicU64,
    max_failures: u64,
    log: Mutex<JobLog>,
    started: File,
}

/// Runs all pending items and waits for them.
fn run(pending: &PendingRun) -> Result<Outcome> {
    let folder = pending.folder.absolute()?;
    if let Some(cwd) = &pending.spec.plan.cwd {
        std::env::set_current_dir(cwd).with_context(|| cwd.clone())?;
    }
    progress::count_items(pending.todo.len() as u64);
    let work = Arc::new(LocalRun::new(pending, &folder)?);
    let (sender, results) = channel();
    for _ in 0..threads(pending.settings.jobs).min(pending.todo.len()) {
        let (work, sender) = (Arc::clone(&work), sender.clone());
        std::thread::Builder::new().name("item".into()).spawn(move || work.run(&sender))?;
    }
    drop(sender);
    let most = pending.spec.limits.max_failures;
    let mut tally = Tally::of("item");
    for result in results {
        let record = result?;
        worker::add_to_tally(&mut tally, &record);
        if record.state == ItemStatus::Done {
            progress::add_sample();
        } else {
            progress::add_failed();
            worker::report_failure(&record);
        }
    }
    let ended = tally.count_done() + tally.count_failed();
    if ended < pending.todo.len() as u64 && !work.has_failed() {
        bail!(WorkerPanicked); // a thread has panicked
    }
    Ok(Outcome { tally, max_failures: Some(MaxFailures::Count(most.unwrap_or(0))) })
}

impl LocalRun {
    fn new(pending: &PendingRun, folder: &RunFolder) -> Result<Self> {
        Ok(LocalRun {
            runner: ItemRunner::new(pending.spec.clone(), StderrTo::Folder(folder.clone()), false)?,
            items: Arc::clone(&pending.items),
            todo: pending.todo.clone(),
            chunk: pending.settings.chunk,
            jitter: pending.spec.limits.jitter,
            next: AtomicUsize::new(0),
            failed: AtomicU64::new(0),
            max_failures: pending.spec.limits.max_failures.unwrap_or(u64::MAX),
            log: Mutex::new(JobLog::open(folder)?),
            started: File::create(folder.path().join("started"))?,
        })
    }

    /// Takes the next task until none is left.
    fn run(&self, results: &Sender<Result<ItemRecord>>) {
        loop {
            let first = self.next.fetch_add(self.chunk, Ordering::Relaxed);
            let Some(task) = self.todo.get(first..) else { return };
            if !task.is_empty() {
                worker::random_delay(self.jitter);
            }
            for &index in &task[..task.len().min(self.chunk)] {
                let is_over = self.has_failed() || signals::is_ending();
                if is_over || results.send(self.run_item(index)).is_err() {
                    return;
                }
            }
        }
    }

    /// Whether more items have failed than --max-failures allows.
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) > self.max_failures
    }

    fn run_item(&self, index: u64) -> Result<ItemRecord> {
        // A single small write, so that readers of the file see whole lines.
        (&self.started).write_all(format!("{index} {:.3}\n", job_log::now()).as_bytes()).context("the run folder")?;
        let record = self.items.with(index, |item| self.runner.run(item))?;
        signals::park_if_signalled();
        self.failed.fetch_add(u64::from(record.state == ItemStatus::Failed), Ordering::Relaxed);
        self.log.lock().append(&record)?;
        Ok(record)
    }
}

fn threads(jobs: usize) -> usize {
    ParallelFlags { parallel: jobs }.threads()
}

/// The commands that would run, one per item.
fn script(pending: &PendingRun) -> Result<String> {
    let templates = pending.spec.plan.templates()?;
    let mut text = String::new();
    for &index in &pending.todo {
        pending.items.with(index, |item| -> Result<()> {
            let script = quote(&templates.pipeline.fill(item));
            let env = format!("SHARD={} SHARD_INDEX={index} SHARD_COUNT={}", quote(item.value), item.count);
            let output = templates.output.as_ref().map(|output| format!(" > {}", quote(&output.fill(item))));
            Ok(writeln!(text, "{env} bash -o pipefail -eu -c {script}{}", output.unwrap_or_default())?)
        })?;
    }
    Ok(text)
}
