//! What ffprobe says about media, as far as a run depends on it.

use serde_json::Value;

/// One file of media.
#[derive(Debug)]
pub struct Media {
    /// All that ffprobe said.
    pub facts: Value,
    /// In seconds, where it is known.
    pub duration: Option<f64>,
    pub video: Option<Picture>,
    pub sound: Option<Voice>,
}

/// The first stream of video. Covers of albums are none.
#[derive(Debug)]
pub struct Picture {
    pub index: u64,
    /// Frames a second on average; 0 where it is not known.
    pub rate: f64,
    /// Whether frames come at uneven times.
    pub is_uneven: bool,
    /// Whether pixels are squares.
    pub is_square: bool,
}

/// The first stream of sound.
#[derive(Debug)]
pub struct Voice {
    pub index: u64,
    pub codec: String,
}

impl Media {
    /// Reads ffprobe's JSON.
    pub fn new(mut facts: Value) -> Self {
        if let Some(format) = facts.get_mut("format").and_then(Value::as_object_mut) {
            format.shift_remove("filename"); // ours, not the data's
        }
        let streams = facts.get("streams").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let first = |kind: &str| streams.iter().find(|stream| text(stream, "codec_type") == kind && !is_cover(stream));
        let video = first("video");
        let whole = facts.get("format").map(|format| number(format, "duration"));
        let duration = video.map(|stream| number(stream, "duration")).filter(|found| *found > 0.0).or(whole);
        Media {
            duration: duration.filter(|found| *found > 0.0),
            video: video.map(|stream| Picture {
                index: index(stream),
                rate: ratio(text(stream, "avg_frame_rate")),
                is_uneven: text(stream, "avg_frame_rate") != text(stream, "r_frame_rate"),
                is_square: matches!(text(stream, "sample_aspect_ratio"), "" | "1:1" | "0:1"),
            }),
            sound: first("audio")
                .map(|stream| Voice { index: index(stream), codec: text(stream, "codec_name").into() }),
            facts,
        }
    }
}

fn is_cover(stream: &Value) -> bool {
    stream.pointer("/disposition/attached_pic").and_then(Value::as_u64) == Some(1)
}

fn index(stream: &Value) -> u64 {
    stream.get("index").and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// 30000/1001 as a number, 0 where it is none.
fn ratio(text: &str) -> f64 {
    let (number, divisor) = text.split_once('/').unwrap_or((text, "1"));
    match (number.parse::<f64>(), divisor.parse::<f64>()) {
        (Ok(number), Ok(divisor)) if divisor > 0.0 => number / divisor,
        _ => 0.0,
    }
}

/// ffprobe writes numbers as text.
fn number(value: &Value, key: &str) -> f64 {
    text(value, key).parse().unwrap_or(0.0)
}
