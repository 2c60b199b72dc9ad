//! This machine: as many items at once as there are cores, or as asked.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use tarpipe::cli::{Outcome, Parallel};
use tarpipe::messages::progress;
use tarpipe::run::pool::Bug;
use tarpipe::run::shell::quote;
use tarpipe::run::signals;
use tarpipe::tally::{MaxFailures, Tally};

use crate::folder::Folder;
use crate::item::{Runner, Said};
use crate::items::Items;
use crate::job::Job;
use crate::joblog::{self, JobLog, Record, State};
use crate::worker;

/// What the threads share.
struct Work {
    runner: Runner,
    items: Arc<Items>,
    todo: Vec<u64>,
    chunk: usize,
    jitter: Option<f64>,
    next: AtomicUsize,
    failed: AtomicU64,
    max_failures: u64,
    log: Mutex<JobLog>,
    started: File,
}

/// Runs all items that are to be run.
pub fn run(job: &Job) -> Result<Outcome> {
    let folder = job.folder.absolute()?;
    if let Some(cwd) = &job.head.plan.cwd {
        std::env::set_current_dir(cwd).with_context(|| cwd.clone())?;
    }
    progress::count_items(job.todo.len() as u64);
    let work = Arc::new(Work::new(job, &folder)?);
    let (sender, results) = channel();
    for _ in 0..threads(job.settings.jobs).min(job.todo.len()) {
        let (work, sender) = (Arc::clone(&work), sender.clone());
        std::thread::Builder::new().name("item".into()).spawn(move || work.run(&sender))?;
    }
    drop(sender);
    let most = job.head.limits.max_failures;
    let mut tally = Tally::of("item");
    for result in results {
        let record = result?;
        worker::note(&mut tally, &record);
        if record.state == State::Done {
            progress::add_sample();
        } else {
            progress::add_failed();
            worker::tell(&record);
        }
    }
    let ended = tally.count_done() + tally.count_failed();
    if ended < job.todo.len() as u64 && !work.has_failed() {
        bail!(Bug); // a thread is gone without a word
    }
    Ok(Outcome { tally, max_failures: Some(MaxFailures::Count(most.unwrap_or(0))) })
}

impl Work {
    fn new(job: &Job, folder: &Folder) -> Result<Self> {
        Ok(Work {
            runner: Runner::new(job.head.clone(), Said::Kept(folder.clone()), false)?,
            items: Arc::clone(&job.items),
            todo: job.todo.clone(),
            chunk: job.settings.chunk,
            jitter: job.head.limits.jitter,
            next: AtomicUsize::new(0),
            failed: AtomicU64::new(0),
            max_failures: job.head.limits.max_failures.unwrap_or(u64::MAX),
            log: Mutex::new(JobLog::open(folder)?),
            started: File::create(folder.path().join("started"))?,
        })
    }

    /// Takes task after task until there are none left.
    fn run(&self, results: &Sender<Result<Record>>) {
        loop {
            let first = self.next.fetch_add(self.chunk, Ordering::Relaxed);
            let Some(task) = self.todo.get(first..) else { return };
            if !task.is_empty() {
                worker::wait_at_random(self.jitter);
            }
            for &index in &task[..task.len().min(self.chunk)] {
                let over = self.has_failed() || signals::is_ending();
                if over || results.send(self.run_item(index)).is_err() {
                    return;
                }
            }
        }
    }

    /// Whether more items have failed than may.
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) > self.max_failures
    }

    fn run_item(&self, index: u64) -> Result<Record> {
        // One small write: a reader of the file sees whole lines.
        (&self.started).write_all(format!("{index} {:.3}\n", joblog::now()).as_bytes()).context("the run folder")?;
        let record = self.items.with(index, |item| self.runner.run(item))?;
        signals::yield_to_signal();
        self.failed.fetch_add(u64::from(record.state == State::Failed), Ordering::Relaxed);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).append(&record)?;
        Ok(record)
    }
}

fn threads(jobs: usize) -> usize {
    Parallel { parallel: jobs }.threads()
}

/// The scripts that would run.
pub fn script(job: &Job) -> Result<String> {
    let templates = job.head.plan.templates()?;
    let mut text = String::new();
    for &index in &job.todo {
        job.items.with(index, |item| -> Result<()> {
            let script = quote(&templates.pipeline.fill(item));
            let env = format!("SHARD={} SHARD_INDEX={index} SHARD_COUNT={}", quote(item.value), item.count);
            let output = templates.output.as_ref().map(|output| format!(" > {}", quote(&output.fill(item))));
            Ok(writeln!(text, "{env} bash -o pipefail -eu -c {script}{}", output.unwrap_or_default())?)
        })?;
    }
    Ok(text)
}
