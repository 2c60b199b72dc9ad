//! The properties of media that decide how to process it, from ffprobe's JSON.

use serde_json::Value;

/// One media file.
#[derive(Debug)]
pub struct MediaInfo {
    /// ffprobe's complete output.
    pub probe_output: Value,
    /// In seconds, if known.
    pub duration: Option<f64>,
    pub video: Option<VideoStream>,
    pub audio: Option<AudioStream>,
}

/// The first video stream. Cover art does not count.
#[derive(Debug)]
pub struct VideoStream {
    pub index: u64,
    /// The average number of frames per second; 0 if unknown.
    pub rate: f64,
    /// Whether the frame rate varies.
    pub is_uneven: bool,
    /// Whether pixels are square.
    pub is_square: bool,
    pub width: u64,
    pub height: u64,
    /// The width of a pixel divided by its height.
    pub aspect: f64,
    /// Bytes per decoded pixel, with its share of the colour planes.
    pub pixel_bytes: f64,
    /// Reference frames and reordered frames.
    pub references: u64,
}

/// The first audio stream.
#[derive(Debug)]
pub struct AudioStream {
    pub index: u64,
    pub codec: String,
}

impl MediaInfo {
    /// Parses ffprobe's JSON.
    pub fn new(mut probe_output: Value) -> Self {
        if let Some(format) = probe_output.get_mut("format").and_then(Value::as_object_mut) {
            format.shift_remove("filename"); // the name of the memory file
        }
        let streams = probe_output.get("streams").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let first = |kind: &str| streams.iter().find(|stream| text(stream, "codec_type") == kind && !is_cover(stream));
        let video = first("video");
        let whole = probe_output.get("format").map(|format| number(format, "duration"));
        let duration = video.map(|stream| number(stream, "duration")).filter(|found| *found > 0.0).or(whole);
        MediaInfo {
            duration: duration.filter(|found| *found > 0.0),
            video: video.map(|stream| VideoStream {
                index: stream_index(stream),
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
            audio: first("audio")
                .map(|stream| AudioStream { index: stream_index(stream), codec: text(stream, "codec_name").into() }),
            probe_output,
        }
    }
}

fn is_cover(stream: &Value) -> bool {
    stream.pointer("/disposition/attached_pic").and_then(Value::as_u64) == Some(1)
}

fn stream_index(stream: &Value) -> u64 {
    stream.get("index").and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn whole_number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// Bytes per pixel of a pixel format such as yuv420p10le; the maximum if it is unknown.
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

/// Parses a fraction such as 30000/1001; 0 if it is invalid.
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
