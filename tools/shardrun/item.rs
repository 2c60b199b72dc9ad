//! An item from beginning to end: is it done already, attempts, what became of it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tarpipe::location;
use tarpipe::messages;
use tarpipe::run::shell;
use tarpipe::sink;

use crate::attempt::{Attempt, Failure, Made};
use crate::folder::Folder;
use crate::items::Item;
use crate::joblog::{Record, State};
use crate::listener::Listener;
use crate::plan::{Plan, Templates};

/// The wait before the second attempt; it doubles with each.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// What a run may change from one time to the next, as workers see it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Attempts after the first.
    pub retries: u32,
    /// Seconds that an attempt may take.
    pub timeout: Option<f64>,
    /// Seconds within which a task begins, at random.
    pub jitter: Option<f64>,
    /// Whether items are run again whose output is there.
    pub redo: bool,
    /// Failed items that end the run when there are more.
    pub max_failures: Option<u64>,
    /// Where object stores are, should it not be the vendor's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// The first line of a bundle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Head {
    /// What is run.
    #[serde(flatten)]
    pub plan: Plan,
    /// How.
    #[serde(flatten)]
    pub limits: Limits,
}

/// Where a pipeline's stderr goes.
#[derive(Clone)]
pub enum Said {
    /// To the item's file in the run folder.
    Kept(Folder),
    /// To our stderr; the end of it goes into the record.
    Passed(Listener),
}

/// Runs items of one plan.
pub struct Runner {
    head: Head,
    templates: Templates,
    said: Said,
    /// PATH, with the folder of this program at its end: the other tools are beside it.
    path: String,
    bash: PathBuf,
    /// Whether items start long after the outputs were listed: they are looked for again, in stores too.
    is_task: bool,
}

impl Runner {
    /// For items of this plan.
    pub fn new(head: Head, said: Said, is_task: bool) -> Result<Self> {
        let own = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        let path = own.map_or(path.clone(), |own| format!("{path}:{}", own.display()));
        // A program that is looked for in a PATH given to it is started by fork, which takes longer than posix_spawn.
        let bash = shell::find("bash").unwrap_or_else(|| "bash".into());
        Ok(Runner { templates: head.plan.templates()?, head, said, bash, path, is_task })
    }

    /// What it was made of.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Runs an item to its end. Failures are part of the record; errors are ours.
    pub fn run(&self, item: &Item<'_>) -> Result<Record> {
        let output = self.templates.output.as_ref().map(|template| template.fill(item));
        let also: Vec<String> = self.templates.also.iter().map(|template| template.fill(item)).collect();
        let mut record = Record::begin(item);
        if !self.head.limits.redo && output.as_deref().is_some_and(|name| self.exist(name, &also)) {
            record.state = State::Done;
            return Ok(record);
        }
        let script = self.templates.pipeline.fill(item);
        let started = Instant::now();
        let mut delay = FIRST_DELAY;
        loop {
            record.attempts += 1;
            let (result, tail) = self.attempt(item, record.attempts, &script, output.as_deref(), &also)?;
            record.seconds = started.elapsed().as_secs_f64();
            record.stderr = tail;
            note(&mut record, result);
            explain_early_reader(&mut record, &script);
            if record.state == State::Done || record.attempts > self.head.limits.retries {
                return Ok(record);
            }
            messages::detail(&format!(
                "item {}: {}; trying again",
                item.index,
                record.message.as_deref().unwrap_or("")
            ));
            std::thread::sleep(delay);
            delay = (delay * 2).min(LONGEST_DELAY);
        }
    }

    /// Whether an item's files are all there: another copy of its task may have written them.
    fn exist(&self, output: &str, also: &[String]) -> bool {
        let is_there = match location::is_object(output) {
            true => self.is_task && is_stored(output),
            false => is_file(output),
        };
        is_there && also.iter().all(|name| is_file(name))
    }

