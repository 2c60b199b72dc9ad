//! A sample on its way into the dataset: its files, what its json says, and the row that it came of.

use serde_json::{Map, Value};
use tarpipe::sample::Sample;
use tarpipe::sample::failed;

/// A sample or a failure.
pub struct Row {
    /// Without its json.
    pub sample: Sample,
    pub facts: Map<String, Value>,
    /// The key of the sample that this is a clip of.
    pub clip_of: Option<String>,
}

impl From<Sample> for Row {
    fn from(mut sample: Sample) -> Self {
        let mut facts = failed::facts(&sample);
        sample.members.retain(|member| member.field != "json");
        facts.insert("key".into(), sample.key.as_str().into());
        let whole = facts.get("clip").and_then(|clip| clip.get("key")).and_then(Value::as_str);
        // A clip of a clip was cut before, by a run that is over.
        let is_its = |whole: &&str| sample.key.strip_prefix(whole).is_some_and(|rest| rest.starts_with('_'));
        let clip_of = whole.filter(is_its).map(str::to_owned);
        Row { sample, facts, clip_of }
    }
}
