//! Renames the metadata of tarvideo and yt-dlp to the names of video2dataset.

use serde_json::{Map, Value, json};
use tarpipe::sample::Sample;

/// Entries of yt-dlp that describe a download, not the video.
const DOWNLOAD_ENTRIES: [&str; 5] = ["subtitles", "requested_formats", "formats", "thumbnails", "automatic_captions"];

/// clip becomes clips, cuts are converted to frames, probe becomes video_metadata, info.json becomes yt_meta_dict.
pub fn rename(facts: &mut Map<String, Value>, sample: &mut Sample) {
    if let Some(clip) = facts.shift_remove("clip") {
        let was_text = facts.get("clips").is_some_and(has_text);
        facts.insert("clips".into(), clips(&clip, was_text));
    }
    if let Some(Value::Array(spans)) = facts.get("cuts") {
        let cuts = in_frames(spans, facts.get("probe"));
        facts.insert("cuts".into(), cuts);
    }
    if let Some(probe) = facts.shift_remove("probe") {
        facts.insert("video_metadata".into(), probe);
    }
    let Some(at) = sample.members.iter().position(|member| member.field == "info.json") else { return };
    let mut info: Map<String, Value> = serde_json::from_slice(&sample.members.remove(at).data).unwrap_or_default();
    DOWNLOAD_ENTRIES.iter().for_each(|name| drop(info.shift_remove(*name)));
    facts.insert("yt_meta_dict".into(), json!({"info": info}));
}

/// Start and end of a clip: as H:M:S.f if the table had them so, else in seconds.
fn clips(clip: &Value, as_text: bool) -> Value {
    let at = |name: &str| clip.get(name).and_then(Value::as_f64);
    match (at("start"), at("end")) {
        (Some(start), Some(end)) if as_text => json!([[clock(start), clock(end)]]),
        (Some(start), Some(end)) => json!([[start, end]]),
        _ => json!([]),
    }
}

fn has_text(spans: &Value) -> bool {
    match spans {
        Value::Array(items) => items.iter().any(has_text),
        Value::String(text) => text.contains(':'),
        _ => false,
    }
}

fn clock(seconds: f64) -> String {
    let thousandths = (seconds * 1000.0).round() as u64;
    let (minutes, rest) = (thousandths / 60_000, thousandths % 60_000);
    format!("{:02}:{:02}:{:02}.{:03}", minutes / 60, minutes % 60, rest / 1000, rest % 1000)
}

fn in_frames(spans: &[Value], probe: Option<&Value>) -> Value {
    let rate = probe.and_then(rate).unwrap_or(0.0);
    let frame = |at: &Value| json!((at.as_f64().unwrap_or(0.0) * rate).round() as u64);
    let spans: Vec<Vec<Value>> =
        spans.iter().map(|span| span.as_array().into_iter().flatten().map(frame).collect()).collect();
    json!({"original_fps": rate, "cuts_original_fps": spans})
}

/// Frames per second of the first video stream.
fn rate(probe: &Value) -> Option<f64> {
    let mut streams = probe.get("streams")?.as_array()?.iter();
    let video = streams.find(|stream| stream.get("codec_type").is_some_and(|kind| kind == "video"))?;
    let (number, divisor) = video.get("avg_frame_rate")?.as_str()?.split_once('/')?;
    let rate = number.parse::<f64>().ok()? / divisor.parse::<f64>().ok()?;
    rate.is_finite().then_some(rate)
}

#[cfg(test)]
mod tests {
    use tarpipe::sample::Member;

    use super::*;

    fn renamed(facts: Value, members: Vec<Member>) -> Value {
        let Value::Object(mut facts) = facts else { panic!("not an object") };
        let mut sample = Sample { key: "0".into(), mtime: 0, source: "".into(), members };
        rename(&mut facts, &mut sample);
        assert!(sample.members.is_empty());
        facts.into()
    }

    #[test]
    fn metadata_has_the_names_of_video2dataset() {
        let probe = json!({"streams": [{"codec_type": "audio"}, {"codec_type": "video", "avg_frame_rate": "25/1"}]});
        let facts = json!({"clip": {"key": "0", "start": 1.5, "end": 4}, "cuts": [[0, 1.2], [1.2, 4]], "probe": probe});
        let expected = json!({"clips": [[1.5, 4.0]], "video_metadata": probe,
            "cuts": {"original_fps": 25.0, "cuts_original_fps": [[0, 30], [30, 100]]}});
        assert_eq!(renamed(facts, Vec::new()), expected);
        let facts = json!({"clips": [["0:00:01.5", "1:0:4.25"]], "clip": {"start": 1.5, "end": 3604.25}});
        assert_eq!(renamed(facts, Vec::new()), json!({"clips": [["00:00:01.500", "01:00:04.250"]]}));
        let info = Member::new("info.json", br#"{"title": "t", "formats": []}"#.to_vec());
        assert_eq!(renamed(json!({}), vec![info]), json!({"yt_meta_dict": {"info": {"title": "t"}}}));
    }
}
