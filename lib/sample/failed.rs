//! Failed samples that stay in the stream (`--pass-failed`), so that the tool
//! at its end can record what happened to every sample.
//!
//! A failed sample has a single member, `json`, with the entries `status`
//! (`"failed"`), `tool`, `code` and `error_message` beside those that it had
//! before.

use serde_json::{Map, Value};

use crate::messages;
use crate::sample::{Member, Sample};

/// Returns true if a tool before this one has marked the sample as failed: it
/// consists of a `json` member with `"status": "failed"`. Parses the json.
pub fn is_failed(sample: &Sample) -> bool {
    let is_alone = matches!(sample.members.as_slice(), [member] if member.field == "json");
    is_alone && facts(sample).get("status").is_some_and(|status| status == "failed")
}

/// The failed form of a sample: its `json`, marked with the code and the
/// reason. Other members are not included.
///
/// ```
/// use tarpipe::sample::{Member, Sample, failed};
///
/// let json = Member::new("json", br#"{"url": "http://h/1"}"#.to_vec());
/// let members = vec![Member::new("jpg", vec![0; 10]), json];
/// let cat = Sample { key: "cat".into(), mtime: 0, source: "stdin".into(), members };
/// let failure = failed::sample(&cat, "decode", "not an image");
/// assert!(failed::is_failed(&failure));
/// assert_eq!(failed::facts(&failure)["url"], "http://h/1");
/// assert_eq!(failed::facts(&failure)["code"], "decode");
/// ```
pub fn sample(sample: &Sample, code: &str, why: &str) -> Sample {
    let mut facts = facts(sample);
    mark(&mut facts, code, why);
    let member = Member::new("json", Value::from(facts).to_string().into_bytes());
    Sample { key: sample.key.clone(), mtime: sample.mtime, source: sample.source.clone(), members: vec![member] }
}

/// Marks the json of a sample as failed in this tool. Existing entries of these
/// names are replaced.
pub fn mark(facts: &mut Map<String, Value>, code: &str, why: &str) {
    facts.insert("status".into(), "failed".into());
    facts.insert("tool".into(), messages::tool().into());
    facts.insert("code".into(), code.into());
    facts.insert("error_message".into(), why.into());
}

/// The parsed `json` member of a sample; empty if it has none, or if it is not
/// a JSON object.
pub fn facts(sample: &Sample) -> Map<String, Value> {
    sample.get("json").and_then(|member| serde_json::from_slice(&member.data).ok()).unwrap_or_default()
}
