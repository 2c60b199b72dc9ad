//! Slurm's --interactive: all tasks as steps of one allocation by salloc.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tarpipe::messages;
use tarpipe::run::shell::quote;
use tarpipe::run::signals;

use super::slurm::{Site, prelude, worker};
use super::submission::{Part, Submission};
use crate::ask::{ask_at_end, cannot_start};
use crate::bundle;
use crate::config::{Config, flags};
use crate::job::Job;
use crate::settings::Engine;

/// What Slurm may take to hear that an interrupted allocation is not needed any more.
const FAREWELL: Duration = Duration::from_secs(20);

/// Runs all tasks as steps of one allocation, and waits.
pub fn run(job: &Job) -> Result<()> {
    let config = Config::read(job.settings.config.as_deref())?;
    let mut submission = Submission::create(job, Engine::Slurm)?;
    let tasks = bundle::count(&job.todo, job.settings.chunk);
    let name = submission.name(&job.head.plan);
    submission.parts.push(Part { id: name.clone(), first: 0, tasks });
    submission.cluster = Site::ask()?.name;
    submission.save()?;
    std::fs::write(job.folder.path().join("started"), "").context("the run folder")?;
    let script = script(job, &config, &submission, tasks)?;
    let file = submission.path.join("interactive.sh");
    std::fs::write(&file, script).with_context(|| file.display().to_string())?;
    let mut salloc = Command::new("salloc");
    salloc.arg("--quiet").args(flags(&config.interactive)?);
    if job.settings.jobs > 0 {
        salloc.arg(format!("--ntasks={}", job.settings.jobs));
    }
    if !job.settings.after.is_empty() {
        salloc.arg(format!("--dependency=afterok:{}", job.settings.after.join(":")));
    }
    // The name is how the allocation is found again, so ours goes last.
    salloc.args(&job.settings.slurm_arg).arg(format!("--job-name={name}"));
    salloc.arg("bash").arg(&file).stdin(Stdio::null()).process_group(0);
    let mut child = salloc.spawn().map_err(|err| cannot_start("salloc", err))?;
    signals::guard_group(child.id());
    signals::before_end(move |_| {
        // A salloc that is killed leaves its allocation behind.
        _ = ask_at_end(&["scancel", "-n", &name], FAREWELL);
    });
    let status = child.wait()?;
    signals::release_group(child.id());
    signals::yield_to_signal();
    if !status.success() {
        messages::detail(&format!("salloc: {status}"));
    }
    submission.set_over()
}

/// The script inside of the allocation.
pub fn script(job: &Job, config: &Config, submission: &Submission, tasks: usize) -> Result<String> {
    let folder = quote(&submission.path.to_string_lossy());
    let mut text = format!("#!/bin/bash\n# {} tasks as steps of one allocation\n", tasks);
    text += &prelude(config);
    writeln!(text, "export SHARDRUN_STARTED=1")?;
    let jobs = if job.settings.jobs > 0 { job.settings.jobs.to_string() } else { "\"${SLURM_NTASKS:-1}\"".into() };
    // Each failing step is in the job log; its status must not end the others.
    writeln!(
        text,
        "seq 0 {} | xargs -P {jobs} -I@ srun --quiet --exact --nodes=1 --ntasks=1 {} item {folder} @ || true",
        tasks - 1,
        worker(config)?
    )?;
    Ok(text)
}
