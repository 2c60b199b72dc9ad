//! Slurm: submits tasks as job arrays, several if one cannot hold them all. Results come through the shared run folder; the
//! states that Slurm reports are hints only, because it forgets jobs soon after they end.

mod allocation;
mod arrays;
mod queue;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tarpipe::cli::Outcome;
use tarpipe::run::program;
use tarpipe::run::shell::{self, quote};

use super::{Engine, TaskReports, follow, outcome_of};
use crate::shardrun::engine::external::query;
use crate::shardrun::engine::site_config::{SiteConfig, flags};
use crate::shardrun::engine::submission::{Submission, SubmissionPart};
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::pending::PendingRun;
use crate::shardrun::settings::RunSettings;
use crate::shardrun::task::bundle;
use arrays::TaskArray;

/// Time limit of a query. A client that cannot reach its controller gives up after 10 s; a busy controller takes longer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Slurm's default of MaxArraySize.
const DEFAULT_MAX_ARRAY: usize = 1001;
/// Seconds before the time limit of a job at which Slurm warns it.
const WARNING_SECONDS: u32 = 60;

/// A Slurm cluster.
pub struct Slurm;

impl Engine for Slurm {
    fn run(&self, pending: PendingRun) -> Result<Outcome> {
        if pending.settings.interactive {
            allocation::run(&pending)?;
            return outcome_of(&pending);
        }
        let submission = submit(&pending)?;
        follow(pending, &submission)
    }

    fn dry_run(&self, pending: &PendingRun) -> Result<String> {
        dry_run(pending)
    }

    fn complete(&self, submission: &mut Submission) -> Result<()> {
        complete_submission(submission)
    }

    fn is_running(&self, _: &RunFolder, submission: &Submission) -> Result<bool> {
        queue::is_running(submission)
    }

    fn cancel(&self, _: &RunFolder, submission: &Submission) -> Result<()> {
        queue::cancel(submission)
    }

    fn task_reports(&self, submission: &Submission) -> TaskReports {
        queue::task_reports(submission)
    }

    fn reasons(&self, submission: &Submission) -> Result<Vec<String>> {
        queue::reasons(submission)
    }
}

/// Submits all tasks. Each array is recorded before it is submitted, so that `complete_submission` can find it if this process
/// dies in between.
fn submit(pending: &PendingRun) -> Result<Submission> {
    let config = SiteConfig::read(pending.settings.config.as_deref())?;
    let site = SlurmSite::query()?;
    let mut submission = Submission::create(pending)?;
    submission.cluster = site.name;
    submission.unfinished = true;
    let tasks = bundle::count_tasks(&pending.todo, pending.settings.chunk);
    for array in arrays::divide(tasks, site.max_array, pending.settings.jobs) {
        let after = array.after.map(|position| submission.parts[position].id.clone());
        let flags = batch_flags(&pending.settings, &config, after)?;
        let file = script_file(&submission, array.first);
        std::fs::write(&file, script(pending, &config, &submission, &array)?).with_context(|| file.clone())?;
        submission.parts.push(SubmissionPart { id: String::new(), first: array.first, tasks: array.tasks });
        submission.save()?;
        let mut argv = vec!["sbatch", "--parsable"];
        argv.extend(flags.iter().map(String::as_str));
        argv.push(&file);
        let answer = query(&argv, QUERY_TIMEOUT).with_context(|| not_submitted(pending, &submission))?;
        // ID, or ID;CLUSTER
        let mut parts = answer.trim().split(';').map(str::to_owned);
        let id = parts.next().unwrap_or_default();
        submission.parts.last_mut().into_iter().for_each(|part| part.id = id.clone());
        submission.remote = parts.next();
        submission.save()?;
    }
    submission.unfinished = false;
    submission.save()?;
    Ok(submission)
}

/// Which tasks were submitted before sbatch refused one.
fn not_submitted(pending: &PendingRun, submission: &Submission) -> String {
    let first = submission.parts.last().map_or(0, |part| part.first);
    let tasks = bundle::count_tasks(&pending.todo, pending.settings.chunk);
    let refused = format!("tasks {first} to {} were not submitted", tasks - 1);
    match submission.ids() {
        ids if ids.is_empty() => refused,
        ids => {
            let folder = pending.folder.path().display();
            format!(
                "{refused}; the others are on Slurm as {ids} (see shardrun status {folder}; when they have ended, use the same command again to run what is missing)"
            )
        }
    }
}

/// The path of the script of an array. Slurm shows it with the job, which distinguishes our jobs from others that have the same
/// number.
fn script_file(submission: &Submission, first: usize) -> String {
    submission.path.join(format!("array-{first}-{}.sh", submission.identity)).to_string_lossy().into_owned()
}

/// The first script that would be submitted, and the number of arrays.
fn dry_run(pending: &PendingRun) -> Result<String> {
    let config = SiteConfig::read(pending.settings.config.as_deref())?;
    let tasks = bundle::count_tasks(&pending.todo, pending.settings.chunk);
    let submission = Submission::for_dry_run(pending);
    if pending.settings.interactive {
        return allocation::script(pending, &config, &submission, tasks);
    }
    let most = SlurmSite::query().map_or(DEFAULT_MAX_ARRAY, |site| site.max_array);
    let arrays = arrays::divide(tasks, most, pending.settings.jobs);
    let flags = batch_flags(&pending.settings, &config, None)?;
    Ok(format!(
        "# {tasks} tasks in {} arrays: sbatch --parsable {}\n{}",
        arrays.len(),
        flags.join(" "),
        script(pending, &config, &submission, &arrays[0])?
    ))
}

