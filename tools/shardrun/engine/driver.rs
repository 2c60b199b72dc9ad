//! Spark and Ray: a small Python driver hands the tasks to the cluster and the results to `shardrun record`.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tarpipe::cli::Usage;
use tarpipe::messages;
use tarpipe::run::signals;
use tarpipe::run::watched::{exit_of, wait_readable};

use super::submission::Submission;
use super::ties;
use crate::ask::cannot_start;
use crate::folder::Folder;
use crate::job::Job;
use crate::settings::Engine;

const DRIVER: &str = include_str!("../../../scripts/shardrun_driver.py");
/// How long a driver may take to end its tasks when we are ended.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// How long to wait for a driver that was asked to end, or whose shardrun is gone: it looks every second, and then has
/// as long as above.
const PATIENCE: Duration = Duration::from_secs(60);
/// The driver's word for a package that is missing.
const MISSING: i32 = 4;

/// Runs all tasks, to the end.
pub fn run(job: &Job) -> Result<()> {
    let submission = Submission::create(job, job.settings.on)?;
    let driver = submission.path.join("driver.py");
    std::fs::write(&driver, DRIVER).with_context(|| driver.display().to_string())?;
    submission.save()?;
    let tie = ties::tie(&submission.path)?;
    let words = words(job, &submission)?;
    let mut command = Command::new(&words[0]);
    // Its stdout is chatter; ours may be data.
    command.args(&words[1..]).stdin(Stdio::null()).stdout(std::io::stderr()).process_group(0);
    let mut child = command.spawn().map_err(|err| cannot_start(&words[0], err))?;
    signals::guard_group(child.id());
    let exit = exit_of(&child)?;
    let (id, path) = (child.id(), submission.path.clone());
    signals::before_end(move |_| {
        _ = tie.unlock(); // for a driver that is none of the launcher's group
        signals::end_group(id, Signal::TERM);
        let until = Instant::now() + LAST_WORDS;
        _ = wait_readable(&exit, Some(until));
        ties::wait_for_driver(&path, Some(until.saturating_duration_since(Instant::now())));
    });
    let status = child.wait()?;
    signals::yield_to_signal();
    signals::release_group(id);
    // A launcher that lost its cluster has not ended the driver there.
    if ties::has_driver(&submission.path) {
        ties::wait_for_driver(&submission.path, None);
        signals::yield_to_signal();
        return Ok(());
    }
    let name = job.settings.on.name();
    match status.code() {
        Some(0) => Ok(()),
        Some(MISSING) => bail!("{name} is not installed for {} (pip install {})", words[0], package(job.settings.on)),
        _ => bail!("the driver of {name} failed ({status})"),
    }
}

/// Whether the driver of a submission is at work, or about to be.
pub fn is_driven(submission: &Submission) -> bool {
    matches!(submission.engine, Engine::Spark | Engine::Ray)
        && (ties::has_owner(&submission.path) || ties::has_driver(&submission.path))
}

/// Waits for drivers whose shardrun is gone: they are about to end their tasks, and nothing may run beside them.
pub fn await_orphans(folder: &Folder) -> Result<()> {
    for submission in Submission::all(folder)?.iter().filter(|submission| is_driven(submission)) {
        let path = &submission.path;
        if ties::has_owner(path) {
            bail!("{}: another shardrun is at work on this run", folder.path().display());
        }
        messages::notice(&format!("waiting for the driver of an earlier shardrun to end ({})", path.display()));
        wait_for(submission)?;
    }
    Ok(())
}

/// Ends the driver of a submission and what it has running.
pub fn cancel(submission: &Submission) -> Result<()> {
    if !is_driven(submission) {
        return Ok(());
    }
    ties::cancel(&submission.path)?;
    wait_for(submission)
}

fn wait_for(submission: &Submission) -> Result<()> {
    let started = Instant::now();
    while is_driven(submission) {
        if started.elapsed() > PATIENCE {
            let (path, name) = (submission.path.display(), submission.engine.name());
            bail!("{path}: the driver of {name} has not ended within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(ties::EVERY);
    }
    Ok(())
}

/// The command that would run.
pub fn dry_run(job: &Job) -> Result<String> {
    let submission = Submission::sketch(job);
    let words: Vec<String> = words(job, &submission)?.iter().map(|word| tarpipe::run::shell::quote(word)).collect();
    Ok(format!("{}\n", words.join(" ")))
}

fn package(engine: Engine) -> &'static str {
    if engine == Engine::Spark { "pyspark" } else { "ray" }
}

fn words(job: &Job, submission: &Submission) -> Result<Vec<String>> {
    let settings = &job.settings;
    let launcher = settings.launcher.as_deref().unwrap_or("python3");
    let Some(mut words) = shlex::split(launcher).filter(|words| !words.is_empty()) else {
        bail!(Usage(format!("--launcher '{launcher}': not a command")));
    };
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    words.extend([text(&submission.path.join("driver.py")), settings.on.name().into(), text(&submission.path)]);
    words.extend(settings.engine_arg.iter().cloned());
    let run = submission.path.parent().unwrap_or(&submission.path);
    words.extend(["--run".into(), text(run)]);
    words.extend(["--shardrun".into(), text(&std::env::current_exe().context("cannot find this program")?)]);
    words.extend(["-j".into(), settings.jobs.to_string()]);
    for (flag, value) in [("--master", &settings.master), ("--address", &settings.address)] {
        words.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
    }
    words.push("--owned".into());
    Ok(words)
}
