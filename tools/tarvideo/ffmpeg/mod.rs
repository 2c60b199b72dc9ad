//! Runs ffmpeg and ffprobe on one file in memory, within limits on time, memory and output, and turns their messages
//! into reason codes.

pub mod collect;
pub mod command_line;
pub mod media_info;
pub mod output_files;
pub mod plan;
pub mod probe;
pub mod program;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::{Resource, Signal};
use tarpipe::messages;
use tarpipe::run::captured::{Capture, CommandEnd, RunningCommand};
use tarpipe::run::failure::Failure;
use tarpipe::run::watched;

/// Bytes of ffmpeg's messages to keep: the first message is the one that matters.
const MAX_MESSAGES: usize = 64 << 10;
/// Messages about a truncated file, after which ffmpeg still exits with success.
const TRUNCATED: [&str; 2] = ["partial file", "ended prematurely"];
/// Messages of ffmpeg and its encoders when they run out of memory.
const OUT_OF_MEMORY: [&str; 4] = ["Cannot allocate memory", "malloc of size", "get_buffer() failed", "bad_alloc"];
/// Pixels per frame, four times 8K. More is a wrong header or a bomb.
const MAX_PIXELS: &str = "134217728";

/// The containers that may be opened. Playlists and scripts (hls, concat, dash, sdp …) are not among them, because they
/// make ffmpeg read other files.
const CONTAINERS: &str = "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,flv,asf,ogg,mp3,flac,wav,w64,aac,aiff,au,caf,\
    amr,ac3,eac3,dts,gif,apng,mxf,nut,ivf,obu,h264,hevc,rm,dv,mjpeg,yuv4mpegpipe,wv,ape,tta,wtv";

/// The limits for one sample.
#[derive(Clone, Copy, Debug)]
pub struct FfmpegLimits {
    /// The time for all runs together.
    pub timeout: Duration,
    /// When the time is over.
    pub deadline: Instant,
    /// Bytes that may be written, and bytes of stdout that are read.
    pub max_bytes: u64,
    /// Memory for one run, so that media with a wrong header cannot take more.
    pub memory: u64,
}

/// Copies data to a seekable file in memory.
pub fn in_memory(data: &[u8]) -> Result<File, Failure> {
    let made = rustix::fs::memfd_create("tarvideo", MemfdFlags::CLOEXEC);
    let mut file = File::from(made.map_err(|err| Failure::system("hold the media in memory", err))?);
    file.write_all(data).map_err(|err| Failure::io("hold the media in memory", &err))?;
    Ok(file)
}

/// The flags before every input: only this file, and only known containers.
pub fn input_flags() -> [&'static str; 6] {
    ["-protocol_whitelist", "file", "-format_whitelist", CONTAINERS, "-max_pixels", MAX_PIXELS]
}

/// The name of the media: stdin, which is the memory file.
pub const MEDIA: &str = "/dev/stdin";

/// Runs a command in `directory` with `media` as its stdin, and returns its stdout.
///
/// With `strict`, a truncated file is a failure even if ffmpeg succeeds.
pub fn run(
    mut command: Command,
    media: &File,
    directory: &Path,
    limits: FfmpegLimits,
    strict: bool,
) -> Result<Vec<u8>, Failure> {
    watched::park_if_ending();
    if Instant::now() >= limits.deadline {
        return Err(timed_out(limits));
    }
    let system = |err: io::Error| Failure::io("start ffmpeg", &err);
    command.stdin(media.try_clone().map_err(system)?).current_dir(directory);
    let check = || if size_of(directory) > limits.max_bytes { Err(too_large(limits.max_bytes)) } else { Ok(()) };
    let capture = Capture {
        deadline: Some(limits.deadline),
        max_output: limits.max_bytes,
        resources: &[(Resource::Fsize, limits.max_bytes), (Resource::Data, limits.memory)],
        check: Some(&check),
        ..Capture::default()
    };
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let running = RunningCommand::start(command, capture).map_err(system)?;
    let end = running.finish(&mut out, |bytes| append_limited(&mut messages, bytes))?;
    let messages = String::from_utf8_lossy(&messages);
    match end {
        CommandEnd::Exited(status) => check_exit(status, &messages)?,
        CommandEnd::LeftRunning => {}
        CommandEnd::TimedOut => return Err(timed_out(limits)),
        CommandEnd::TooLarge => return Err(too_large(limits.max_bytes)),
    }
    match messages.lines().find(|line| TRUNCATED.iter().any(|text| line.contains(text))) {
        Some(line) if strict => Err(Failure::new("truncated", first_message(line))),
        _ => Ok(out),
    }
}

