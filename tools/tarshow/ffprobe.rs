//! Describes audio and video in a few words, if ffprobe is installed.

use std::fs::File;
use std::io::{ErrorKind, Seek, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::Resource;
use serde_json::Value;
use tarpipe::run::captured::{self, Capture};

/// Give up on a file after this time.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Far more than the few requested values need.
const MAX_ANSWER: u64 = 64 << 10;

/// Pixels per frame: four times 8K.
const MAX_PIXELS: &str = "134217728";
/// ffprobe decodes a few frames; limit its memory.
const MAX_MEMORY: u64 = 1 << 30;

static MISSING: AtomicBool = AtomicBool::new(false);

/// Returns a text such as `h264 1280x720, aac 2 channels, 12.5 s`; `None` if ffprobe is missing or fails.
pub fn describe(data: &[u8]) -> Option<String> {
    if MISSING.load(Ordering::Relaxed) {
        return None;
    }
    // A memory file is seekable, which containers with their index at the end require, and disappears with the child.
    let mut file = File::from(rustix::fs::memfd_create("tarshow", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(data).and_then(|()| file.rewind()).ok()?;
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-of", "json", "-protocol_whitelist", "file", "-max_pixels", MAX_PIXELS]);
    command.args(["-show_entries", "format=duration:stream=codec_name,width,height,channels", "-i", "file:/dev/stdin"]);
    command.stdin(file);
    let capture = Capture {
        deadline: Some(Instant::now() + TIMEOUT),
        max_output: MAX_ANSWER,
        resources: &[(Resource::Data, MAX_MEMORY)],
        ..Capture::default()
    };
    match captured::output(command, capture) {
        Ok(answer) if answer.is_success() => summarize(&serde_json::from_slice(&answer.stdout).ok()?),
        Ok(_) => None,
        Err(err) => {
            // Other errors, such as a temporary lack of processes, may not affect the next file.
            MISSING.fetch_or(err.kind() == ErrorKind::NotFound, Ordering::Relaxed);
            None
        }
    }
}

fn summarize(answer: &Value) -> Option<String> {
    let mut parts = Vec::new();
    for stream in answer["streams"].as_array()? {
        let codec = stream["codec_name"].as_str().unwrap_or("unknown");
        parts.push(match (stream["width"].as_u64(), stream["height"].as_u64(), stream["channels"].as_u64()) {
            (Some(width), Some(height), _) => format!("{codec} {width}x{height}"),
            (.., Some(1)) => format!("{codec} mono"),
            (.., Some(2)) => format!("{codec} stereo"),
            (.., Some(n)) => format!("{codec} {n} channels"),
            _ => codec.to_owned(),
        });
    }
    let seconds = answer["format"]["duration"].as_str().and_then(|text| text.parse::<f64>().ok());
    parts.extend(seconds.map(|seconds| format!("{seconds:.1} s")));
    (!parts.is_empty()).then(|| parts.join(", "))
}
