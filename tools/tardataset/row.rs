//! A sample or failure from the stream: its files, and the entries of its json.

use serde_json::{Map, Value};
use tarpipe::sample::Sample;
use tarpipe::sample::failed;

/// A sample or a failure, with its json parsed.
pub struct DatasetRow {
    /// The sample without its json.
    pub sample: Sample,
    pub facts: Map<String, Value>,
    /// The key of the video that this is a clip of.
    pub clip_of: Option<String>,
}

impl From<Sample> for DatasetRow {
    fn from(mut sample: Sample) -> Self {
        let mut facts = failed::facts(&sample);
        sample.members.retain(|member| member.field != "json");
        facts.insert("key".into(), sample.key.as_str().into());
        let video = facts.get("clip").and_then(|clip| clip.get("key")).and_then(Value::as_str);
        // If the key does not extend that of the video, the entry is from an earlier run.
        let is_its_clip = |video: &&str| sample.key.strip_prefix(video).is_some_and(|rest| rest.starts_with('_'));
        let clip_of = video.filter(is_its_clip).map(str::to_owned);
        DatasetRow { sample, facts, clip_of }
    }
}
