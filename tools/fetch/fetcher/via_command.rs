//! `--via`: a program of the user fetches each URL, under the same limits and with the same report. yt-dlp has flags and
//! error codes of its own (see `ytdlp`).

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Map, Value};
use tarpipe::run::shell;
use tokio::sync::Semaphore;

use super::FetchedData;
use super::supervise::{self, CommandRun};
use super::ytdlp::{self, YtDlpOptions};
use crate::fetch::client::BodyLimits;
use crate::fetch::failure::{FailureCode, FetchFailure, io_message};
use crate::fetch::memory::HeldBytes;

/// File descriptors per program: two pipes, its process, its output file.
const FILES_PER_PROGRAM: usize = 4;

/// A command with placeholders for the URL and the output file, or yt-dlp with its options.
pub struct ViaCommand {
    argv: Vec<String>,
    /// A temporary folder for output files.
    folder: PathBuf,
    next_number: AtomicU64,
    timeout: Duration,
    ytdlp: Option<YtDlpOptions>,
    /// As many programs may run as there are file descriptors for.
    slots: Semaphore,
}

impl ViaCommand {
    /// Splits the command as a shell would, once: no shell ever sees a URL. `files` is the limit on open files.
    pub fn parse(command: &str, ytdlp: &YtDlpOptions, folder: &Path, timeout: Duration, files: usize) -> Result<Self> {
        let argv = shlex::split(command).unwrap_or_default();
        if argv.is_empty() {
            bail!("--via: '{command}' is not a valid command");
        }
        let is_ytdlp = ytdlp::is_ytdlp(&argv);
        if is_ytdlp {
            ytdlp::check_installed(&argv[0])?;
        } else {
            ytdlp.check_unused()?;
            check_command(&argv)?;
        }
        Ok(ViaCommand {
            argv,
            folder: folder.to_owned(),
            next_number: AtomicU64::new(0),
            timeout,
            ytdlp: is_ytdlp.then(|| ytdlp.clone()),
            slots: Semaphore::new((files / FILES_PER_PROGRAM).max(1)),
        })
    }

    /// Runs the program for one URL of a row with these columns.
    pub async fn fetch(
        &self,
        url: &str,
        columns: &Map<String, Value>,
        limits: &BodyLimits,
        held: &mut HeldBytes,
    ) -> Result<FetchedData, FetchFailure> {
        let output = self.folder.join(format!("{}.out", self.next_number.fetch_add(1, Ordering::Relaxed)));
        let fetched = match &self.ytdlp {
            Some(options) => {
                let arguments = options.arguments(url, &output, columns)?;
                self.run_ytdlp(arguments, &output, limits, held).await
            }
            None => self.run_command(url, &output, limits, held).await.map(FetchedData::from),
        }?;
        limits.check_size(fetched.data.len() as u64)?;
        limits.check_type(&fetched.data, &hyper::HeaderMap::new())?;
        Ok(fetched)
    }

    /// Runs yt-dlp with a folder of its own, since it writes several files.
    async fn run_ytdlp(
        &self,
        arguments: Vec<String>,
        folder: &Path,
        limits: &BodyLimits,
        held: &mut HeldBytes,
    ) -> Result<FetchedData, FetchFailure> {
        let created = tokio::fs::create_dir(folder).await;
        created.map_err(|err| FetchFailure::fatal(format!("--via: cannot create a folder: {}", io_message(&err))))?;
        let argv: Vec<String> = self.argv.iter().cloned().chain(arguments).collect();
        let run = CommandRun {
            argv: &argv,
            output: folder,
            uses_stdout: false,
            timeout: self.timeout,
            classify: ytdlp::classify_error,
        };
        let fetched = match self.run(run, limits, held).await {
            Ok(_) => collect(folder, limits, held).await,
            Err(failure) => Err(failure),
        };
        _ = tokio::fs::remove_dir_all(folder).await;
        fetched
    }

    /// Runs the user's command. Its result is the file {out}, or stdout if the command does not contain {out}.
    async fn run_command(
        &self,
        url: &str,
        output: &Path,
        limits: &BodyLimits,
        held: &mut HeldBytes,
    ) -> Result<Vec<u8>, FetchFailure> {
        let uses_stdout = !self.argv.iter().any(|arg| arg.contains("{out}"));
        let output_name = output.to_string_lossy();
        let argv: Vec<String> = self.argv.iter().map(|arg| fill_placeholders(arg, url, &output_name)).collect();
        let run = CommandRun { argv: &argv, output, uses_stdout, timeout: self.timeout, classify: classify_error };
        let ended = self.run(run, limits, held).await;
        let data = match (ended, uses_stdout) {
            (Ok(_), false) => read_file(output, limits, held).await,
            (ended, _) => ended,
        };
        _ = tokio::fs::remove_file(output).await;
        data
    }

    async fn run(
        &self,
        run: CommandRun<'_>,
        limits: &BodyLimits,
        held: &mut HeldBytes,
    ) -> Result<Vec<u8>, FetchFailure> {
        let _slot = self.slots.acquire().await;
        supervise::run(run, limits, held).await
    }
}

fn check_command(argv: &[String]) -> Result<()> {
    if !argv.iter().any(|arg| arg.contains("{url}")) {
        bail!("--via: the command has no placeholder {{url}}");
    }
    if shell::find(&argv[0]).is_none() {
        bail!("--via: {}: no such executable; use a path or a program on the PATH", argv[0]);
    }
    Ok(())
}

/// Reads the files of yt-dlp on another thread.
async fn collect(folder: &Path, limits: &BodyLimits, held: &mut HeldBytes) -> Result<FetchedData, FetchFailure> {
    held.take(supervise::disk_usage(folder)).await;
    let (folder, limits) = (folder.to_owned(), limits.clone());
    let collected = tokio::task::spawn_blocking(move || ytdlp::collect(&folder, &limits)).await;
    collected.map_err(|_| FetchFailure::permanent(FailureCode::Interrupted, "interrupted"))?
}

/// Fills the placeholders of an argument. A placeholder within the URL is left alone.
fn fill_placeholders(arg: &str, url: &str, output: &str) -> String {
    let parts = arg.split("{url}").map(|part| part.replace("{out}", output));
    parts.collect::<Vec<_>>().join(url)
}

fn classify_error(status: ExitStatus, stderr: &str) -> FetchFailure {
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message on stderr");
    FetchFailure::transient(FailureCode::Command, format!("{status}: {}", last.trim()))
}

async fn read_file(path: &Path, limits: &BodyLimits, held: &mut HeldBytes) -> Result<Vec<u8>, FetchFailure> {
    let failed = |message| FetchFailure::transient(FailureCode::Command, message);
    let found = tokio::fs::metadata(path).await.map_err(|_| failed("the command did not write {out}"))?;
    // Opening a fifo would wait for a writer.
    if !found.is_file() {
        return Err(failed("the command did not make {out} a regular file"));
    }
    if found.len() > limits.max_bytes {
        return Err(limits.too_large());
    }
    held.take(found.len()).await;
    tokio::fs::read(path).await.map_err(|err| supervise::read_failure(&err))
}
