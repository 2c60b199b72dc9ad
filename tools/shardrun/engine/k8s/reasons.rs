//! Finds out why pods do not start: missing images, no suitable node, exceeded quotas.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;
use tarpipe::tally::counted;

use super::kubectl::{get, view};
use crate::shardrun::engine::Submission;

/// Why pods do not start, or why there are none: each reason once with its number of pods.
pub fn reasons(submission: &Submission) -> Result<Vec<String>> {
    let view = view(submission)?;
    if view.pods.is_empty() && view.active > 0 {
        return no_pods(submission);
    }
    let is_running = view.pods.iter().any(|pod| pod.phase == "Running");
    let mut found: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for (reason, message) in view.pods.iter().filter_map(|pod| pod.waits.as_ref()) {
        // Waiting for resources while other pods run is normal.
        if reason != "Unschedulable" || !is_running {
            found.entry(reason).or_insert((0, message)).0 += 1;
        }
    }
    let describe =
        |(reason, (count, message)): (&str, (u64, &str))| format!("{}: {reason}: {message}", counted(count, "pod"));
    Ok(found.into_iter().map(describe).collect())
}

/// Why the Jobs have no pods, from their events: a quota, an admission policy.
fn no_pods(submission: &Submission) -> Result<Vec<String>> {
    let selector = "involvedObject.kind=Job,type=Warning";
    let events = get(submission, &["events", "--field-selector", selector])?;
    let name = submission.parts.first().map_or("", |part| part.id.as_str());
    let mut ours =
        events.iter().filter(|event| event["involvedObject"]["name"].as_str().is_some_and(|job| job.starts_with(name)));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(ours
        .next_back()
        .map(|event| format!("no pod: {}: {}", text(&event["reason"]), text(&event["message"])))
        .into_iter()
        .collect())
}
