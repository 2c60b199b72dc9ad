//! One run of ffmpeg or ffprobe on one file in memory: watched, limited, and its complaints made
//! into a reason code.

use std::fs::File;
use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use tarpipe::messages;
use tarpipe::run::failure::Failure;
use tarpipe::run::watched::{self, Ready};

/// How often the size of what ffmpeg writes is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// So much of what ffmpeg says is kept: the first complaint is the one that counts.
const KEPT: usize = 64 << 10;
/// What ffmpeg says when a file ends before its time, and then ends as if all were well.
const ENDS_EARLY: [&str; 2] = ["partial file", "ended prematurely"];
/// What ffmpeg and its encoders say at the end of the memory that they are given.
const OUT_OF_MEMORY: [&str; 4] = ["Cannot allocate memory", "malloc of size", "get_buffer() failed", "bad_alloc"];
/// Pixels of a frame: four times 8K. More is a lie or a bomb.
const MAX_PIXELS: &str = "134217728";

/// The containers that are opened. Playlists and scripts (hls, concat, dash, sdp …), which make
/// ffmpeg read other files, are not among them.
const CONTAINERS: &str = "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,flv,asf,ogg,mp3,flac,wav,w64,aac,aiff,au,caf,\
    amr,ac3,eac3,dts,gif,apng,mxf,nut,ivf,obu,h264,hevc,rm,dv,mjpeg,yuv4mpegpipe,wv,ape,tta,wtv";

/// What the runs for a sample may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For all of them together.
    pub timeout: Duration,
    /// When that is over.
    pub deadline: Instant,
    /// Of bytes that are written, and of output that is read.
    pub max_bytes: u64,
    /// Of memory for one run: media that lies about its frames cannot take more.
    pub memory: u64,
}

/// A file in memory that programs can seek in.
pub fn in_memory(data: &[u8]) -> Result<File, Failure> {
    let made = rustix::fs::memfd_create("tarvideo", MemfdFlags::CLOEXEC);
    let mut file = File::from(made.map_err(|err| Failure::system("hold the media in memory", err))?);
    file.write_all(data).map_err(|err| Failure::io("hold the media in memory", &err))?;
    Ok(file)
}

/// The flags before every input: which file it is, and that no other is read.
pub fn input_flags() -> [&'static str; 6] {
    ["-protocol_whitelist", "file", "-format_whitelist", CONTAINERS, "-max_pixels", MAX_PIXELS]
}

/// The name of the media: stdin, which is a file.
pub const MEDIA: &str = "/dev/stdin";

/// Runs a command with `media` as its stdin. What it writes goes to `directory`; its stdout comes back.
///
/// With `strict` a file that ends early is a failure, whatever ffmpeg thinks of it.
pub fn run(
    mut command: Command,
    media: &File,
    directory: &Path,
    limits: Limits,
    strict: bool,
) -> Result<Vec<u8>, Failure> {
    watched::wait_if_ending();
    if Instant::now() >= limits.deadline {
        return Err(timed_out(limits));
    }
    let system = |err: io::Error| Failure::io("start ffmpeg", &err);
    let (stdout, their_stdout) = io::pipe().map_err(system)?;
    let (stderr, their_stderr) = io::pipe().map_err(system)?;
    command.stdin(media.try_clone().map_err(system)?).stdout(their_stdout).stderr(their_stderr);
    command.current_dir(directory);
    let (mut child, exit) = watched::spawn(&mut command).map_err(system)?;
    drop(command); // and with it our copies of the other ends
    let mut run = Run { stdout: Some(stdout), stderr: Some(stderr), out: Vec::new(), said: Vec::new() };
    let watched = run.watch(&mut child, exit.as_fd(), directory, limits);
    watched::settle(child.id(), Duration::ZERO);
    let said = String::from_utf8_lossy(&run.said);
    judge(watched?, &said)?;
    match said.lines().find(|line| ENDS_EARLY.iter().any(|words| line.contains(words))) {
        Some(line) if strict => Err(Failure::new("truncated", complaint(line))),
        _ => Ok(run.out),
    }
}

struct Run {
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
    out: Vec<u8>,
    said: Vec<u8>,
}

