//! The worker's side: one task of a bundle. And the driver's: results into the run folder.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{self, Signal};
use tarpipe::cli::Outcome;
use tarpipe::random::Random;
use tarpipe::report::{MaxFailures, Tally};
use tarpipe::{messages, signals};

use crate::bundle::{self, Task};
use crate::folder::Folder;
use crate::item::{Head, Runner, Said};
use crate::items::Item;
use crate::joblog::{self, JobLog, Record, State};
use crate::listener::Listener;
use crate::settings::use_endpoint;

/// Kubernetes keeps so much of a termination message.
const MAX_MESSAGE: usize = 4096;

/// Runs a task: the items of one line of a bundle, one after another. A final task is a success whatever
/// became of its items.
pub fn run(name: &str, task: Option<usize>, is_final: bool) -> Result<Outcome> {
    let number = task.or_else(task_of_pod).unwrap_or(0);
    let (head, items) = bundle::read(name, number)?;
    let mut tally = Tally::of("item");
    requeue_on_warning();
    let mut results = Results::open(name)?;
    work(&runner(head, results.said())?, &items, &mut results, &mut tally)?;
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
    let mut results = Results::Stdout(None, String::new());
    let mut last: Option<(String, Runner)> = None; // the next task is mostly of the same run
    for task in tasks {
        let (text, items) = task?;
        let (text, runner) = match last.take_if(|(last, _)| *last == text) {
            Some(same) => same,
            None => (text.clone(), runner(bundle::head(&text)?, results.said())?),
        };
        work(&runner, &items, &mut results, &mut Tally::of("item"))?;
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

fn work(runner: &Runner, items: &Task, results: &mut Results, tally: &mut Tally) -> Result<()> {
    let head = runner.head();
    wait_at_random(head.limits.jitter);
    if results.failed_more_than(head.limits.max_failures)? {
        messages::notice("more items have failed than may: this task is left");
        return Ok(());
    }
    let count = head.plan.count;
    let before = results.done_before(count)?;
    for (index, value) in items {
        if before.get(*index as usize).is_some_and(|&done| done) {
            continue;
        }
        results.begin(*index)?;
        let record = runner.run(&Item { value, index: *index, count })?;
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

/// Slurm warns by USR1 that the time is nearly over: the task goes back into the queue. On TERM it is
/// for Slurm to say whether it does.
fn requeue_on_warning() {
    let Ok(job) = std::env::var("SLURM_JOB_ID") else { return };
    if std::env::var("SHARDRUN_REQUEUE").is_err() {
        return;
    }
    signals::before_end(move |signal| {
        if signal == Signal::USR1.as_raw() {
            signals::clean_up();
            _ = std::process::Command::new("timeout").args(["20", "scontrol", "requeue", &job]).status();
        }
    });
}

/// Where the results of a task go.
enum Results {
    /// Into the run folder, which this machine sees.
    Folder(Folder, JobLog, PathBuf),
    /// To stdout, and as a termination message.
    Stdout(Option<PathBuf>, String),
}

impl Results {
    fn open(name: &str) -> Result<Self> {
        if !Path::new(name).is_dir() {
            return Ok(Results::Stdout(std::env::var_os("SHARDRUN_MESSAGE").map(PathBuf::from), String::new()));
        }
        let submission = std::fs::canonicalize(name)?;
        let folder = Folder::of_submission(&submission)?;
        let log = JobLog::open(&folder)?;
        Ok(Results::Folder(folder, log, submission))
    }

    fn said(&self) -> Said {
        match self {
            Results::Folder(folder, ..) => Said::Kept(folder.clone()),
            Results::Stdout(..) => Said::Passed(Listener::default()),
        }
    }

    /// Whether the run is to start nothing more, by what has failed since it was submitted.
    fn failed_more_than(&self, most: Option<u64>) -> Result<bool> {
        let (Results::Folder(folder, _, submission), Some(most)) = (self, most) else { return Ok(false) };
        let (mut failed, begun) = (0, bundle::time(submission));
        joblog::read(folder, |record| failed += u64::from(record.state == State::Failed && record.start >= begun))?;
        Ok(failed > most)
    }

    /// What a task that was requeued had done before; outputs alone do not tell where there are none.
    fn done_before(&self, count: u64) -> Result<Vec<bool>> {
        let restarted = std::env::var("SLURM_RESTART_COUNT").is_ok_and(|restarts| restarts != "0");
        match self {
            Results::Folder(folder, ..) if restarted => joblog::marked(folder, count),
            _ => Ok(Vec::new()),
        }
    }

    /// Shows an item as running where the engine does not: steps of an allocation.
    fn begin(&self, index: u64) -> Result<()> {
        match self {
            Results::Folder(folder, ..) if std::env::var_os("SHARDRUN_STARTED").is_some() => folder.note_start(index),
            _ => Ok(()),
        }
    }

    fn put(&mut self, record: &Record) -> Result<()> {
        match self {
            Results::Folder(_, log, _) => log.append(record),
            Results::Stdout(file, message) => {
                write_out(&(serde_json::to_string(record)? + "\n"))?;
                if let Some(file) = file {
                    add_message(message, record)?;
                    std::fs::write(file, message.as_bytes()).context("SHARDRUN_MESSAGE")?;
                }
                Ok(())
            }
        }
    }
}

fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What a message ends with that has no room for all results: the rest is on stdout.
pub const MORE: &str = "more\n";

/// Adds a record to a termination message, as long as there is room. Of what a failed item said, the end.
fn add_message(message: &mut String, record: &Record) -> Result<()> {
    let end = |text: &str| text.chars().skip(text.chars().count().saturating_sub(500)).collect();
    let said = record.stderr.as_deref().filter(|_| record.state == State::Failed).map(end);
    let mut record = Record { stderr: said, shard: String::new(), ..record.clone() };
    if let Some(text) = &mut record.message {
        joblog::shorten(text, 500);
    }
    let line = serde_json::to_string(&record)? + "\n";
    if message.ends_with(MORE) {
        return Ok(());
    }
    let fits = message.len() + line.len() + MORE.len() <= MAX_MESSAGE;
    message.push_str(if fits { &line } else { MORE });
    Ok(())
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
