//! The worker's side: one task of a bundle. And the driver's: results into the run folder.

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

use crate::bundle::{self, Task};
use crate::folder::Folder;
use crate::item::{Head, Runner, Said};
use crate::items::Item;
use crate::joblog::{self, JobLog, Record, State};
use crate::requeue::{self, Progress};
use crate::results::{Results, write_out};
use crate::settings::use_endpoint;

/// Runs a task: the items of one line of a bundle, one after another. A final task is a success whatever
/// became of its items.
pub fn run(name: &str, task: Option<usize>, is_final: bool) -> Result<Outcome> {
    let number = task.or_else(task_of_pod).unwrap_or(0);
    let (head, items) = bundle::read(name, number)?;
    let mut tally = Tally::of("item");
    let mut results = Results::open(name)?;
    results.share_message(items.len());
    let progress = requeue::on_warning(&results, number);
    work(&runner(head, results.said())?, &items, &mut results, &mut tally, &progress)?;
    let most = if is_final { u64::MAX } else { 0 };
    Ok(Outcome { tally, max_failures: Some(MaxFailures::Count(most)) })
}

/// Runs task after task from stdin, each a bundle of its own; an empty line ends the results of one. When stdin ends
/// before a task does, nobody waits for it any more, and it is ended as by TERM.
pub fn serve() -> Result<Outcome> {
    let (sender, tasks) = channel();
    let left = Arc::new(AtomicUsize::new(0));
    let begun = Arc::clone(&left);
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut input = io::stdin().lock();
        while input.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
            begun.fetch_add(1, Ordering::SeqCst);
            _ = sender.send(bundle::read_next(&mut input));
        }
        if begun.load(Ordering::SeqCst) > 0 {
            _ = process::kill_process(process::getpid(), Signal::TERM);
        }
    })?;
    let mut results = Results::to_stdout();
    let progress = Progress::default();
    let mut last: Option<(String, Runner)> = None; // the next task is mostly of the same run
    for task in tasks {
        let (text, items) = task?;
        let (text, runner) = match last.take_if(|(last, _)| *last == text) {
            Some(same) => same,
            None => (text.clone(), runner(bundle::head(&text)?, results.said())?),
        };
        work(&runner, &items, &mut results, &mut Tally::of("item"), &progress)?;
        last = Some((text, runner));
        left.fetch_sub(1, Ordering::SeqCst);
        write_out("\n")?;
    }
    Ok(Outcome::default())
}

/// What runs items of a plan, in its folder.
fn runner(head: Head, said: Said) -> Result<Runner> {
    use_endpoint(head.limits.endpoint.as_deref());
    if let Some(cwd) = &head.plan.cwd {
        let here = || format!("{cwd}: not on {} (see --chdir)", joblog::host());
        std::env::set_current_dir(cwd).with_context(here)?;
    }
    Runner::new(head, said, true)
}

fn work(runner: &Runner, items: &Task, results: &mut Results, tally: &mut Tally, progress: &Progress) -> Result<()> {
    let head = runner.head();
    wait_at_random(head.limits.jitter);
    if results.failed_more_than(head.limits.max_failures)? {
        messages::notice("too many items have failed: skipping this task");
        return Ok(());
    }
    let count = head.plan.count;
    let before = results.ended_before(count, head.limits.redo)?;
    let has_ended = |index: u64| before.get(index as usize).is_some_and(|&ended| ended);
    let todo: Vec<&(u64, String)> = items.iter().filter(|(index, _)| !has_ended(*index)).collect();
    for (done, (index, value)) in todo.iter().enumerate() {
        let item = Item { value, index: *index, count };
        progress.begin(&item, done, todo.len());
        results.begin(*index)?;
        let record = runner.run(&item)?;
        signals::yield_to_signal(); // it may have ended because we do
        note(tally, &record);
        if record.state == State::Failed {
            tell(&record);
        }
        results.put(&record)?;
    }
    Ok(())
}

/// Counts a record.
pub fn note(tally: &mut Tally, record: &Record) {
    match record.state {
        State::Done => tally.done(),
        State::Failed => tally.fail(known_code(record.code.as_deref())),
        State::Running => {}
    }
}

/// Says that an item failed.
pub fn tell(record: &Record) {
    let message = record.message.as_deref().unwrap_or("failed");
    messages::notice(&format!("item {} ({}): {message}", record.item, record.shard));
}

fn known_code(code: Option<&str>) -> &'static str {
    let known = ["damaged", "exit_status", "lost", "missing", "output", "signal", "system", "timeout"];
    known.into_iter().find(|known| Some(*known) == code).unwrap_or("failed")
}

/// An Indexed Job tells its pods their number.
fn task_of_pod() -> Option<usize> {
    std::env::var("JOB_COMPLETION_INDEX").ok()?.parse().ok()
}

/// Begins a task at a random moment, so that not all ask a server at once.
pub fn wait_at_random(jitter: Option<f64>) {
    let Some(most) = jitter else { return };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = now.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(32);
    std::thread::sleep(Duration::from_secs_f64(most * Random::new(seed).fraction()));
}

/// Takes results, a JSON line each, from stdin into a run.
pub fn record(dir: &Path) -> Result<Outcome> {
    let folder = Folder::find(Some(dir))?;
    let mut log = JobLog::open(&folder)?;
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let line = line?;
        let mut record: Record =
            serde_json::from_str(&line).with_context(|| format!("line {}: no result", number + 1))?;
        if record.start == 0.0 {
            record.start = joblog::now(); // a driver need not know
        }
        keep(&folder, &mut log, &record)?;
    }
    Ok(Outcome::default())
}

/// Puts a result from elsewhere into the job log, and what the item said into its file.
pub fn keep(folder: &Folder, log: &mut JobLog, record: &Record) -> Result<()> {
    if let Some(said) = record.stderr.as_deref().filter(|said| !said.is_empty()) {
        let path = folder.stderr(record.item);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(said.as_bytes())).with_context(|| path.display().to_string())?;
    }
    log.append(record)
}
