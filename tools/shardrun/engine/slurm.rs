//! Slurm: job arrays, several where one may not hold all tasks. Results come through the shared run folder;
//! what Slurm says is a hint, for it forgets jobs soon after their end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tarpipe::messages;
use tarpipe::run::shell::quote;
use tarpipe::tally::counted;

use super::allocation;
use super::submission::{Part, Submission, TaskState, TaskStates};
use crate::ask::ask;
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

/// Hands all tasks over. What is about to be submitted is noted first: should we die in between, `adopt` finds it.
pub fn submit(job: &Job) -> Result<Submission> {
    let config = Config::read(job.settings.config.as_deref())?;
    let site = Site::ask()?;
    let mut submission = Submission::create(job, Engine::Slurm)?;
    submission.cluster = site.name;
    submission.unfinished = true;
    let tasks = bundle::count(&job.todo, job.settings.chunk);
    for first in (0..tasks).step_by(site.max_array) {
        let flags = batch_flags(&job.settings, &config, submission.parts.last())?;
        let part = Part { id: String::new(), first, tasks: site.max_array.min(tasks - first) };
        let file = script_file(&submission, &part);
        std::fs::write(&file, script(job, &config, &submission, &part)?).with_context(|| file.clone())?;
        submission.parts.push(part);
        submission.save()?;
        let mut words = vec!["sbatch", "--parsable"];
        words.extend(flags.iter().map(String::as_str));
        words.push(&file);
        let answer = ask(&words, LIMIT).with_context(|| not_submitted(job, &submission))?;
        // ID, or ID;CLUSTER
        let mut words = answer.trim().split(';').map(str::to_owned);
        let id = words.next().unwrap_or_default();
        submission.parts.last_mut().into_iter().for_each(|part| part.id = id.clone());
        submission.remote = words.next();
        submission.save()?;
    }
    submission.unfinished = false;
    submission.save()?;
    Ok(submission)
}

/// What became of the tasks when sbatch refuses some of them.
fn not_submitted(job: &Job, submission: &Submission) -> String {
    let first = submission.parts.last().map_or(0, |part| part.first);
    let tasks = bundle::count(&job.todo, job.settings.chunk);
    let refused = format!("tasks {first} to {} were not submitted", tasks - 1);
    match submission.ids() {
        ids if ids.is_empty() => refused,
        ids => {
            let folder = job.folder.path().display();
            format!(
                "{refused}; the others are on Slurm as {ids} (shardrun status {folder}; the same command after their end runs what is missing)"
            )
        }
    }
}

/// The script of an array. Slurm shows its path with the job: that tells our jobs from a stranger's with the same number.
fn script_file(submission: &Submission, part: &Part) -> String {
    submission.path.join(format!("array-{}-{}.sh", part.first, submission.identity)).to_string_lossy().into_owned()
}