fn timed_out(limits: FfmpegLimits) -> Failure {
    Failure::new("timeout", format!("not finished after {} s", limits.timeout.as_secs_f64()))
}

fn append_limited(messages: &mut Vec<u8>, bytes: &[u8]) {
    let room = MAX_MESSAGES.saturating_sub(messages.len());
    messages.extend_from_slice(&bytes[..room.min(bytes.len())]);
}

/// The total size of the files in a directory.
pub fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// Removes the files of a failed run.
pub fn remove_outputs(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        _ = std::fs::remove_file(entry.path());
    }
}

/// The failure of an output that exceeds the limit.
pub fn too_large(limit: u64) -> Failure {
    Failure::new("too_large", format!("the output is larger than {limit} bytes"))
}

fn check_exit(status: ExitStatus, messages: &str) -> Result<(), Failure> {
    let message = first_message(messages);
    let code = match (status.code(), status.signal()) {
        (Some(0), _) => return Ok(()),
        (_, Some(signal)) if signal == Signal::XFSZ.as_raw() => "too_large",
        (_, Some(_)) => "crashed",
        _ if message.contains("No space left on device") => "disk_full",
        _ if message.contains("File too large") => "too_large",
        _ if OUT_OF_MEMORY.iter().any(|text| messages.contains(text)) => "memory",
        _ if messages.contains("not on whitelist") => "unsupported",
        _ => "decode",
    };
    Err(Failure::new(code, message))
}

/// ffmpeg's first message, without memory addresses, which change from run to run.
fn first_message(messages: &str) -> String {
    let line =
        messages.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("ffmpeg failed without a message");
    if messages.contains("not on whitelist") {
        return "unsupported container format".into();
    }
    let mut plain = String::new();
    for part in line.split_inclusive(']') {
        match part.split_once(" @ 0x") {
            Some((before, _)) => plain += &format!("{before}]"),
            None => plain.push_str(part),
        }
    }
    messages::escape(&plain.replace(MEDIA, "the media"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_of_memory_has_its_own_code() {
        let failed = ExitStatus::from_raw(1 << 8);
        let code = |messages: &str| check_exit(failed, messages).unwrap_err().code;
        assert_eq!(code("x264 [error]: malloc of size 91368440 failed\nError initializing output stream"), "memory");
        assert_eq!(code("[h264 @ 0x1] get_buffer() failed\n[h264 @ 0x1] no frame!"), "memory");
        assert_eq!(code("[mov,mp4 @ 0x1] moov atom not found"), "decode");
    }

    #[test]
    fn a_run_is_held_to_its_memory() {
        let mut command = Command::new("sh");
        let wait = "while grep -q 'data size *unlimited' /proc/$$/limits; do sleep 0.01; done";
        command.args(["-c", &format!("{wait}; grep 'data size' /proc/$$/limits")]);
        let timeout = Duration::from_secs(60);
        let limits =
            FfmpegLimits { timeout, deadline: Instant::now() + timeout, max_bytes: 1 << 20, memory: 123 << 20 };
        let folder = tempfile::tempdir().unwrap();
        let messages = run(command, &in_memory(b"").unwrap(), folder.path(), limits, true).unwrap();
        assert!(String::from_utf8_lossy(&messages).contains(&(123 << 20).to_string()));
    }

    #[test]
    fn complaints_are_the_same_in_every_run() {
        let messages = "[mov,mp4,m4a,3gp,3g2,mj2 @ 0x55d0c8a4c6c0] moov atom not found\n/dev/stdin: Invalid data\n";
        assert_eq!(first_message(messages), "[mov,mp4,m4a,3gp,3g2,mj2] moov atom not found");
        assert_eq!(first_message("\n/dev/stdin: Invalid data\n"), "the media: Invalid data");
        assert_eq!(first_message(""), "ffmpeg failed without a message");
    }
}
