//! --interactive on Slurm: all tasks run as steps of one allocation, which salloc makes and which ends with this process.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tarpipe::messages;
use tarpipe::run::shell::quote;
use tarpipe::run::signals;
use tarpipe::run::watched;

use super::{SlurmSite, setup_lines, worker_command};
use crate::shardrun::engine::external::{cannot_start, query_at_end};
use crate::shardrun::engine::site_config::{SiteConfig, flags};
use crate::shardrun::engine::submission::{Submission, SubmissionPart};
use crate::shardrun::run::pending::PendingRun;
use crate::shardrun::task::bundle;

/// Time limit for cancelling the allocation when a signal ends this process.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs all tasks as steps of one allocation and waits for them.
pub fn run(pending: &PendingRun) -> Result<()> {
    let config = SiteConfig::read(pending.settings.config.as_deref())?;
    let mut submission = Submission::create(pending)?;
    let tasks = bundle::count_tasks(&pending.todo, pending.settings.chunk);
    let name = submission.name(&pending.spec.plan);
    submission.parts.push(SubmissionPart { id: name.clone(), first: 0, tasks });
    submission.cluster = SlurmSite::query()?.name;
    submission.save()?;
    std::fs::write(pending.folder.path().join("started"), "").context("the run folder")?;
    let script = script(pending, &config, &submission, tasks)?;
    let file = submission.path.join("interactive.sh");
    std::fs::write(&file, script).with_context(|| file.display().to_string())?;
    let mut salloc = Command::new("salloc");
    salloc.arg("--quiet").args(flags(&config.interactive)?);
    if pending.settings.jobs > 0 {
        salloc.arg(format!("--ntasks={}", pending.settings.jobs));
    }
    if let Some(afterok) = pending.settings.afterok() {
        salloc.arg(format!("--dependency={afterok}"));
    }
    // The allocation is found again by its name, so this flag comes last and overrides the user's.
    salloc.args(&pending.settings.slurm_arg).arg(format!("--job-name={name}"));
    salloc.arg("bash").arg(&file).stdin(Stdio::null());
    let (mut child, _exit) = watched::spawn(&mut salloc).map_err(|err| cannot_start("salloc", err))?;
    signals::on_signal(move |_| {
        // A killed salloc leaves its allocation behind.
        _ = query_at_end(&["scancel", "-n", &name], CANCEL_TIMEOUT);
    });
    let status = child.wait()?;
    signals::release_group(child.id());
    signals::park_if_signalled();
    if !status.success() {
        messages::detail(&format!("salloc: {status}"));
    }
    submission.set_over()
}

/// The script that runs inside the allocation.
pub fn script(pending: &PendingRun, config: &SiteConfig, submission: &Submission, tasks: usize) -> Result<String> {
    let folder = quote(&submission.path.to_string_lossy());
    let mut text = format!("#!/bin/bash\n# {} tasks as steps of one allocation\n", tasks);
    text += &setup_lines(config);
    writeln!(text, "export SHARDRUN_STARTED=1")?;
    let jobs =
        if pending.settings.jobs > 0 { pending.settings.jobs.to_string() } else { "\"${SLURM_NTASKS:-1}\"".into() };
    // Failures are in the job log; the exit status of one step must not end the others.
    writeln!(
        text,
        "seq 0 {} | xargs -P {jobs} -I@ srun --quiet --exact --nodes=1 --ntasks=1 {} item {folder} @ || true",
        tasks - 1,
        worker_command(config)?
    )?;
    Ok(text)
}
