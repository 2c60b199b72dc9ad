//! Runs the command-line clients of engines, such as squeue and kubectl. Each call has a time limit, because a client that
//! cannot reach its server may wait long, and a missing program is reported with where to get it.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use tarpipe::run::signals;
use tarpipe::run::watched::{exit_of, wait_readable};

/// Where to get each program.
const SOURCES: [(&str, &str); 7] = [
    ("sbatch", "the Debian package slurm-client"),
    ("salloc", "the Debian package slurm-client"),
    ("squeue", "the Debian package slurm-client"),
    ("scancel", "the Debian package slurm-client"),
    ("scontrol", "the Debian package slurm-client"),
    ("kubectl", "https://kubernetes.io/docs/tasks/tools or the Debian package kubernetes-client"),
    ("python3", "the Debian package python3"),
];

/// Runs a command and returns its stdout. If it fails, the error contains the last lines of its stderr.
pub fn query(argv: &[&str], limit: Duration) -> Result<String> {
    query_with_input(argv, "", limit)
}

/// The same for a command that reads `input`. If a signal ends this process, the command is ended first, so that nothing is
/// submitted afterwards.
pub fn query_with_input(argv: &[&str], input: &str, limit: Duration) -> Result<String> {
    call(argv, input, limit, true)
}

/// The same as `query` for use while a signal ends this process: the command is not ended with the others.
pub fn query_at_end(argv: &[&str], limit: Duration) -> Result<String> {
    call(argv, "", limit, false)
}

fn call(argv: &[&str], input: &str, limit: Duration, is_guarded: bool) -> Result<String> {
    let program = argv.first().copied().unwrap_or_default();
    let mut command = Command::new(program);
    command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.process_group(0).spawn().map_err(|err| cannot_start(program, err))?;
    if is_guarded {
        signals::guard_group(child.id());
    }
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let stdin = child.stdin.take();
    let input = input.to_owned();
    // A write error is ignored: the program may end before it has read everything, and its status counts.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
    let exit = exit_of(&child)?;
    let in_time = wait_readable(&exit, Some(Instant::now() + limit))?;
    if !in_time {
        _ = child.kill();
    }
    let status = child.wait()?;
    if is_guarded {
        signals::release_group(child.id());
        signals::park_if_signalled();
    }
    let text = |reader: Option<std::thread::JoinHandle<String>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    let (output, errors) = (text(stdout), text(stderr));
    let errors = last_lines(program, &errors);
    if !in_time {
        let errors = if errors.is_empty() { errors } else { format!(": {errors}") };
        bail!("{program}: no answer within {} s{errors}", limit.as_secs());
    }
    if !status.success() {
        bail!("{program}: {}", if errors.is_empty() { "failed without an error message" } else { &errors });
    }
    Ok(output)
}

/// The last two lines of stderr: Slurm names the limit of a site in the line before the last.
fn last_lines(program: &str, stderr: &str) -> String {
    let prefix = format!("{program}: ");
    let lines = stderr.lines().map(|line| line.trim().trim_start_matches(&prefix).trim_start_matches("error: "));
    let mut lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.dedup();
    lines.split_off(lines.len().saturating_sub(2)).join("; ")
}

/// The error for a program that cannot be started, with where to get it if it is missing.
pub fn cannot_start(program: &str, err: io::Error) -> anyhow::Error {
    if err.kind() != io::ErrorKind::NotFound {
        return anyhow!(err).context(format!("cannot start {program}"));
    }
    let source = SOURCES.iter().find(|(name, _)| *name == program);
    let hint = source.map_or_else(String::new, |(_, source)| format!("; install it from {source}"));
    anyhow!("{program}: not found on this machine{hint}")
}

fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
