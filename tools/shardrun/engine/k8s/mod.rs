//! Kubernetes, through kubectl: runs tasks as Indexed Jobs, or as one single-pod Job per task on servers without them. Results
//! come back as termination messages, so that pods need no volume that this machine can see.

mod kubectl;
mod limits;
mod manifest;
mod pods;
mod reasons;

use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tarpipe::cli::Outcome;
use tarpipe::messages;

use super::running::stop_if_failed;
use super::submission::{Submission, SubmissionPart};
use super::{Engine, TaskReport, TaskReports, WaitReasons, follow};
use crate::shardrun::engine::external::{query, query_with_input};
use crate::shardrun::engine::site_config::SiteConfig;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{ItemRecord, ItemStatus, JobLog};
use crate::shardrun::run::pending::PendingRun;
use crate::shardrun::task::bundle;
use crate::shardrun::task::worker;
use kubectl::{KubeContext, QUERY_TIMEOUT, each_pod, jobs, kubectl, selector};
use limits::{check, check_limits, counts_failures, is_plain, parallel};
use manifest::{ManifestBuilder, ServerVersion, TaskSlice};
use pods::Pod;

/// Version to assume in a dry run if the server cannot be queried.
const RECENT_VERSION: ServerVersion = ServerVersion(31);
/// Time limit for deleting all objects; pods have 30 s to end.
const DELETE_TIMEOUT: Duration = Duration::from_secs(300);
/// Most Jobs to create by one call.
const BATCH: usize = 100;

/// Kubernetes.
pub struct K8s;

impl Engine for K8s {
    fn run(&self, pending: PendingRun) -> Result<Outcome> {
        let submission = submit(&pending)?;
        follow(pending, &submission)
    }

    fn dry_run(&self, pending: &PendingRun) -> Result<String> {
        dry_run(pending)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn needs_failure_check(&self) -> bool {
        true // with several Jobs, each counts only its own failures
    }

    fn is_running(&self, folder: &RunFolder, submission: &Submission) -> Result<bool> {
        Ok(collect(folder, submission)? > 0)
    }

    fn cancel(&self, folder: &RunFolder, submission: &Submission) -> Result<()> {
        cancel(folder, submission)
    }

    fn remaining(&self, _: &RunFolder, submission: &Submission) -> Result<String> {
        remaining(submission)
    }

    fn delete(&self, folder: &RunFolder, submission: &Submission) -> Result<bool> {
        delete(folder, submission).map(|()| true)
    }

    fn task_reports(&self, submission: &Submission) -> TaskReports {
        task_reports(submission)
    }

    fn reasons(&self, submission: &Submission) -> Result<Vec<String>> {
        reasons::reasons(submission)
    }

    fn collect(&self, folder: &RunFolder, submission: &Submission) -> Result<()> {
        collect(folder, submission).map(drop)
    }

    fn logs(&self, submission: &Submission, task: usize) -> Option<String> {
        logs(submission, task)
    }
}

/// Submits all tasks.
fn submit(pending: &PendingRun) -> Result<Submission> {
    let config = SiteConfig::read(pending.settings.config.as_deref())?;
    check(pending, &config)?;
    let server = server_version(&config)?;
    let slices = manifest::slices(pending)?;
    check_limits(pending, server, slices.len())?;
    let mut submission = Submission::create(pending)?;
    let context = KubeContext::query();
    submission.cluster = context.name;
    submission.namespace = namespace(pending, &config).or(context.namespace);
    let builder = builder(pending, &config, server, &submission.name(&pending.spec.plan), slices.len());
    for slice in &slices {
        submission.parts.push(SubmissionPart { id: builder.name_of(slice), first: slice.first, tasks: slice.tasks });
    }
    submission.save()?;
    for slice in &slices {
        create(&submission, vec![builder.config_map(slice)])?;
        match is_plain(pending, server) {
            false => create(&submission, vec![builder.indexed_job(slice)?])?,
            true if create_plain(pending, &builder, slice, &submission)? => {}
            true => break,
        }
    }
    Ok(submission)
}

/// The manifests of the objects that would be created.
fn dry_run(pending: &PendingRun) -> Result<String> {
    let config = SiteConfig::read(pending.settings.config.as_deref())?;
    check(pending, &config)?;
    let server = server_version(&config).unwrap_or(RECENT_VERSION);
    let slices = manifest::slices(pending)?;
    check_limits(pending, server, slices.len())?;
    let name = Submission::for_dry_run(pending).name(&pending.spec.plan).to_lowercase();
    let builder = builder(pending, &config, server, &name, slices.len());
    let mut documents = Vec::new();
    for slice in &slices {
        documents.push(builder.config_map(slice));
        if is_plain(pending, server) {
            (0..slice.tasks).try_for_each(|task| builder.plain_job(slice, task).map(|job| documents.push(job)))?;
        } else {
            documents.push(builder.indexed_job(slice)?);
        }
    }
    let texts: Result<Vec<String>, _> = documents.iter().map(serde_json::to_string_pretty).collect();
    Ok(texts?.join("\n---\n") + "\n")
}

fn namespace(pending: &PendingRun, config: &SiteConfig) -> Option<String> {
    pending.settings.namespace.clone().or_else(|| config.k8s.namespace.clone())
}

fn builder<'a>(
    pending: &'a PendingRun,
    config: &'a SiteConfig,
    server: ServerVersion,
    name: &str,
    slices: usize,
) -> ManifestBuilder<'a> {
    // The Jobs of a run share the limit of -j.
    let parallel = (parallel(pending) / slices.max(1)).max(1);
    ManifestBuilder {
        pending,
        config,
        server,
        name: name.to_owned(),
        parallel,
        stops: counts_failures(pending, server, slices),
    }
}