impl Run {
    fn watch(
        &mut self,
        child: &mut Child,
        exit: BorrowedFd<'_>,
        directory: &Path,
        limits: Limits,
    ) -> Result<ExitStatus, Failure> {
        for (resource, most) in [(Resource::Fsize, limits.max_bytes), (Resource::Data, limits.memory)] {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            _ = rustix::process::prlimit(Some(Pid::from_child(child)), resource, limit);
        }
        let listened = self.listen(exit, directory, limits);
        let status = watched::end(child, exit, listened.is_err());
        listened?;
        status.map_err(|err| Failure::io("wait for ffmpeg", &err))
    }

    fn listen(&mut self, exit: BorrowedFd<'_>, directory: &Path, limits: Limits) -> Result<(), Failure> {
        let mut looked = Instant::now();
        let mut ended = false;
        while !ended || self.stdout.is_some() || self.stderr.is_some() {
            let (out, err) = (self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd));
            let until = limits.deadline.min(Instant::now() + LOOK);
            let ready = watched::wait_ready((!ended).then_some(exit), None, out, err, Some(until));
            let Ready { exit, stdout, stderr, .. } = ready.map_err(|err| Failure::system("poll", err))?;
            ended |= exit;
            if stdout {
                watched::take(&mut self.stdout, |bytes| self.out.extend_from_slice(bytes))?;
            }
            if stderr {
                watched::take(&mut self.stderr, |bytes| keep(&mut self.said, bytes))?;
            }
            let late = looked.elapsed() >= LOOK;
            if self.out.len() as u64 > limits.max_bytes || (late && size_of(directory) > limits.max_bytes) {
                return Err(too_large(limits.max_bytes));
            }
            if late {
                looked = Instant::now();
            }
            if !ended && Instant::now() >= limits.deadline {
                return Err(timed_out(limits));
            }
        }
        Ok(())
    }
}

fn timed_out(limits: Limits) -> Failure {
    Failure::new("timeout", format!("not done after {} s", limits.timeout.as_secs_f64()))
}

fn keep(said: &mut Vec<u8>, bytes: &[u8]) {
    let room = KEPT.saturating_sub(said.len());
    said.extend_from_slice(&bytes[..room.min(bytes.len())]);
}

/// Bytes of the files in a directory.
pub fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// Removes the files of a run that failed.
pub fn empty(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        _ = std::fs::remove_file(entry.path());
    }
}

/// The failure of an output beyond the limit.
pub fn too_large(limit: u64) -> Failure {
    Failure::new("too_large", format!("more than {limit} bytes come out of it"))
}

fn judge(status: ExitStatus, said: &str) -> Result<(), Failure> {
    let complaint = complaint(said);
    let code = match (status.code(), status.signal()) {
        (Some(0), _) => return Ok(()),
        (_, Some(signal)) if signal == Signal::XFSZ.as_raw() => "too_large",
        (_, Some(_)) => "crashed",
        _ if complaint.contains("No space left on device") => "disk_full",
        _ if complaint.contains("File too large") => "too_large",
        _ if OUT_OF_MEMORY.iter().any(|words| said.contains(words)) => "memory",
        _ if said.contains("not on whitelist") => "unsupported",
        _ => "decode",
    };
    Err(Failure::new(code, complaint))
}

/// The first thing that ffmpeg said, without the addresses in memory that change from run to run.
fn complaint(said: &str) -> String {
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("ffmpeg failed without a word");
    if said.contains("not on whitelist") {
        return "a kind of file that is not opened".into();
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
    fn the_end_of_memory_has_its_own_code() {
        let failed = ExitStatus::from_raw(1 << 8);
        let code = |said: &str| judge(failed, said).unwrap_err().code;
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
        let limits = Limits { timeout, deadline: Instant::now() + timeout, max_bytes: 1 << 20, memory: 123 << 20 };
        let folder = tempfile::tempdir().unwrap();
        let said = run(command, &in_memory(b"").unwrap(), folder.path(), limits, true).unwrap();
        assert!(String::from_utf8_lossy(&said).contains(&(123 << 20).to_string()));
    }

    #[test]
    fn complaints_are_the_same_in_every_run() {
        let said = "[mov,mp4,m4a,3gp,3g2,mj2 @ 0x55d0c8a4c6c0] moov atom not found\n/dev/stdin: Invalid data\n";
        assert_eq!(complaint(said), "[mov,mp4,m4a,3gp,3g2,mj2] moov atom not found");
        assert_eq!(complaint("\n/dev/stdin: Invalid data\n"), "the media: Invalid data");
        assert_eq!(complaint(""), "ffmpeg failed without a word");
    }
}
