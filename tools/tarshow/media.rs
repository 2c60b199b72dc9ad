//! Audio and video in a few words, by ffprobe where it is there.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use tarpipe::run::signals;
use tarpipe::run::watched::wait_readable;

/// A probe that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any answer to the few questions asked.
const MAX_ANSWER: usize = 64 << 10;

/// Pixels of a frame: four times 8K.
const MAX_PIXELS: &str = "134217728";
/// ffprobe decodes a few frames to know them; one that takes more memory is given up.
const MAX_MEMORY: u64 = 1 << 30;

static MISSING: AtomicBool = AtomicBool::new(false);

/// `h264 1280x720, aac 2 channels, 12.5 s`; None where ffprobe is missing or has no answer.
pub fn probe(data: &[u8]) -> Option<String> {
    if MISSING.load(Ordering::Relaxed) {
        return None;
    }
    // Seekable, as containers with their index at the end demand, and gone with the child.
    let mut file = File::from(rustix::fs::memfd_create("tarshow", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(data).and_then(|()| file.rewind()).ok()?;
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-of", "json", "-protocol_whitelist", "file", "-max_pixels", MAX_PIXELS]);
    command.args(["-show_entries", "format=duration:stream=codec_name,width,height,channels", "-i", "file:/dev/stdin"]);
    command.stdin(file).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    match command.spawn() {
        Ok(child) => describe(&serde_json::from_slice(&answer(child)?).ok()?),
        Err(err) => {
            // A machine that is short of processes now has some for the next file.
            MISSING.fetch_or(err.kind() == ErrorKind::NotFound, Ordering::Relaxed);
            None
        }
    }
}

/// All that the child says, if it ends well and in time.
fn answer(mut child: Child) -> Option<Vec<u8>> {
    signals::guard_group(child.id());
    let limit = Rlimit { current: Some(MAX_MEMORY), maximum: Some(MAX_MEMORY) };
    _ = prlimit(Some(Pid::from_child(&child)), Resource::Data, limit);
    let said = child.stdout.take().and_then(|stdout| listen(stdout.into()));
    if said.is_none() {
        signals::end_group(child.id(), rustix::process::Signal::KILL);
    }
    let ended_well = child.wait().is_ok_and(|status| status.success());
    signals::release_group(child.id());
    said.filter(|_| ended_well)
}

fn listen(pipe: std::os::fd::OwnedFd) -> Option<Vec<u8>> {
    let (until, mut pipe, mut said) = (Instant::now() + PATIENCE, File::from(pipe), Vec::new());
    let mut buf = [0; 4096];
    loop {
        if !wait_readable(&pipe, Some(until)).ok()? {
            return None;
        }
        match pipe.read(&mut buf).ok()? {
            0 => return Some(said),
            n => said.extend_from_slice(&buf[..n]),
        }
        if said.len() > MAX_ANSWER {
            return None;
        }
    }
}

fn describe(answer: &Value) -> Option<String> {
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
