//! Programs of an engine that are asked or told something: with a time limit, for a client without its
//! server may wait long, and with a word on how to get them.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use tarpipe::run::signals;
use tarpipe::run::watched::{exit_of, wait_readable};

/// Where each program comes from.
const SOURCES: [(&str, &str); 7] = [
    ("sbatch", "Debian's package slurm-client"),
    ("salloc", "Debian's package slurm-client"),
    ("squeue", "Debian's package slurm-client"),
    ("scancel", "Debian's package slurm-client"),
    ("scontrol", "Debian's package slurm-client"),
    ("kubectl", "https://kubernetes.io/docs/tasks/tools or Debian's package kubernetes-client"),
    ("python3", "Debian's package python3"),
];

/// What a program said on stdout. A bad status is an error with the last lines that it said on stderr.
pub fn ask(words: &[&str], limit: Duration) -> Result<String> {
    tell(words, "", limit)
}

/// The same for a program that reads `input`. Should a signal end us, the program is ended first: nothing is submitted
/// after our end.
pub fn tell(words: &[&str], input: &str, limit: Duration) -> Result<String> {
    call(words, input, limit, true)
}

/// The same as `ask` when a signal ends us and everything else has been ended.
pub fn ask_at_end(words: &[&str], limit: Duration) -> Result<String> {
    call(words, "", limit, false)
}

fn call(words: &[&str], input: &str, limit: Duration, is_guarded: bool) -> Result<String> {
    let program = words.first().copied().unwrap_or_default();
    let mut command = Command::new(program);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.process_group(0).spawn().map_err(|err| cannot_start(program, err))?;
    if is_guarded {
        signals::guard_group(child.id());
    }
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let stdin = child.stdin.take();
    let input = input.to_owned();
    // A program may end before it has read everything; its status tells.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
    let exit = exit_of(&child)?;
    let in_time = wait_readable(&exit, Some(Instant::now() + limit))?;
    if !in_time {
        _ = child.kill();
    }
    let status = child.wait()?;
    if is_guarded {
        signals::release_group(child.id());
        signals::yield_to_signal();
    }
    let text = |reader: Option<std::thread::JoinHandle<String>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    let (said, complaint) = (text(stdout), text(stderr));
    let complaint = last_lines(program, &complaint);
    if !in_time {
        let complaint = if complaint.is_empty() { complaint } else { format!(": {complaint}") };
        bail!("{program}: no answer within {} s{complaint}", limit.as_secs());
    }
    if !status.success() {
        bail!("{program}: {}", if complaint.is_empty() { "it failed without a word" } else { &complaint });
    }
    Ok(said)
}

/// The end of what a program said on stderr: Slurm names the limit of a site in the line before the last.
fn last_lines(program: &str, stderr: &str) -> String {
    let prefix = format!("{program}: ");
    let lines = stderr.lines().map(|line| line.trim().trim_start_matches(&prefix).trim_start_matches("error: "));
    let mut lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.dedup();
    lines.split_off(lines.len().saturating_sub(2)).join("; ")
}

/// Says how to get a program that is missing.
pub fn cannot_start(program: &str, err: io::Error) -> anyhow::Error {
    if err.kind() != io::ErrorKind::NotFound {
        return anyhow!(err).context(format!("cannot start {program}"));
    }
    let source = SOURCES.iter().find(|(name, _)| *name == program);
    let hint = source.map_or_else(String::new, |(_, source)| format!(" (install it: {source})"));
    anyhow!("{program}: not found on this machine{hint}")
}

fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
