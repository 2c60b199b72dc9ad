//! The jobs of a submission in Slurm's queue and accounting: their states, why they wait, and how to cancel them.

use std::collections::BTreeMap;

use anyhow::Result;
use tarpipe::messages;
use tarpipe::tally::counted;

use super::QUERY_TIMEOUT;
use crate::shardrun::engine::external::query;
use crate::shardrun::engine::submission::{Submission, TaskReport, TaskReports};
use crate::shardrun::run::job_log::ItemStatus;

/// The flag -M, if the submission was sent to another cluster of the site.
fn cluster_flag(submission: &Submission) -> impl Iterator<Item = &str> {
    submission.remote.iter().flat_map(|cluster| ["-M", cluster.as_str()])
}

/// One line of squeue per job of a submission that Slurm remembers. A controller that lost its state reuses job numbers, so jobs
/// with another script are left out.
fn queue(submission: &Submission, more: &[&str], format: &str) -> Result<Vec<String>> {
    let ids = submission.ids();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let format = format!("{format}|%o");
    let mut argv = vec!["squeue", "-h", if submission.interactive { "-n" } else { "-j" }, &ids, "-o", &format];
    argv.extend(more);
    argv.extend(cluster_flag(submission));
    let lines = match query(&argv, QUERY_TIMEOUT) {
        // Slurm has forgotten all of them.
        Err(err) if err.to_string().contains("Invalid job id") => String::new(),
        lines => lines?,
    };
    // Allocations, and submissions of earlier versions, have no script path: they are known by name or number only.
    let has_script = !submission.interactive && !submission.identity.is_empty();
    let script = if has_script { format!("|{}/", submission.path.display()) } else { "|".into() };
    let ours = lines.lines().filter_map(|line| Some(line[..line.rfind(&script)?].to_owned()));
    Ok(ours.collect())
}

/// The states of tasks: from squeue while it remembers them, else from sacct.
pub fn task_reports(submission: &Submission) -> TaskReports {
    if submission.interactive {
        let running = or_empty(queue(submission, &[], "%T"));
        // squeue does not show which task a step runs.
        return running.iter().map(|state| (usize::MAX, report_of(state))).collect();
    }
    let queue = or_empty(queue(submission, &["-r", "-t", "all"], "%F_%K|%T"));
    let mut reports = accounted(submission);
    // squeue is more up to date than sacct.
    reports.extend(parse(submission, queue.iter().map(String::as_str)));
    reports
}

/// The lines of squeue; if it failed, none, with a notice.
fn or_empty(lines: Result<Vec<String>>) -> Vec<String> {
    lines.unwrap_or_else(|err| {
        messages::notice(&format!("{err:#}; using the last known state"));
        Vec::new()
    })
}

/// The states from Slurm's accounting; empty if the site has none.
fn accounted(submission: &Submission) -> TaskReports {
    let ids = submission.ids();
    if ids.is_empty() {
        return TaskReports::new();
    }
    let mut argv = vec!["sacct", "-X", "-n", "-P", "-j", &ids, "-o", "JobName,JobID,State"];
    argv.extend(cluster_flag(submission));
    let output = query(&argv, QUERY_TIMEOUT).unwrap_or_default();
    let ours =
        output.lines().filter_map(|line| line.split_once('|')).filter(|(name, _)| name.contains(&submission.identity));
    parse(submission, ours.map(|(_, rest)| rest))
}

fn parse<'a>(submission: &Submission, lines: impl Iterator<Item = &'a str>) -> TaskReports {
    let mut reports = TaskReports::new();
    for line in lines {
        let Some((name, state)) = line.split_once('|') else { continue };
        let Some((id, index)) = name.split_once('_') else { continue };
        let Some(task) = index.parse().ok().and_then(|index| submission.task(id, index)) else { continue };
        reports.insert(task, report_of(state));
    }
    reports
}

fn report_of(name: &str) -> TaskReport {
    match name.split_whitespace().next().unwrap_or_default() {
        // A task whose node failed is requeued soon.
        "NODE_FAIL" | "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
            TaskReport::open(ItemStatus::Left)
        }
        "RUNNING" | "COMPLETING" | "CONFIGURING" | "SUSPENDED" | "SIGNALING" | "STAGE_OUT" | "STOPPED" => {
            TaskReport::open(ItemStatus::Running)
        }
        ended => TaskReport::ended(ended),
    }
}

/// Whether any task of the submission is waiting or running.
pub fn is_running(submission: &Submission) -> Result<bool> {
    Ok(!queue(submission, &[], "%i")?.is_empty())
}

/// Reasons to wait that resolve themselves.
const NORMAL_REASONS: [&str; 9] =
    ["None", "Priority", "Resources", "JobArrayTaskLimit", "Dependency", "BeginTime", "Cleaning", "Prolog", "(null)"];

/// Reasons why tasks may wait forever, each once with its number of tasks.
pub fn reasons(submission: &Submission) -> Result<Vec<String>> {
    let mut counts = BTreeMap::new();
    for reason in queue(submission, &["-r", "-t", "pending"], "%r")? {
        *counts.entry(reason).or_insert(0_u64) += 1;
    }
    let unusual = counts.into_iter().filter(|(reason, _)| !NORMAL_REASONS.contains(&reason.as_str()));
    Ok(unusual.map(|(reason, count)| format!("{}: {reason}", counted(count, "task"))).collect())
}

/// Cancels all waiting and running tasks.
pub fn cancel(submission: &Submission) -> Result<()> {
    if submission.interactive {
        return query(&["scancel", "-n", &submission.ids()], QUERY_TIMEOUT).map(drop);
    }
    let mut ids = queue(submission, &[], "%F")?;
    ids.sort();
    ids.dedup();
    if ids.is_empty() {
        return Ok(());
    }
    let argv = ["scancel"].into_iter().chain(cluster_flag(submission)).chain(ids.iter().map(String::as_str));
    let argv: Vec<&str> = argv.collect();
    query(&argv, QUERY_TIMEOUT).map(drop)
}
