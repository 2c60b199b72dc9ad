//! `--via`: any program fetches a row, under the same limits and into the same report. One has a recipe.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;
use serde_json::{Map, Value};
use tarpipe::run::failure;
use tarpipe::run::shell;
use tarpipe::run::signals;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::body::Limits;
use super::budget::Held;
use super::connect::plain;
use super::failure::{Code, Failure};
use super::ytdlp::{Fetched, Recipe};

/// How often the size of the output is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How long a program waits for a free process, and how often it is tried.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(50));

/// Descriptors that a program needs: two pipes, itself, the file it has made.
const FILES: usize = 4;

/// The end of stderr is what says what went wrong.
const KEPT_STDERR: usize = 4096;

/// A command with places for the URL and the output file.
pub struct Via {
    words: Vec<String>,
    folder: PathBuf,
    number: AtomicU64,
    timeout: Duration,
    recipe: Option<Recipe>,
    /// As many may run as there are descriptors for.
    room: Semaphore,
}

impl Via {
    /// Takes the command apart as a shell would, once: what is in a URL is never read by a shell.
    /// `files` may be open at once.
    pub fn parse(command: &str, recipe: &Recipe, folder: &Path, timeout: Duration, files: usize) -> Result<Self> {
        let words = shlex::split(command).unwrap_or_default();
        if words.is_empty() {
            bail!("--via: '{command}' is no command");
        }
        let (folder, number) = (folder.to_owned(), AtomicU64::new(0));
        let room = Semaphore::new((files / FILES).max(1));
        if Recipe::is_meant(&words) {
            Recipe::check(&words[0])?;
            return Ok(Via { words, folder, number, timeout, recipe: Some(recipe.clone()), room });
        }
        recipe.refuse()?;
        if !words.iter().any(|word| word.contains("{url}")) {
            bail!("--via: the command has no place {{url}}");
        }
        if shell::find(&words[0]).is_none() {
            bail!("--via: there is no program {} (a file that may be executed, by its path or on the PATH)", words[0]);
        }
        Ok(Via { words, folder, number, timeout, recipe: None, room })
    }

    /// Runs the command for one URL of a row with these columns.
    pub async fn get(
        &self,
        url: &str,
        columns: &Map<String, Value>,
        limits: &Limits,
        held: &mut Held,
    ) -> Result<Fetched, Failure> {
        let out = self.folder.join(format!("{}.out", self.number.fetch_add(1, Ordering::Relaxed)));
        let fetched = match &self.recipe {
            Some(recipe) => self.follow(recipe, url, columns, &out, limits, held).await,
            None => self.run_command(url, &out, limits, held).await.map(Fetched::from),
        }?;
        limits.check_size(fetched.data.len() as u64)?;
        limits.check_type(&fetched.data, &hyper::HeaderMap::new())?;
        Ok(fetched)
    }

    /// By the recipe, into a folder of its own.
    async fn follow(
        &self,
        recipe: &Recipe,
        url: &str,
        columns: &Map<String, Value>,
        folder: &Path,
        limits: &Limits,
        held: &mut Held,
    ) -> Result<Fetched, Failure> {
        let words = recipe.words(url, folder, columns)?;
        let made = tokio::fs::create_dir(folder).await;
        made.map_err(|err| Failure::ours(format!("--via: cannot make a folder: {}", plain(&err))))?;
        let words: Vec<String> = self.words.iter().cloned().chain(words).collect();
        let fetched = self.run(&words, folder, Judge { output: true, of: Recipe::judge }, limits, held).await;
        let collected = match fetched {
            Ok(_) => collect(folder, limits, held).await,
            Err(failure) => Err(failure),
        };
        _ = tokio::fs::remove_dir_all(folder).await;
        collected
    }

    /// By the user's own command. Its output is the file {out}, or stdout when it names none.
    async fn run_command(&self, url: &str, out: &Path, limits: &Limits, held: &mut Held) -> Result<Vec<u8>, Failure> {
        let to_file = self.words.iter().any(|word| word.contains("{out}"));
        let place = out.to_string_lossy();
        let words: Vec<String> = self.words.iter().map(|word| fill(word, url, &place)).collect();
        let fetched = self.run(&words, out, Judge { output: to_file, of: judge }, limits, held).await;
        let data = match (&fetched, to_file) {
            (Ok(_), true) => read_file(out, limits, held).await,
            _ => Ok(Vec::new()),
        };
        _ = tokio::fs::remove_file(&out).await;
        let stdout = fetched?;
        if to_file { data } else { Ok(stdout) }
    }

    async fn run(
        &self,
        words: &[String],
        out: &Path,
        judge: Judge,
        limits: &Limits,
        held: &mut Held,
    ) -> Result<Vec<u8>, Failure> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        command.stdout(if judge.output { Stdio::null() } else { Stdio::piped() });
        let _place = self.room.acquire().await;
        let child = spawn(&mut command).await.map_err(|err| unstarted(&words[0], &err))?;
        let group = Group::new(&child);
        let result = supervise(child, out, self.timeout, judge, limits, held).await;
        drop(group);
        result
    }
}

/// Picks up what the recipe has fetched, beside the thread of the connections.
async fn collect(folder: &Path, limits: &Limits, held: &mut Held) -> Result<Fetched, Failure> {
    held.take(size_of(folder)).await;
    let (folder, limits) = (folder.to_owned(), limits.clone());
    let collected = tokio::task::spawn_blocking(move || Recipe::collect(&folder, &limits)).await;
    collected.map_err(|_| Failure::lasting(Code::Interrupted, "interrupted"))?
}

