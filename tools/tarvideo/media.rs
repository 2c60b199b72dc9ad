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
    pub width: u64,
    pub height: u64,
    /// The width of a pixel by its height.
    pub aspect: f64,
    /// Bytes of a decoded pixel, its share of the colour planes included.
    pub pixel_bytes: f64,
    /// Frames that others refer to, or that wait for others.
    pub references: u64,
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
                width: whole_number(stream, "width").max(whole_number(stream, "coded_width")).max(1),
                height: whole_number(stream, "height").max(whole_number(stream, "coded_height")).max(1),
                aspect: Some(ratio(&text(stream, "sample_aspect_ratio").replace(':', "/")))
                    .filter(|aspect| *aspect > 0.0)
                    .unwrap_or(1.0),
                pixel_bytes: pixel_bytes(text(stream, "pix_fmt")),
                references: whole_number(stream, "refs") + whole_number(stream, "has_b_frames"),
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

fn whole_number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// Bytes of a pixel in a format that ffprobe names, such as yuv420p10le; the most that there are where it is unknown.
fn pixel_bytes(format: &str) -> f64 {
    let has = |parts: &[&str]| parts.iter().any(|part| format.contains(part));
    let samples = if has(&["420", "nv12", "nv21", "p010", "p016"]) {
        1.5
    } else if has(&["gray", "mono", "pal8"]) {
        1.0
    } else if has(&["410", "411", "422", "440", "nv16"]) {
        2.0
    } else {
        4.0
    };
    let alpha = if format.starts_with("yuva") { 1.0 } else { 0.0 };
    let is_deep = has(&["9le", "9be", "10le", "10be", "12le", "12be", "14le", "14be", "16le", "16be", "48", "64"]);
    (samples + alpha) * if is_deep || format.is_empty() { 2.0 } else { 1.0 }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_have_the_bytes_of_their_format() {
        let expected =
            [("yuv420p", 1.5), ("yuv420p10le", 3.0), ("yuv422p", 2.0), ("yuva444p12le", 10.0), ("rgb24", 4.0)];
        for (format, bytes) in expected.into_iter().chain([("gray", 1.0), ("rgb48le", 8.0), ("", 8.0)]) {
            assert_eq!(pixel_bytes(format), bytes, "{format}");
        }
    }
}