/// The version of the server; the site configuration overrides it.
fn server_version(config: &SiteConfig) -> Result<ServerVersion> {
    if let Some(version) = &config.k8s.version {
        return ServerVersion::parse(version)
            .with_context(|| format!("--config: invalid Kubernetes version '{version}'"));
    }
    let answer: Value = serde_json::from_str(&query(&["kubectl", "version", "-o", "json"], QUERY_TIMEOUT)?)?;
    let text = |key: &str| answer["serverVersion"][key].as_str().unwrap_or_default().to_owned();
    let version = format!("{}.{}", text("major"), text("minor"));
    ServerVersion::parse(&version).with_context(|| format!("kubectl: invalid server version '{version}'"))
}

/// Creates objects. It is an error if one exists, because it is not ours. Unlike `kubectl apply`, this does not store a copy of
/// each object in an annotation, which has less room than a ConfigMap.
fn create(submission: &Submission, objects: Vec<Value>) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let name = submission.path.join("manifest.json");
    std::fs::write(&name, serde_json::to_string(&list)?).with_context(|| name.display().to_string())?;
    query_with_input(&kubectl(submission, &["create", "--validate=false", "-f", "-"]), &list.to_string(), QUERY_TIMEOUT)
        .map(drop)
}

/// Creates one Job per task: all at once, or with --wait as many as may run, and more when some have ended. Returns false if
/// too many items failed meanwhile and the run was ended.
fn create_plain(
    pending: &PendingRun,
    builder: &ManifestBuilder<'_>,
    slice: &TaskSlice,
    submission: &Submission,
) -> Result<bool> {
    let mut reasons = WaitReasons::default();
    let mut next = 0;
    while next < slice.tasks {
        let room = match pending.settings.wait {
            false => BATCH,
            true => parallel(pending).saturating_sub(collect(&pending.folder, submission)?),
        };
        let until = (next + room.min(BATCH)).min(slice.tasks);
        if until > next {
            let jobs = (next..until).map(|task| builder.plain_job(slice, task)).collect::<Result<_>>()?;
            create(submission, jobs)?;
            next = until;
        } else {
            std::thread::sleep(Duration::from_secs(1));
            reasons.report(submission);
        }
        if stop_if_failed(pending, submission)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The states of the tasks, from their pods.
fn task_reports(submission: &Submission) -> TaskReports {
    query_reports(submission).unwrap_or_default()
}

fn query_reports(submission: &Submission) -> Result<TaskReports> {
    let jobs = jobs(submission)?;
    let are_over = jobs.count > 0 && jobs.active == 0;
    let mut reports = TaskReports::new();
    each_pod(submission, |pod| {
        let report = match pod.phase.as_str() {
            "Running" => TaskReport::open(ItemStatus::Running),
            "Pending" => TaskReport::open(ItemStatus::Left),
            // The Job creates another pod, or was deleted.
            "Failed" if !are_over => TaskReport::open(ItemStatus::Left),
            _ => TaskReport::ended(&pod.reason),
        };
        let is_better = reports.get(&pod.task).is_none_or(|known| known.status != ItemStatus::Running);
        if is_better {
            reports.insert(pod.task, report);
        }
        Ok(())
    })?;
    if jobs.active > 0 && reports.is_empty() {
        reports.insert(usize::MAX, TaskReport::open(ItemStatus::Left)); // the Jobs exist, but not their pods yet
    }
    Ok(reports)
}

/// Collects the results of pods that have ended into the run folder, each once; returns the number of Jobs that have not
/// ended, or, if all Jobs were deleted, of pods that have not. It is called repeatedly while waiting, because a lost node takes
/// its pods and their results along. A task that only the Job remembers as completed gets a record without details.
fn collect(folder: &RunFolder, submission: &Submission) -> Result<usize> {
    // Several processes may wait for the same run; each result is collected once.
    let lock = File::create(submission.path.join("collecting")).and_then(|file| file.lock().map(|()| file));
    let _lock = lock.with_context(|| submission.path.display().to_string())?;
    let jobs = jobs(submission)?;
    let file = submission.path.join("collected");
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let mut known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    let before = known.len();
    let mut log = JobLog::open(folder)?;
    let mut open = 0;
    each_pod(submission, |pod| {
        if !pod.has_ended() {
            open += 1;
        } else if !known.contains(&pod.uid) {
            for record in pod.records(|| query(&kubectl(submission, &["logs", &pod.name]), QUERY_TIMEOUT))? {
                worker::store(folder, &mut log, &record)?;
            }
            if pod.phase == "Succeeded" {
                known.insert(marker(pod.task));
            }
            known.insert(pod.uid);
        }
        Ok(())
    })?;
    let unreported: BTreeSet<usize> = jobs.completed.into_iter().filter(|&task| known.insert(marker(task))).collect();
    if !unreported.is_empty() {
        let mut records = Vec::new();
        bundle::each_task(&submission.path, |task, items| {
            let is_unreported = unreported.contains(&task);
            records
                .extend(items.iter().filter(|_| is_unreported).map(|(index, value)| ItemRecord::done(*index, value)));
        })?;
        records.iter().try_for_each(|record| log.append(record))?;
    }
    if known.len() > before {
        let lines: Vec<String> = known.into_iter().collect();
        tarpipe::sink::write_text(&file.to_string_lossy(), &(lines.join("\n") + "\n"))?;
    }
    Ok(if jobs.count == 0 { open } else { jobs.active })
}

/// The entry for a succeeded task in the list of collected results.
fn marker(task: usize) -> String {
    format!("task {task}")
}

/// The log of the latest pod of a task.
fn logs(submission: &Submission, task: usize) -> Option<String> {
    let mut latest = None;
    let find = |pod: Pod| {
        if pod.task == task {
            latest = Some(pod.name);
        }
        Ok(())
    };
    each_pod(submission, find).ok()?;
    query(&kubectl(submission, &["logs", &latest?]), QUERY_TIMEOUT).ok()
}

/// Deletes the Jobs after collecting their results.
fn cancel(folder: &RunFolder, submission: &Submission) -> Result<()> {
    if let Err(err) = collect(folder, submission) {
        messages::notice(&format!("results of finished pods may be lost: {err:#}"));
    }
    let selector = selector(submission);
    query(&kubectl(submission, &["delete", "jobs,configmaps", "-l", &selector, "--wait=false"]), QUERY_TIMEOUT)
        .map(drop)
}

/// Deletes all objects of a submission, and waits until they are gone.
fn delete(folder: &RunFolder, submission: &Submission) -> Result<()> {
    collect(folder, submission)?;
    let selector = selector(submission);
    query(&kubectl(submission, &["delete", "jobs,pods,configmaps", "-l", &selector, "--wait"]), DELETE_TIMEOUT)
        .map(drop)
}

/// The Jobs of a cancelled submission that still exist, or else its pods that are being ended; empty if there are none.
fn remaining(submission: &Submission) -> Result<String> {
    if jobs(submission)?.count > 0 {
        return Ok(submission.ids());
    }
    let mut pods = Vec::new();
    each_pod(submission, |pod| {
        if !pod.has_ended() {
            pods.push(pod.name);
        }
        Ok(())
    })?;
    Ok(pods.join(","))
}