/// The first of the scripts that would be submitted, and how many there are.
pub fn dry_run(job: &Job) -> Result<String> {
    let config = Config::read(job.settings.config.as_deref())?;
    let tasks = bundle::count(&job.todo, job.settings.chunk);
    let submission = Submission::sketch(job);
    if job.settings.interactive {
        return allocation::script(job, &config, &submission, tasks);
    }
    let most = Site::ask().map_or(USUAL_MAX_ARRAY, |site| site.max_array);
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
    writeln!(text, "#SBATCH --job-name={}", submission.name(&job.head.plan))?;
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
pub fn prelude(config: &Config) -> String {
    let mut text = String::new();
    for (name, value) in &config.worker.env {
        text += &format!("export {name}={}\n", quote(value));
    }
    let setup = config.worker.setup.trim_end();
    if setup.is_empty() { text } else { text + setup + "\n" }
}

/// What runs a task on a worker.
pub fn worker(config: &Config) -> Result<String> {
    let here = std::env::current_exe().context("cannot find this program")?;
    Ok(quote(&config.worker.shardrun.clone().unwrap_or_else(|| here.to_string_lossy().into_owned())))
}

/// What this machine's Slurm says about itself.
pub struct Site {
    /// How many tasks an array may have.
    max_array: usize,
    /// The name of the cluster.
    pub name: Option<String>,
}

impl Site {
    /// Asks the controller.
    pub fn ask() -> Result<Self> {
        let config = ask(&["scontrol", "show", "config"], LIMIT)?;
        let value = |key: &str| {
            let line = config.lines().find(|line| line.split('=').next().is_some_and(|name| name.trim() == key));
            line.and_then(|line| Some(line.split_once('=')?.1.trim().to_owned()))
        };
        let max_array = value("MaxArraySize").and_then(|size| size.parse().ok()).unwrap_or(USUAL_MAX_ARRAY);
        if max_array < 2 {
            bail!("this cluster has no job arrays (MaxArraySize is {max_array})");
        }
        Ok(Site { max_array, name: value("ClusterName") })
    }
}

/// Completes what is known of a submission whose process died while it handed over: arrays that Slurm had taken by then
/// are found by their scripts.
pub fn adopt(submission: &mut Submission) -> Result<()> {
    if submission.cluster.is_some() {
        let here = Site::ask()?.name;
        if here != submission.cluster {
            let name = |cluster: &Option<String>| cluster.clone().unwrap_or_default();
            bail!("it is on the cluster {}, and this machine's is {}", name(&submission.cluster), name(&here));
        }
    }
    if !submission.unfinished {
        return Ok(());
    }
    let user = rustix::process::getuid().as_raw().to_string();
    let queue = ask(&["squeue", "-h", "-t", "all", "-u", &user, "-o", "%F|%o"], LIMIT)?;
    let scripts: Vec<String> = submission.parts.iter().map(|part| script_file(submission, part)).collect();
    for (part, script) in submission.parts.iter_mut().zip(&scripts) {
        let found = queue.lines().filter_map(|line| line.split_once('|')).find(|(_, file)| file == script);
        part.id = found.map_or(std::mem::take(&mut part.id), |(id, _)| id.to_owned());
    }
    submission.parts.retain(|part| !part.id.is_empty());
    submission.unfinished = false;
    submission.save()
}

/// The flag for another cluster of the site.
fn elsewhere(submission: &Submission) -> impl Iterator<Item = &str> {
    submission.remote.iter().flat_map(|cluster| ["-M", cluster.as_str()])
}

/// A line of squeue about each job of a submission that Slurm remembers. Job numbers start over when a controller
/// loses its state: jobs that are not ours are left out.
fn queue(submission: &Submission, more: &[&str], format: &str) -> Result<Vec<String>> {
    let ids = submission.ids();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let format = format!("{format}|%o");
    let mut words = vec!["squeue", "-h", if submission.interactive { "-n" } else { "-j" }, &ids, "-o", &format];
    words.extend(more);
    words.extend(elsewhere(submission));
    let lines = match ask(&words, LIMIT) {
        // It has forgotten them all.
        Err(err) if err.to_string().contains("Invalid job id") => String::new(),
        lines => lines?,
    };
    // An allocation has no script, and those of earlier versions had no path: there the name or number must do.
    let has_script = !submission.interactive && !submission.identity.is_empty();
    let script = if has_script { format!("|{}/", submission.path.display()) } else { "|".into() };
    let ours = lines.lines().filter_map(|line| Some(line[..line.rfind(&script)?].to_owned()));
    Ok(ours.collect())
}

/// What Slurm knows of the tasks: by squeue as long as it remembers them, else by sacct.
pub fn states(submission: &Submission) -> TaskStates {
    if submission.interactive {
        let running = known(queue(submission, &[], "%T"));
        // Its steps do not tell their tasks.
        return running.iter().map(|state| (usize::MAX, state_of(state))).collect();
    }
    let queue = known(queue(submission, &["-r", "-t", "all"], "%F_%K|%T"));
    let mut states = accounted(submission);
    // The queue is the fresher of the two.
    states.extend(parse(submission, queue.iter().map(String::as_str)));
    states
}

/// What squeue said; nothing, with a word on it, where it could not be asked.
fn known(lines: Result<Vec<String>>) -> Vec<String> {
    lines.unwrap_or_else(|err| {
        messages::notice(&format!("{err:#}; going by what is known"));
        Vec::new()
    })
}

/// What accounting says of jobs with our name; nothing where there is none.
fn accounted(submission: &Submission) -> TaskStates {
    let ids = submission.ids();
    if ids.is_empty() {
        return TaskStates::new();
    }
    let mut words = vec!["sacct", "-X", "-n", "-P", "-j", &ids, "-o", "JobName,JobID,State"];
    words.extend(elsewhere(submission));
    let said = ask(&words, LIMIT).unwrap_or_default();
    let ours =
        said.lines().filter_map(|line| line.split_once('|')).filter(|(name, _)| name.contains(&submission.identity));
    parse(submission, ours.map(|(_, rest)| rest))
}

fn parse<'a>(submission: &Submission, lines: impl Iterator<Item = &'a str>) -> TaskStates {
    let mut states = TaskStates::new();
    for line in lines {
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
    Ok(!queue(submission, &[], "%i")?.is_empty())
}

/// Reasons to wait that pass by themselves.
const USUAL_REASONS: [&str; 9] =
    ["None", "Priority", "Resources", "JobArrayTaskLimit", "Dependency", "BeginTime", "Cleaning", "Prolog", "(null)"];

/// Why tasks wait that may wait for ever, each reason once.
pub fn reasons(submission: &Submission) -> Result<Vec<String>> {
    let mut counts = BTreeMap::new();
    for reason in queue(submission, &["-r", "-t", "pending"], "%r")? {
        *counts.entry(reason).or_insert(0_u64) += 1;
    }
    let unusual = counts.into_iter().filter(|(reason, _)| !USUAL_REASONS.contains(&reason.as_str()));
    Ok(unusual.map(|(reason, count)| format!("{}: {reason}", counted(count, "task"))).collect())
}

/// Ends what waits and runs.
pub fn cancel(submission: &Submission) -> Result<()> {
    if submission.interactive {
        return ask(&["scancel", "-n", &submission.ids()], LIMIT).map(drop);
    }
    let mut ids = queue(submission, &[], "%F")?;
    ids.sort();
    ids.dedup();
    if ids.is_empty() {
        return Ok(());
    }
    let words = ["scancel"].into_iter().chain(elsewhere(submission)).chain(ids.iter().map(String::as_str));
    let words: Vec<&str> = words.collect();
    ask(&words, LIMIT).map(drop)
}