/// The flags of sbatch. On the command line they override those in the script.
fn batch_flags(settings: &RunSettings, config: &SiteConfig, after_array: Option<String>) -> Result<Vec<String>> {
    let mut all = flags(&config.batch)?;
    let mut after: Vec<String> = settings.afterok().into_iter().collect();
    after.extend(after_array.map(|id| format!("afterany:{id}")));
    if !after.is_empty() {
        all.push(format!("--dependency={}", after.join(",")));
        all.push("--kill-on-invalid-dep=yes".into());
    }
    all.extend(settings.slurm_arg.iter().cloned());
    Ok(all)
}

fn script(pending: &PendingRun, config: &SiteConfig, submission: &Submission, array: &TaskArray) -> Result<String> {
    let throttle = if array.throttle > 0 { format!("%{}", array.throttle) } else { String::new() };
    let folder = quote(&submission.path.to_string_lossy());
    // The setup of a site may use bash; without one, sh is enough and starts faster.
    let shell = if config.worker.setup.trim().is_empty() { "sh" } else { "bash" };
    let mut text = format!("#!/bin/{shell}\n");
    writeln!(text, "#SBATCH --job-name={}", submission.name(&pending.spec.plan))?;
    writeln!(text, "#SBATCH --array=0-{}{throttle}", array.tasks - 1)?;
    writeln!(text, "#SBATCH --requeue --open-mode=append --output=/dev/null")?;
    writeln!(text, "#SBATCH --signal=B:USR1@{WARNING_SECONDS}")?;
    // One file per node rather than per task; the stderr of items has its own files.
    writeln!(text, "exec >>{folder}/\"${{SLURMD_NODENAME:-node}}\".log 2>&1")?;
    writeln!(text, "export SHARDRUN_REQUEUE=1")?;
    text += &setup_lines(config);
    writeln!(text, "exec {} item {folder} $(({} + SLURM_ARRAY_TASK_ID))", worker_command(config)?, array.first)?;
    Ok(text)
}

/// The environment and setup of workers, as lines of their script.
pub fn setup_lines(config: &SiteConfig) -> String {
    let mut text = String::new();
    for (name, value) in &config.worker.env {
        text += &format!("export {name}={}\n", quote(value));
    }
    let setup = config.worker.setup.trim_end();
    if setup.is_empty() { text } else { text + setup + "\n" }
}

/// The command that starts shardrun on a worker, quoted for its shell.
pub fn worker_command(config: &SiteConfig) -> Result<String> {
    let argv = config.worker.command().map_or_else(|| program::command("shardrun"), Ok)?;
    Ok(shell::join(&argv))
}

/// The configuration of the cluster that this machine uses.
pub struct SlurmSite {
    /// Largest number of tasks in an array.
    max_array: usize,
    /// Name of the cluster.
    pub name: Option<String>,
}

impl SlurmSite {
    /// Queries the controller.
    pub fn query() -> Result<Self> {
        let config = query(&["scontrol", "show", "config"], QUERY_TIMEOUT)?;
        let value = |key: &str| {
            let line = config.lines().find(|line| line.split('=').next().is_some_and(|name| name.trim() == key));
            line.and_then(|line| Some(line.split_once('=')?.1.trim().to_owned()))
        };
        let max_array = value("MaxArraySize").and_then(|size| size.parse().ok()).unwrap_or(DEFAULT_MAX_ARRAY);
        if max_array < 2 {
            bail!("this cluster has no job arrays (MaxArraySize is {max_array})");
        }
        Ok(SlurmSite { max_array, name: value("ClusterName") })
    }
}

/// Completes the record of a submission whose process died while submitting: arrays that Slurm had accepted by then are found
/// by their scripts. It is an error if this machine uses another cluster.
fn complete_submission(submission: &mut Submission) -> Result<()> {
    if submission.cluster.is_some() {
        let here = SlurmSite::query()?.name;
        if here != submission.cluster {
            let name = |cluster: &Option<String>| cluster.clone().unwrap_or_default();
            bail!(
                "it was submitted to the cluster {}, but this machine uses {}",
                name(&submission.cluster),
                name(&here)
            );
        }
    }
    if !submission.unfinished {
        return Ok(());
    }
    let user = rustix::process::getuid().as_raw().to_string();
    let queue = query(&["squeue", "-h", "-t", "all", "-u", &user, "-o", "%F|%o"], QUERY_TIMEOUT)?;
    let scripts: Vec<String> = submission.parts.iter().map(|part| script_file(submission, part.first)).collect();
    for (part, script) in submission.parts.iter_mut().zip(&scripts) {
        let found = queue.lines().filter_map(|line| line.split_once('|')).find(|(_, file)| file == script);
        part.id = found.map_or(std::mem::take(&mut part.id), |(id, _)| id.to_owned());
    }
    submission.parts.retain(|part| !part.id.is_empty());
    submission.unfinished = false;
    submission.save()
}
