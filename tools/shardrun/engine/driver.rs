//! Spark and Ray: a small Python driver hands the tasks to the cluster and the results to `shardrun record`.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tarpipe::child::{exit_of, wait_readable};
use tarpipe::cli::Usage;
use tarpipe::signals;

use super::submission::Submission;
use crate::ask::cannot_start;
use crate::job::Job;
use crate::settings::Engine;

const DRIVER: &str = include_str!("../../../scripts/shardrun_driver.py");
/// How long a driver may take to end its tasks when we are ended.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// The driver's word for a package that is missing.
const MISSING: i32 = 4;

/// Runs all tasks, to the end.
pub fn run(job: &Job) -> Result<()> {
    let submission = Submission::create(job, job.settings.on)?;
    let driver = submission.path.join("driver.py");
    std::fs::write(&driver, DRIVER).with_context(|| driver.display().to_string())?;
    submission.save()?;
    let words = words(job, &submission)?;
    let mut command = Command::new(&words[0]);
    // Its stdout is chatter; ours may be data.
    command.args(&words[1..]).stdin(Stdio::null()).stdout(std::io::stderr()).process_group(0);
    let mut child = command.spawn().map_err(|err| cannot_start(&words[0], err))?;
    signals::guard_group(child.id());
    let exit = exit_of(&child)?;
    let id = child.id();
    signals::before_end(move |_| {
        signals::end_group(id, Signal::TERM);
        _ = wait_readable(&exit, Some(Instant::now() + LAST_WORDS));
    });
    let status = child.wait()?;
    signals::yield_to_signal();
    signals::release_group(id);
    let name = job.settings.on.name();
    match status.code() {
        Some(0) => Ok(()),
        Some(MISSING) => bail!("{name} is not installed for {} (pip install {})", words[0], package(job.settings.on)),
        _ => bail!("the driver of {name} failed ({status})"),
    }
}

/// The command that would run.
pub fn dry_run(job: &Job) -> Result<String> {
    let submission = Submission::sketch(job);
    let words: Vec<String> = words(job, &submission)?.iter().map(|word| tarpipe::process::quote(word)).collect();
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
    Ok(words)
}
