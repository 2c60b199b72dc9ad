//! Calls of kubectl, and the objects of a submission that it lists.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::pods::Pod;
use crate::shardrun::engine::external::query;
use crate::shardrun::engine::submission::Submission;

/// Time limit of a call of kubectl.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// kubectl's current context. It is stored with the submission, because the user may switch to another one later.
#[derive(Default)]
pub struct KubeContext {
    /// Name of the context.
    pub name: Option<String>,
    /// Its default namespace.
    pub namespace: Option<String>,
}

impl KubeContext {
    /// Queries kubectl; empty if there is no kubeconfig file, as inside a cluster.
    pub fn query() -> Self {
        let answer = query(&["kubectl", "config", "view", "--minify", "-o", "json"], QUERY_TIMEOUT).unwrap_or_default();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let namespace = text(&answer["contexts"][0]["context"]["namespace"]);
        KubeContext { name: text(&answer["current-context"]), namespace }
    }
}

/// The command line of a call of kubectl.
pub fn kubectl<'a>(submission: &'a Submission, args: &[&'a str]) -> Vec<&'a str> {
    let mut argv = vec!["kubectl"];
    if let Some(context) = &submission.cluster {
        argv.extend(["--context", context]);
    }
    if let Some(namespace) = &submission.namespace {
        argv.extend(["-n", namespace]);
    }
    argv.extend(args);
    argv
}

/// The label selector of the objects of a submission.
pub fn selector(submission: &Submission) -> String {
    let id = submission.parts.first().map_or("", |part| part.id.as_str());
    format!("shardrun={}", id.rsplit_once('-').map_or(id, |(name, _)| name))
}

/// The objects of a submission on the server.
pub struct ClusterView {
    /// Pods that still exist.
    pub pods: Vec<Pod>,
    /// Number of Jobs that have not ended; if all Jobs were deleted, number of pods that have not ended.
    pub active: usize,
    /// Number of Jobs.
    pub jobs: usize,
    /// Completed tasks, if completion means that all of their items are done.
    pub completed: Vec<usize>,
}

/// The objects that `kubectl get` lists.
pub fn get(submission: &Submission, args: &[&str]) -> Result<Vec<Value>> {
    let args = [&["get"], args, &["-o", "json"]].concat();
    let answer = query(&kubectl(submission, &args), QUERY_TIMEOUT)?;
    let mut answer: Value = serde_json::from_str(&answer).context("kubectl: invalid JSON")?;
    Ok(answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// Queries the objects of a submission.
pub fn view(submission: &Submission) -> Result<ClusterView> {
    let selector = selector(submission);
    // kubectl lists Jobs first, so the pods of a Job that has ended have ended too.
    let objects = get(submission, &["jobs,pods", "-l", &selector])?;
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let pods: Vec<Pod> = of_kind("Pod").filter_map(|pod| Pod::parse(pod, submission)).collect();
    let jobs = of_kind("Job").count();
    let active = match jobs {
        0 => pods.iter().filter(|pod| !pod.has_ended()).count(),
        _ => of_kind("Job").filter(|job| !has_ended(job)).count(),
    };
    let completed = of_kind("Job").flat_map(|job| completed(job, submission)).collect();
    Ok(ClusterView { pods, active, jobs, completed })
}

/// Tasks of an Indexed Job that have succeeded. Without a backoff limit per index, this is empty: such pods succeed even if items
/// failed.
fn completed(job: &Value, submission: &Submission) -> Vec<usize> {
    if job["spec"]["backoffLimitPerIndex"].is_null() {
        return Vec::new();
    }
    let first = submission.parts.iter().find(|part| job["metadata"]["name"] == part.id.as_str()).map(|part| part.first);
    let indexes = job["status"]["completedIndexes"].as_str().unwrap_or_default();
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<usize>().ok()?..=high.parse().ok()?)
    };
    let indexes = indexes.split(',').filter_map(range).flatten();
    indexes.filter_map(|index| Some(first? + index)).collect()
}

fn has_ended(job: &Value) -> bool {
    let is_end = |condition: &Value| {
        matches!(condition["type"].as_str(), Some("Complete" | "Failed")) && condition["status"] == "True"
    };
    job["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is_end))
}
