//! `--via`: any program fetches a row, under the same limits and into the same report.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;
use tarpipe::signals;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::body::Limits;
use super::failure::{Code, Failure};

/// How often the size of the output is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The end of stderr is what says what went wrong.
const KEPT_STDERR: usize = 4096;

/// A command with places for the URL and the output file.
pub struct Via {
    words: Vec<String>,
    folder: PathBuf,
    number: AtomicU64,
    timeout: Duration,
}

impl Via {
    /// Takes the command apart as a shell would, once: what is in a URL is never read by a shell.
    pub fn parse(command: &str, folder: &Path, timeout: Duration) -> Result<Self> {
        let words = shlex::split(command).unwrap_or_default();
        if words.is_empty() {
            bail!("--via: '{command}' is no command");
        }
        if !words.iter().any(|word| word.contains("{url}")) {
            bail!("--via: the command has no place {{url}}");
        }
        Ok(Via { words, folder: folder.to_owned(), number: AtomicU64::new(0), timeout })
    }

    /// Runs the command for one URL. Its output is the file {out}, or stdout when it names none.
    pub async fn get(&self, url: &str, limits: &Limits) -> Result<Vec<u8>, Failure> {
        let out = self.folder.join(format!("{}.out", self.number.fetch_add(1, Ordering::Relaxed)));
        let to_file = self.words.iter().any(|word| word.contains("{out}"));
        let fetched = self.run(url, &out, to_file, limits).await;
        let data = match (&fetched, to_file) {
            (Ok(_), true) => read_file(&out, limits).await,
            _ => Ok(Vec::new()),
        };
        _ = tokio::fs::remove_file(&out).await;
        let stdout = fetched?;
        let data = if to_file { data? } else { stdout };
        limits.check_size(data.len() as u64)?;
        limits.check_type(&data, &hyper::HeaderMap::new())?;
        Ok(data)
    }

    async fn run(&self, url: &str, out: &Path, to_file: bool, limits: &Limits) -> Result<Vec<u8>, Failure> {
        let place = out.to_string_lossy();
        let words: Vec<String> =
            self.words.iter().map(|word| word.replace("{url}", url).replace("{out}", &place)).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        command.stdout(if to_file { Stdio::null() } else { Stdio::piped() });
        let child = command.spawn().map_err(|err| Failure::lasting(Code::Command, format!("{}: {err}", words[0])))?;
        let group = Group::new(&child);
        let result = supervise(child, out, self.timeout, limits).await;
        drop(group);
        result
    }
}

/// Reads what the child writes and ends it when it takes too long or makes too much.
async fn supervise(mut child: Child, out: &Path, limit: Duration, limits: &Limits) -> Result<Vec<u8>, Failure> {
    let deadline = Instant::now() + limit;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reading = async {
        let mut data = Vec::new();
        if let Some(stdout) = stdout {
            _ = stdout.take(limits.max_bytes + 1).read_to_end(&mut data).await;
        }
        data
    };
    let complaining = async {
        let mut tail = Vec::new();
        let mut buf = [0; 1024];
        if let Some(mut stderr) = stderr {
            while let Ok(n @ 1..) = stderr.read(&mut buf).await {
                tail.extend_from_slice(&buf[..n]);
                let extra = tail.len().saturating_sub(KEPT_STDERR);
                tail.drain(..extra);
            }
        }
        tail
    };
    let growing = async {
        loop {
            sleep(LOOK).await;
            if std::fs::metadata(out).is_ok_and(|found| found.len() > limits.max_bytes) {
                return;
            }
        }
    };
    let all = async { tokio::join!(reading, complaining) };
    let (data, complaint) = tokio::select! {
        done = timeout(limit, all) => done.map_err(|_| late(limit))?,
        () = growing => return Err(limits.too_large()),
    };
    if data.len() as u64 > limits.max_bytes {
        return Err(limits.too_large());
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let status = timeout(left, child.wait()).await.map_err(|_| late(limit))?;
    match status {
        Ok(status) if status.success() => Ok(data),
        Ok(status) => Err(Failure::passing(Code::Command, format!("{status}: {}", last_line(&complaint)))),
        Err(err) => Err(Failure::lasting(Code::Command, err.to_string())),
    }
}

fn late(limit: Duration) -> Failure {
    Failure::passing(Code::Timeout, format!("the command was not done within {limit:?}"))
}

fn last_line(complaint: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaint);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim().to_owned()
}

async fn read_file(path: &Path, limits: &Limits) -> Result<Vec<u8>, Failure> {
    let found =
        tokio::fs::metadata(path).await.map_err(|_| Failure::passing(Code::Command, "the command made no file"))?;
    if found.len() > limits.max_bytes {
        return Err(limits.too_large());
    }
    tokio::fs::read(path).await.map_err(|err| Failure::passing(Code::Command, err.to_string()))
}

/// The process group of a child: whatever it started ends with it.
struct Group(Option<u32>);

impl Group {
    fn new(child: &Child) -> Self {
        if let Some(leader) = child.id() {
            signals::guard_group(leader);
        }
        Group(child.id())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            signals::end_group(leader, Signal::KILL);
            signals::release_group(leader);
        }
    }
}