    fn attempt(
        &self,
        item: &Item<'_>,
        number: u32,
        script: &str,
        output: Option<&str>,
        also: &[String],
    ) -> Result<(Result<Made, Failure>, Option<String>)> {
        let env = [
            ("PATH", self.path.clone()),
            ("SHARD", item.value.to_owned()),
            ("SHARD_INDEX", item.index.to_string()),
            ("SHARD_COUNT", item.count.to_string()),
            ("SHARD_ATTEMPT", number.to_string()),
            ("TARPIPE_SHARD", format!("{}/{}", item.index, item.count)),
        ];
        let timeout = self.head.limits.timeout.map(Duration::from_secs_f64);
        let attempt = Attempt { bash: &self.bash, script, env: &env, output, also, timeout };
        match &self.said {
            Said::Kept(folder) => {
                Ok((attempt.run(open_stderr(folder, item.index)?), None)).inspect(|_| tidy(folder, item.index))
            }
            Said::Passed(listener) => {
                let (reader, writer) = io::pipe()?;
                let heard = listener.listen(reader)?;
                let result = attempt.run(File::from(std::os::fd::OwnedFd::from(writer)));
                Ok((result, listener.tail(heard)))
            }
        }
    }
}

fn is_file(name: &str) -> bool {
    is_path(name) && fs::metadata(location::path_of(name)).is_ok_and(|found| found.is_file())
}

fn note(record: &mut Record, result: Result<Made, Failure>) {
    record.seconds = (record.seconds * 1e6).round() / 1e6;
    match result {
        Ok(made) => {
            record.state = State::Done;
            (record.bytes, record.samples) = (made.bytes, made.samples);
            (record.exit, record.code, record.message) = (Some(0), None, None);
        }
        Err(failure) => {
            record.state = State::Failed;
            record.exit = failure.exit;
            record.code = Some(failure.code.to_owned());
            record.message = Some(failure.message);
        }
    }
}

/// Says what to do about a stage that fails because the one after it has read enough: bash's pipefail cannot tell that
/// from a real failure. It dies of PIPE, or says so as curl does.
fn explain_early_reader(record: &mut Record, script: &str) {
    let (stage, status) = match record.exit {
        Some(141) if script.contains('|') => ("a stage", 141),
        Some(23) if script.contains("curl") && script.contains('|') => ("curl", 23),
        _ => return,
    };
    if let Some(message) = record.message.as_mut() {
        message.push_str(&format!(
            ": {stage} could not write all of its output, as when the next one stops reading early; if that is meant, write {{ STAGE || [ $? = {status} ]; }} | ..."
        ));
    }
}

/// Whether an object is there. A store that may be written and not listed costs a second run at worst.
fn is_stored(name: &str) -> bool {
    !sink::is_command(name)
        && sink::existing(name).map(|found| found.contains_key(name)).unwrap_or_else(|err| {
            messages::detail(&format!("{err:#}; running the item"));
            false
        })
}

/// Whether a name is a path, rather than a command or a URL.
pub fn is_path(name: &str) -> bool {
    !sink::is_command(name) && location::is_path(name)
}

/// The file is appended to: another copy of this task may write to it at the same time.
fn open_stderr(folder: &Folder, index: u64) -> Result<File> {
    let path = folder.stderr(index);
    let open = || OpenOptions::new().create(true).append(true).open(&path);
    let file = open().or_else(|err| match (err.kind(), path.parent()) {
        (io::ErrorKind::NotFound, Some(parent)) => fs::create_dir_all(parent).and_then(|()| open()),
        _ => Err(err),
    });
    file.with_context(|| path.display().to_string())
}

/// Takes the file of a silent item away.
fn tidy(folder: &Folder, index: u64) {
    let path = folder.stderr(index);
    if fs::metadata(&path).is_ok_and(|found| found.len() == 0) {
        _ = fs::remove_file(path);
    }
}
