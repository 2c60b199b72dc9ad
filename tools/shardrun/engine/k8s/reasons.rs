//! Finds out why pods do not start: missing images, no suitable node, exceeded quotas.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;
use tarpipe::tally::counted;

use super::kubectl::{each_pod, each_warning, jobs};
use crate::shardrun::engine::Submission;

/// Why pods do not start, or why there are none: each reason once with its number of pods.
pub fn reasons(submission: &Submission) -> Result<Vec<String>> {
    let active = jobs(submission)?.active;
    let (mut pods, mut is_running) = (0, false);
    let mut found: BTreeMap<String, (u64, String)> = BTreeMap::new();
    each_pod(submission, |pod| {
        pods += 1;
        is_running |= pod.phase == "Running";
        if let Some((reason, message)) = pod.waits {
            found.entry(reason).or_insert((0, message)).0 += 1;
        }
        Ok(())
    })?;
    if pods == 0 && active > 0 {
        return no_pods(submission);
    }
    // Waiting for resources while other pods run is normal.
    found.retain(|reason, _| reason != "Unschedulable" || !is_running);
    let describe = |(reason, (count, message))| format!("{}: {reason}: {message}", counted(count, "pod"));
    Ok(found.into_iter().map(describe).collect())
}

/// Why the Jobs have no pods, from their events: a quota, an admission policy.
fn no_pods(submission: &Submission) -> Result<Vec<String>> {
    let name = submission.parts.first().map_or("", |part| part.id.as_str());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut last = None;
    each_warning(submission, |event| {
        if event["involvedObject"]["name"].as_str().is_some_and(|job| job.starts_with(name)) {
            last = Some(format!("no pod: {}: {}", text(&event["reason"]), text(&event["message"])));
        }
    })?;
    Ok(last.into_iter().collect())
}
