//! Reads pods from the answers of the Kubernetes API.

use anyhow::Result;
use serde_json::Value;

use super::manifest::INDEX_ANNOTATION;
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

/// Why a pod does not start: the reason of its container, or of the scheduler.
fn waits(status: &Value) -> Option<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let container = &status["containerStatuses"][0]["state"]["waiting"];
    if let Some(reason) = container["reason"].as_str() {
        return (!NORMAL_REASONS.contains(&reason)).then(|| (reason.to_owned(), text(&container["message"])));
    }
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_unscheduled = |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
    let condition = conditions.iter().find(is_unscheduled)?;
    Some((text(&condition["reason"]), text(&condition["message"])))
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

    /// Parses a pod; None if it does not belong to the submission.
    pub fn parse(pod: &Value, submission: &Submission) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &pod["metadata"];
        let index: usize = metadata["annotations"][INDEX_ANNOTATION].as_str()?.parse().ok()?;
        // The name of a plain Job is the name of its slice and its number.
        let job = text(&metadata["labels"]["job-name"]);
        let part = submission.parts.iter().find(|part| job == part.id || job == format!("{}-{index}", part.id))?;
        let terminated = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        let reason = [&terminated["reason"], &pod["status"]["reason"]].into_iter().find_map(Value::as_str);
        Some(Pod {
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            task: part.first + index,
            phase: text(&pod["status"]["phase"]),
            reason: reason.unwrap_or("failed").to_owned(),
            waits: waits(&pod["status"]).filter(|_| pod["status"]["phase"] == "Pending"),
            message: text(&terminated["message"]),
        })
    }
}
