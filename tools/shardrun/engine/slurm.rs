//! Slurm: job arrays, several where one may not hold all tasks. Results come through the shared run folder;
//! what Slurm says is a hint, for it forgets jobs soon after their end.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tarpipe::process::quote;
use tarpipe::{messages, signals};

use super::submission::{Part, Submission, TaskState, TaskStates};
use crate::ask::{ask, cannot_start, tell};
use crate::bundle;
use crate::config::{Config, flags};
use crate::job::Job;
use crate::settings::{Engine, Settings};

/// A client that does not reach its controller gives up after 10 s by itself; a busy one takes longer.
const LIMIT: Duration = Duration::from_secs(60);
/// Where the site does not say.
const USUAL_MAX_ARRAY: usize = 1001;
/// Seconds between the warning and the end of a job's time.
const WARNING: u32 = 60;

/// Hands all tasks over.
pub fn submit(job: &Job) -> Result<Submission> {
    let config = Config::read(job.settings.config.as_deref())?;
    let most = max_array()?;
    let mut submission = Submission::create(job, Engine::Slurm)?;
    let tasks = bundle::count(&job.todo, job.settings.chunk);
    for first in (0..tasks).step_by(most) {
        let part = Part { id: String::new(), first, tasks: most.min(tasks - first) };
        let script = script(job, &config, &submission, &part)?;
        let name = submission.path.join(format!("array-{first}.sh"));
        std::fs::write(&name, &script).with_context(|| name.display().to_string())?;
        let mut words = vec!["sbatch".to_owned(), "--parsable".to_owned()];
        words.extend(batch_flags(&job.settings, &config, submission.parts.last())?);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = tell(&words, &script, LIMIT);
        let answer =
            answer.with_context(|| format!("tasks {first} to {} were not submitted", first + part.tasks - 1))?;
        let id = answer.trim().split(';').next().unwrap_or_default().to_owned();
        submission.parts.push(Part { id, ..part });
        submission.save()?;
    }
    Ok(submission)
}

/// The first of the scripts that would be submitted, and how many there are.
pub fn dry_run(job: &Job) -> Result<String> {
    let config = Config::read(job.settings.config.as_deref())?;
    let tasks = bundle::count(&job.todo, job.settings.chunk);
    let path = job.folder.path().join("submit-NNN");
    let submission = Submission { engine: Engine::Slurm, parts: Vec::new(), namespace: None, path };
    if job.settings.interactive {
        return interactive_script(job, &config, &submission, tasks);
    }
    let most = max_array().unwrap_or(USUAL_MAX_ARRAY);
    let part = Part { id: String::new(), first: 0, tasks: most.min(tasks) };
    let words = batch_flags(&job.settings, &config, None)?;
    let arrays = tasks.div_ceil(most);
    Ok(format!(
        "# {tasks} tasks in {arrays} arrays: sbatch --parsable {}\n{}",
        words.join(" "),
        script(job, &config, &submission, &part)?
    ))
}

/// What is given on the command line of sbatch, so that the site's flags win over the script's.
fn batch_flags(settings: &Settings, config: &Config, previous: Option<&Part>) -> Result<Vec<String>> {
    let mut words = flags(&config.batch)?;
    let mut after = Vec::new();
    if !settings.after.is_empty() {
        after.push(format!("afterok:{}", settings.after.join(":")));
    }
    // The throttle holds for one array; with one, the next array waits for the end of this.
    if let Some(previous) = previous.filter(|_| settings.jobs > 0) {
        after.push(format!("afterany:{}", previous.id));
    }
    if !after.is_empty() {
        words.push(format!("--dependency={}", after.join(",")));
        words.push("--kill-on-invalid-dep=yes".into());
    }
    words.extend(settings.slurm_arg.iter().cloned());
    Ok(words)
}

fn script(job: &Job, config: &Config, submission: &Submission, part: &Part) -> Result<String> {
    let throttle = if job.settings.jobs > 0 { format!("%{}", job.settings.jobs) } else { String::new() };
    let folder = quote(&submission.path.to_string_lossy());
    // What a site has written is for bash; without it a plain shell does, and starts sooner.
    let shell = if config.worker.setup.trim().is_empty() { "sh" } else { "bash" };
    let mut text = format!("#!/bin/{shell}\n");
    writeln!(text, "#SBATCH --job-name=shardrun-{}", job.head.plan.short_name())?;
    writeln!(text, "#SBATCH --array=0-{}{throttle}", part.tasks - 1)?;
    writeln!(text, "#SBATCH --requeue --open-mode=append --output=/dev/null")?;
    writeln!(text, "#SBATCH --signal=B:USR1@{WARNING}")?;
    // A file a node, not one a task; what the items say has files of its own.
    writeln!(text, "exec >>{folder}/\"${{SLURMD_NODENAME:-node}}\".log 2>&1")?;
    writeln!(text, "export SHARDRUN_REQUEUE=1")?;
    text += &prelude(config);
    writeln!(text, "exec {} item {folder} $(({} + SLURM_ARRAY_TASK_ID))", worker(config)?, part.first)?;
    Ok(text)
}

