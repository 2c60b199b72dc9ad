//! The hidden subcommands: `item` runs tasks on a worker, and `record` takes the results of a driver into the run folder.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{self, Signal};
use tarpipe::cli::Outcome;
use tarpipe::messages;
use tarpipe::random::Random;
use tarpipe::run::signals;
use tarpipe::tally::{MaxFailures, Tally};

use crate::shardrun::item::runner::{ItemRunner, StderrTo};
use crate::shardrun::plan::RunSpec;
use crate::shardrun::plan::items::RunItem;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{self, ItemRecord, ItemStatus, JobLog};
use crate::shardrun::settings::use_endpoint;
use crate::shardrun::task::bundle::{self, TaskItems};
use crate::shardrun::task::requeue::{self, TaskProgress};
use crate::shardrun::task::results::{TaskResults, write_out};

/// Runs one task of a bundle, item after item. A final task succeeds even if items fail.
pub fn run(name: &str, task: Option<usize>, is_final: bool) -> Result<Outcome> {
    let number = task.or_else(pod_index).unwrap_or(0);
    let (spec, items) = bundle::read(name, number)?;
    let mut tally = Tally::of("item");
    let mut results = TaskResults::open(name)?;
    results.share_message(items.len());
    let progress = requeue::on_warning(&results, number);
    run_items(&prepare_runner(spec, results.stderr_to())?, &items, &mut results, &mut tally, &progress)?;
    let most = if is_final { u64::MAX } else { 0 };
    Ok(Outcome { tally, max_failures: Some(MaxFailures::Count(most)) })
}

/// Runs tasks from stdin, each a bundle of its own; an empty line ends the results of each. If stdin ends while a task runs,
/// nobody waits for its result any more, and this process ends itself by TERM.
pub fn serve() -> Result<Outcome> {
    let (sender, tasks) = channel();
    let left = Arc::new(AtomicUsize::new(0));
    let received = Arc::clone(&left);
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut input = io::stdin().lock();
        while input.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
            received.fetch_add(1, Ordering::SeqCst);
            _ = sender.send(bundle::read_next(&mut input));
        }
        if received.load(Ordering::SeqCst) > 0 {
            _ = process::kill_process(process::getpid(), Signal::TERM);
        }
    })?;
    let mut results = TaskResults::to_stdout();
    let progress = TaskProgress::default();
    let mut last: Option<(String, ItemRunner)> = None; // most tasks are of the same run as the one before
    for task in tasks {
        let (text, items) = task?;
        let (text, runner) = match last.take_if(|(last, _)| *last == text) {
            Some(same) => same,
            None => (text.clone(), prepare_runner(bundle::parse_spec(&text)?, results.stderr_to())?),
        };
        run_items(&runner, &items, &mut results, &mut Tally::of("item"), &progress)?;
        last = Some((text, runner));
        left.fetch_sub(1, Ordering::SeqCst);
        write_out("\n")?;
    }
    Ok(Outcome::default())
}

/// Makes a runner, and sets the folder and the object store of this process for it.
fn prepare_runner(spec: RunSpec, stderr_to: StderrTo) -> Result<ItemRunner> {
    use_endpoint(spec.limits.endpoint.as_deref());
    if let Some(cwd) = &spec.plan.cwd {
        let context = || format!("{cwd}: cannot change to this folder on {}; see --chdir", job_log::host());
        std::env::set_current_dir(cwd).with_context(context)?;
    }
    ItemRunner::new(spec, stderr_to, true)
}

fn run_items(
    runner: &ItemRunner,
    items: &TaskItems,
    results: &mut TaskResults,
    tally: &mut Tally,
    progress: &TaskProgress,
) -> Result<()> {
    let spec = runner.spec();
    random_delay(spec.limits.jitter);
    if results.failed_more_than(spec.limits.max_failures)? {
        messages::notice("too many items have failed; skipping this task");
        return Ok(());
    }
    let count = spec.plan.count;
    let ended = results.ended_before(count, spec.limits.redo)?;
    let has_ended = |index: u64| ended.get(index as usize).is_some_and(|&ended| ended);
    let todo: Vec<&(u64, String)> = items.iter().filter(|(index, _)| !has_ended(*index)).collect();
    for (done, (index, value)) in todo.iter().enumerate() {
        let item = RunItem { value, index: *index, count };
        progress.begin(&item, done, todo.len());
        results.begin(*index)?;
        let record = runner.run(&item)?;
        signals::park_if_signalled(); // the item may have failed because of it
        add_to_tally(tally, &record);
        if record.state == ItemStatus::Failed {
            report_failure(&record);
        }
        results.put(&record)?;
    }
    Ok(())
}

/// Adds a record to the tally.
pub fn add_to_tally(tally: &mut Tally, record: &ItemRecord) {
    match record.state {
        ItemStatus::Done => tally.done(),
        ItemStatus::Failed => tally.fail(known_code(record.code.as_deref())),
        ItemStatus::Running | ItemStatus::Left => {}
    }
}

/// Prints the failure of an item.
pub fn report_failure(record: &ItemRecord) {
    let message = record.message.as_deref().unwrap_or("failed");
    messages::notice(&format!("item {} ({}): {message}", record.item, record.shard));
}

fn known_code(code: Option<&str>) -> &'static str {
    let known = ["damaged", "exit_status", "lost", "missing", "output", "signal", "system", "timeout"];
    known.into_iter().find(|known| Some(*known) == code).unwrap_or("failed")
}

/// The number that an Indexed Job gives to each pod.
fn pod_index() -> Option<usize> {
    std::env::var("JOB_COMPLETION_INDEX").ok()?.parse().ok()
}

/// Waits for a random time, so that tasks do not contact a server all at once.
pub fn random_delay(jitter: Option<f64>) {
    let Some(most) = jitter else { return };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = now.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(32);
    std::thread::sleep(Duration::from_secs_f64(most * Random::new(seed).fraction()));
}

/// Adds results from stdin, one JSON line each, to a run.
pub fn record(dir: &Path) -> Result<Outcome> {
    let folder = RunFolder::find(Some(dir))?;
    let mut log = JobLog::open(&folder)?;
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let line = line?;
        let mut record: ItemRecord =
            serde_json::from_str(&line).with_context(|| format!("line {}: not a result", number + 1))?;
        if record.start == 0.0 {
            record.start = job_log::now(); // optional in drivers' results
        }
        store(&folder, &mut log, &record)?;
    }
    Ok(Outcome::default())
}

/// Adds a result from another machine to the job log, and its stderr to the file of the item.
pub fn store(folder: &RunFolder, log: &mut JobLog, record: &ItemRecord) -> Result<()> {
    if let Some(stderr) = record.stderr.as_deref().filter(|stderr| !stderr.is_empty()) {
        let path = folder.stderr(record.item);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(stderr.as_bytes())).with_context(|| path.display().to_string())?;
    }
    log.append(record)
}
