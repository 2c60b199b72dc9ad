//! Failures that go on in the stream, for a tool at its end that writes down what became of every sample.

use serde_json::{Map, Value};

use crate::messages;
use crate::sample::{Member, Sample};

/// Whether a tool before this one has failed the sample and passed its json alone.
pub fn is_failed(sample: &Sample) -> bool {
    let is_alone = matches!(sample.members.as_slice(), [member] if member.field == "json");
    is_alone && facts(sample).get("status").is_some_and(|status| status == "failed")
}

/// The json of a sample that has failed, and why.
pub fn failed(sample: &Sample, code: &str, why: &str) -> Sample {
    let mut facts = facts(sample);
    mark(&mut facts, code, why);
    let member = Member::new("json", Value::from(facts).to_string().into_bytes());
    Sample { key: sample.key.clone(), mtime: sample.mtime, source: sample.source.clone(), members: vec![member] }
}

/// Says in the json of a sample that it has failed, and why.
pub fn mark(facts: &mut Map<String, Value>, code: &str, why: &str) {
    facts.insert("status".into(), "failed".into());
    facts.insert("tool".into(), messages::tool().into());
    facts.insert("code".into(), code.into());
    facts.insert("error_message".into(), why.into());
}

/// What the json of a sample says; nothing where it has none.
pub fn facts(sample: &Sample) -> Map<String, Value> {
    sample.get("json").and_then(|member| serde_json::from_slice(&member.data).ok()).unwrap_or_default()
}