/// What the site has every worker do first.
fn prelude(config: &Config) -> String {
    let mut text = String::new();
    for (name, value) in &config.worker.env {
        text += &format!("export {name}={}\n", quote(value));
    }
    let setup = config.worker.setup.trim_end();
    if setup.is_empty() { text } else { text + setup + "\n" }
}

fn worker(config: &Config) -> Result<String> {
    let here = std::env::current_exe().context("cannot find this program")?;
    Ok(quote(&config.worker.shardrun.clone().unwrap_or_else(|| here.to_string_lossy().into_owned())))
}

/// Runs all tasks as steps of one allocation, and waits.
pub fn interactive(job: &Job) -> Result<Submission> {
    let config = Config::read(job.settings.config.as_deref())?;
    let submission = Submission::create(job, Engine::Slurm)?;
    let script = interactive_script(job, &config, &submission, bundle::count(&job.todo, job.settings.chunk))?;
    let name = submission.path.join("interactive.sh");
    std::fs::write(&name, script).with_context(|| name.display().to_string())?;
    let mut salloc = Command::new("salloc");
    salloc.arg("--quiet").args(flags(&config.interactive)?);
    if job.settings.jobs > 0 {
        salloc.arg(format!("--ntasks={}", job.settings.jobs));
    }
    if !job.settings.after.is_empty() {
        salloc.arg(format!("--dependency=afterok:{}", job.settings.after.join(":")));
    }
    salloc.args(&job.settings.slurm_arg).arg("bash").arg(&name).stdin(Stdio::null()).process_group(0);
    let mut child = salloc.spawn().map_err(|err| cannot_start("salloc", err))?;
    signals::guard_group(child.id());
    let status = child.wait()?;
    signals::release_group(child.id());
    signals::yield_to_signal();
    if !status.success() {
        messages::detail(&format!("salloc: {status}"));
    }
    submission.save()?;
    Ok(submission)
}

fn interactive_script(job: &Job, config: &Config, submission: &Submission, tasks: usize) -> Result<String> {
    let folder = quote(&submission.path.to_string_lossy());
    let mut text = format!("#!/bin/bash\n# {} tasks as steps of one allocation\n", tasks);
    text += &prelude(config);
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

/// How many tasks an array may have.
fn max_array() -> Result<usize> {
    let config = ask(&["scontrol", "show", "config"], LIMIT)?;
    let line = config.lines().find(|line| line.trim_start().starts_with("MaxArraySize"));
    let size = line.and_then(|line| line.split('=').nth(1)?.trim().parse().ok()).unwrap_or(USUAL_MAX_ARRAY);
    if size < 2 {
        bail!("this cluster has no job arrays (MaxArraySize is {size})");
    }
    Ok(size)
}

/// What Slurm knows of the tasks: by squeue as long as it remembers them, else by sacct.
pub fn states(submission: &Submission) -> TaskStates {
    let ids = submission.ids();
    if ids.is_empty() {
        return TaskStates::new();
    }
    let queue = ask(&["squeue", "-h", "-r", "-t", "all", "-j", &ids, "-o", "%F_%K|%T"], LIMIT);
    let mut states = accounted(submission);
    // The queue is the fresher of the two.
    states.extend(parse(submission, &queue.unwrap_or_default()));
    states
}

/// What accounting says; nothing where there is none.
fn accounted(submission: &Submission) -> TaskStates {
    let ids = submission.ids();
    let said = ask(&["sacct", "-X", "-n", "-P", "-j", &ids, "-o", "JobID,State"], LIMIT);
    parse(submission, &said.unwrap_or_default())
}

fn parse(submission: &Submission, text: &str) -> TaskStates {
    let mut states = TaskStates::new();
    for line in text.lines() {
        let Some((name, state)) = line.split_once('|') else { continue };
        let Some((id, index)) = name.split_once('_') else { continue };
        let Some(task) = index.parse().ok().and_then(|index| submission.task(id, index)) else { continue };
        states.insert(task, state_of(state));
    }
    states
}

fn state_of(name: &str) -> TaskState {
    match name.split_whitespace().next().unwrap_or_default() {
        // A task whose node died is queued again a moment later.
        "NODE_FAIL" | "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => TaskState::Waiting,
        "RUNNING" | "COMPLETING" | "CONFIGURING" | "SUSPENDED" | "SIGNALING" | "STAGE_OUT" | "STOPPED" => {
            TaskState::Running
        }
        ended => TaskState::Ended(ended.to_ascii_lowercase()),
    }
}

/// Whether any task of the submission waits or runs.
pub fn is_alive(submission: &Submission) -> Result<bool> {
    let queue = ask(&["squeue", "-h", "-j", &submission.ids(), "-o", "%i"], LIMIT);
    match queue {
        Ok(text) => Ok(!text.trim().is_empty()),
        // It has forgotten them all.
        Err(err) if err.to_string().contains("Invalid job id") => Ok(false),
        Err(err) => Err(err),
    }
}

/// Ends what waits and runs.
pub fn cancel(submission: &Submission) -> Result<()> {
    let mut words = vec!["scancel"];
    words.extend(submission.parts.iter().map(|part| part.id.as_str()));
    if words.len() > 1 {
        ask(&words, LIMIT)?;
    }
    Ok(())
}
