//! Pods as the API shows them.

use anyhow::Result;
use serde_json::Value;

use super::manifest::INDEX;
use crate::engine::Submission;
use crate::joblog::Record;
use crate::results::MORE;

/// A pod of a submission.
pub struct Pod {
    /// Its name,
    pub name: String,
    /// and what no other pod has.
    pub uid: String,
    /// The task that it works on.
    pub task: usize,
    /// Pending, Running, Succeeded or Failed.
    pub phase: String,
    /// How its container ended, such as OOMKilled.
    pub reason: String,
    /// Why it does not start, and in words.
    pub waits: Option<(String, String)>,
    /// What it left as its termination message.
    message: String,
}

/// What a pod waits for on its way to run.
const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Why a pod does not start: what its container waits for, or that no node takes it.
fn waits(status: &Value) -> Option<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let container = &status["containerStatuses"][0]["state"]["waiting"];
    if let Some(reason) = container["reason"].as_str() {
        return (!USUAL.contains(&reason)).then(|| (reason.to_owned(), text(&container["message"])));
    }
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_bad = |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
    let condition = conditions.iter().find(is_bad)?;
    Some((text(&condition["reason"]), text(&condition["message"])))
}

impl Pod {
    /// Whether it has.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// The results in its message, or, where that had no room for all, in what `stdout` gives.
    pub fn records(&self, stdout: impl FnOnce() -> Result<String>) -> Result<Vec<Record>> {
        let text = if self.message.ends_with(MORE) { stdout()? } else { self.message.clone() };
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// A pod in an answer of the API; None where it is none of ours.
    pub fn parse(pod: &Value, submission: &Submission) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &pod["metadata"];
        let index: usize = metadata["annotations"][INDEX].as_str()?.parse().ok()?;
        // A plain Job's name is that of its slice with its number behind it.
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
