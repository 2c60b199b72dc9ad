//! Runs the command-line clients of engines, such as squeue and kubectl. Each call has a time limit, because a client that
//! cannot reach its server may wait long, and a missing program is reported with where to get it.

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use tarpipe::run::captured::{self, Capture, CommandEnd};

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
    call(argv, input, limit, false)
}

/// The same as `query` for use while a signal ends this process: the command is not ended with the others.
pub fn query_at_end(argv: &[&str], limit: Duration) -> Result<String> {
    call(argv, "", limit, true)
}

fn call(argv: &[&str], input: &str, limit: Duration, is_last: bool) -> Result<String> {
    let program = argv.first().copied().unwrap_or_default();
    let mut command = Command::new(program);
    command.args(&argv[1..]);
    let deadline = Some(Instant::now() + limit);
    let capture = Capture { input: Some(input.as_bytes()), deadline, is_last, ..Capture::default() };
    let answer = captured::output(command, capture).map_err(|err| cannot_start(program, err))?;
    let errors = last_lines(program, &String::from_utf8_lossy(&answer.stderr));
    if answer.end == CommandEnd::TimedOut {
        let errors = if errors.is_empty() { errors } else { format!(": {errors}") };
        bail!("{program}: no answer within {} s{errors}", limit.as_secs());
    }
    if !answer.is_success() {
        bail!("{program}: {}", if errors.is_empty() { "failed without an error message" } else { &errors });
    }
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
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
