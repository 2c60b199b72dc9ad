//! Reads pods from the answers of the Kubernetes API.

use anyhow::Result;
use serde::Deserialize;

use crate::shardrun::engine::Submission;
use crate::shardrun::run::job_log::ItemRecord;
use crate::shardrun::task::results::TRUNCATED;

/// A pod of a submission.
pub struct Pod {
    /// Name.
    pub name: String,
    /// Unique id.
    pub uid: String,
    /// The task that the pod runs.
    pub task: usize,
    /// Pending, Running, Succeeded or Failed.
    pub phase: String,
    /// How its container ended, such as OOMKilled.
    pub reason: String,
    /// Why it does not start: reason and message.
    pub waits: Option<(String, String)>,
    /// Termination message.
    message: String,
}

/// Reasons to wait of every pod that starts.
const NORMAL_REASONS: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The fields of a pod that are used. A pod has many more, so that a list of generic values would take ten times the memory.
#[derive(Deserialize)]
pub struct PodObject {
    metadata: PodMetadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct PodMetadata {
    name: String,
    uid: String,
    #[serde(default)]
    labels: PodLabels,
    #[serde(default)]
    annotations: PodAnnotations,
}

#[derive(Default, Deserialize)]
struct PodLabels {
    #[serde(rename = "job-name")]
    job: Option<String>,
}

#[derive(Default, Deserialize)]
struct PodAnnotations {
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    index: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: String,
    reason: Option<String>,
    container_statuses: Vec<ContainerStatus>,
    conditions: Vec<PodCondition>,
}

#[derive(Default, Deserialize)]
struct ContainerStatus {
    #[serde(default)]
    state: ContainerState,
}

#[derive(Default, Deserialize)]
struct ContainerState {
    waiting: Option<StateDetail>,
    terminated: Option<StateDetail>,
}

#[derive(Default, Deserialize)]
struct StateDetail {
    reason: Option<String>,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct PodCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

impl PodStatus {
    /// Why the pod does not start: the reason of its container, or of the scheduler.
    fn waits(&self) -> Option<(String, String)> {
        let waiting = self.container_statuses.first().and_then(|container| container.state.waiting.as_ref());
        if let Some(StateDetail { reason: Some(reason), message }) = waiting {
            return (!NORMAL_REASONS.contains(&reason.as_str())).then(|| (reason.clone(), message.clone()));
        }
        let is_unscheduled =
            |condition: &&PodCondition| condition.kind == "PodScheduled" && condition.status == "False";
        let condition = self.conditions.iter().find(is_unscheduled)?;
        Some((condition.reason.clone(), condition.message.clone()))
    }
}

impl Pod {
    /// Whether the pod has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// The results in its termination message, or in its `stdout` if the message had no room for all.
    pub fn records(&self, stdout: impl FnOnce() -> Result<String>) -> Result<Vec<ItemRecord>> {
        let text = if self.message.ends_with(TRUNCATED) { stdout()? } else { self.message.clone() };
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// None if the object does not belong to the submission.
    pub fn new(object: PodObject, submission: &Submission) -> Option<Self> {
        let PodObject { metadata, mut status } = object;
        let index: usize = metadata.annotations.index?.parse().ok()?;
        // The name of a plain Job is the name of its slice and its number.
        let job = metadata.labels.job?;
        let part = submission.parts.iter().find(|part| job == part.id || job == format!("{}-{index}", part.id))?;
        let waits = status.waits().filter(|_| status.phase == "Pending");
        let terminated = status.container_statuses.first_mut().and_then(|container| container.state.terminated.take());
        let terminated = terminated.unwrap_or_default();
        Some(Pod {
            name: metadata.name,
            uid: metadata.uid,
            task: part.first + index,
            phase: status.phase,
            reason: terminated.reason.or(status.reason).unwrap_or_else(|| "failed".to_owned()),
            waits,
            message: terminated.message,
        })
    }
}
