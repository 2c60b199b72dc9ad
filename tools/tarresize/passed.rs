//! Failures that go on in the stream, for a tool at its end that writes down what became of every sample.

use serde_json::{Map, Value};
use tarpipe::messages;
use tarpipe::sample::{Member, Sample};

use crate::failure::Failure;

/// Whether a tool before this one has failed the sample and passed its json alone.
pub fn is_failed(sample: &Sample) -> bool {
    match sample.members.as_slice() {
        [member] if member.field == "json" => {
            facts(&member.data).get("status").is_some_and(|status| status == "failed")
        }
        _ => false,
    }
}

/// The json of a sample whose image has failed, and why.
pub fn failed(sample: &Sample, failure: &Failure) -> Sample {
    let mut facts = sample.get("json").map(|member| facts(&member.data)).unwrap_or_default();
    facts.insert("status".into(), "failed".into());
    facts.insert("tool".into(), messages::tool().into());
    facts.insert("code".into(), failure.code.name().into());
    facts.insert("error_message".into(), failure.detail.as_str().into());
    let member = Member::new("json", Value::from(facts).to_string().into_bytes());
    Sample { key: sample.key.clone(), mtime: sample.mtime, source: sample.source.clone(), members: vec![member] }
}

/// What the json says; nothing where it is none.
fn facts(json: &[u8]) -> Map<String, Value> {
    serde_json::from_slice(json).unwrap_or_default()
}