/// Others' processes end: one that cannot be started now may be in a moment.
async fn spawn(command: &mut Command) -> io::Result<Child> {
    let until = Instant::now() + PATIENCE.0;
    loop {
        match command.spawn() {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => sleep(PATIENCE.1).await,
            result => return result,
        }
    }
}

/// No row is to blame for a program that does not start, but one whose URL is too long for the system.
fn unstarted(program: &str, err: &io::Error) -> Failure {
    let why = format!("cannot start {program}: {}", plain(err));
    match err.kind() {
        io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput => Failure::lasting(Code::Command, why),
        _ => Failure::ours(format!("--via: {why}")),
    }
}

/// What a command has made and cannot be read.
fn unreadable(err: &io::Error) -> Failure {
    let failure = failure::Failure::io("read what the command has made", err);
    let ours = failure.blames_machine();
    if ours { Failure::ours(failure.what()) } else { Failure::passing(Code::Command, failure.what()) }
}

/// A word with its places filled. What the URL itself holds is no place.
fn fill(word: &str, url: &str, out: &str) -> String {
    let pieces = word.split("{url}").map(|piece| piece.replace("{out}", out));
    pieces.collect::<Vec<_>>().join(url)
}

/// How a command is to be understood.
#[derive(Clone, Copy)]
struct Judge {
    /// Whether it writes to a place it was told, and not to stdout.
    output: bool,
    /// What its failure means.
    of: fn(ExitStatus, &str) -> Failure,
}

fn judge(status: ExitStatus, complaint: &str) -> Failure {
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    Failure::passing(Code::Command, format!("{status}: {}", last.trim()))
}

/// Reads what the child writes and ends it when it takes too long or makes too much. Waiting for room in the budget
/// takes none of its time.
async fn supervise(
    mut child: Child,
    out: &Path,
    limit: Duration,
    judge: Judge,
    limits: &Limits,
    held: &mut Held,
) -> Result<Vec<u8>, Failure> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let is_waiting = AtomicBool::new(false);
    let all = async {
        let (data, complaint) = tokio::join!(read_output(stdout, limits, held, &is_waiting), read_complaint(stderr));
        Ok((data?, complaint, child.wait().await))
    };
    let growing = async {
        loop {
            sleep(LOOK).await;
            if size_of(out) > limits.max_bytes {
                return;
            }
        }
    };
    let (data, complaint, status) = tokio::select! {
        done = all => done?,
        () = pass(limit, &is_waiting) => return Err(late(limit)),
        () = growing => return Err(limits.too_large()),
    };
    match status {
        Ok(status) if status.success() => Ok(data),
        Ok(status) => Err((judge.of)(status, &String::from_utf8_lossy(&complaint))),
        Err(err) => Err(Failure::lasting(Code::Command, err.to_string())),
    }
}

/// Returns when so much time has passed, without that in which the row waits for room.
async fn pass(limit: Duration, is_waiting: &AtomicBool) {
    let mut left = limit;
    while !left.is_zero() {
        let step = left.min(LOOK);
        sleep(step).await;
        if !is_waiting.load(Ordering::SeqCst) {
            left -= step;
        }
    }
}

/// All of stdout, for which there is room in the budget before the next piece is read.
async fn read_output(
    stdout: Option<ChildStdout>,
    limits: &Limits,
    held: &mut Held,
    is_waiting: &AtomicBool,
) -> Result<Vec<u8>, Failure> {
    let mut data = Vec::new();
    let Some(mut stdout) = stdout else { return Ok(data) };
    loop {
        let read = stdout.read_buf(&mut data).await.map_err(|err| unreadable(&err))?;
        if read == 0 {
            return Ok(data);
        }
        if data.len() as u64 > limits.max_bytes {
            return Err(limits.too_large());
        }
        is_waiting.store(true, Ordering::SeqCst);
        held.take(read as u64).await;
        is_waiting.store(false, Ordering::SeqCst);
    }
}

/// The end of stderr.
async fn read_complaint(stderr: Option<ChildStderr>) -> Vec<u8> {
    let mut tail = Vec::new();
    let mut buf = [0; 1024];
    let Some(mut stderr) = stderr else { return tail };
    while let Ok(n @ 1..) = stderr.read(&mut buf).await {
        tail.extend_from_slice(&buf[..n]);
        let extra = tail.len().saturating_sub(KEPT_STDERR);
        tail.drain(..extra);
    }
    tail
}

fn late(limit: Duration) -> Failure {
    Failure::passing(Code::Timeout, format!("the command was not done within {limit:?}"))
}

/// Bytes of a file, or of the files in a folder.
fn size_of(path: &Path) -> u64 {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum(),
        Err(_) => std::fs::metadata(path).map_or(0, |found| found.len()),
    }
}

async fn read_file(path: &Path, limits: &Limits, held: &mut Held) -> Result<Vec<u8>, Failure> {
    let found =
        tokio::fs::metadata(path).await.map_err(|_| Failure::passing(Code::Command, "the command made no file"))?;
    // A fifo would have to be waited for.
    if !found.is_file() {
        return Err(Failure::passing(Code::Command, "the command made something else than a file"));
    }
    if found.len() > limits.max_bytes {
        return Err(limits.too_large());
    }
    held.take(found.len()).await;
    tokio::fs::read(path).await.map_err(|err| unreadable(&err))
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
