//! --worker: persistent processes that read samples on stdin and write results to stdout, for programs that are slow to
//! start. Both streams are tar archives in which an empty member `__end__` follows each sample and each result; a member
//! `__error__` in a result has the message of a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use tarpipe::archive::{ArchiveReader, ArchiveWriter, EntryKind};
use tarpipe::run::failure::Failure;
use tarpipe::run::watched;
use tarpipe::sample::member_name;
use tarpipe::sample::{Member, Sample};

use crate::tarproc::job::{JobAttempt, Runner, take_buffers};
use crate::tarproc::log::CommandLog;
use crate::tarproc::pack::{Origin, PackedSamples};
use crate::tarproc::settings::RunnerSettings;
use crate::tarproc::worker_process::{WORKER_DIED, WorkerProcess};

const END: &str = "__end__";
const ERROR: &[u8] = b"__error__";
/// The member with the key of a sample that has no other members.
const KEY: &str = "__key__";

/// The code of samples for which a worker has returned an error.
const WORKER_ERROR: &str = "worker_error";

/// The most deaths of workers before any of them has returned a result.
const MAX_DEATHS: u32 = 3;

/// Whether the command works as a worker at all, over all processes.
#[derive(Default)]
pub struct WorkerStarts {
    deaths: AtomicU32,
    has_result: AtomicBool,
}

impl WorkerStarts {
    /// Records a death. A command that has died too often without a result would die of every sample: that ends the run.
    fn record_death(&self, failure: Failure, log: &CommandLog) -> Failure {
        let deaths = self.deaths.fetch_add(1, Ordering::Relaxed) + 1;
        if deaths < MAX_DEATHS || self.has_result.load(Ordering::Relaxed) {
            return failure;
        }
        let said = String::from_utf8_lossy(log.bytes());
        let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let last = last.map(|line| format!("; its last line on stderr: {line}")).unwrap_or_default();
        let what = format!("{}; no worker has returned a result in {deaths} starts{last}", failure.what());
        Failure::new(failure.code, what).fatal()
    }
}

/// Runs samples through one persistent process, which is started when it is first needed and restarted after a failure.
pub struct WorkerRunner {
    settings: Arc<RunnerSettings>,
    live: Option<LiveWorker>,
}

/// A worker process and its results.
struct LiveWorker(ArchiveReader<WorkerProcess>);

impl WorkerRunner {
    /// Nothing is started yet.
    pub fn new(settings: Arc<RunnerSettings>) -> Self {
        WorkerRunner { settings, live: None }
    }

    fn exchange(&mut self, sample: &mut Sample, keep: bool) -> Result<PackedSamples, Failure> {
        if self.live.is_none() {
            self.live = Some(LiveWorker::start(&self.settings)?);
        }
        let Some(live) = &mut self.live else { return Err(Failure::new("system", "no worker")) };
        let request = encode(sample).map_err(|err| Failure::io("encode the sample", &err))?;
        let origin = Origin::of(sample);
        if !keep {
            drop(take_buffers(sample));
        }
        let deadline = self.settings.limits.timeout.map(|timeout| Instant::now() + timeout);
        live.process().send(request, deadline);
        live.read_result(&origin, self.settings.limits.max_output)
    }

    fn take_log(&mut self) -> CommandLog {
        self.live.as_mut().map(|live| live.process().take_log()).unwrap_or_default()
    }
}

impl Runner for WorkerRunner {
    fn attempt(&mut self, _index: u64, samples: &mut [Sample], keep: bool) -> JobAttempt {
        watched::park_if_ending();
        let result = self.exchange(&mut samples[0], keep);
        if result.as_ref().is_err_and(|failure| failure.code != WORKER_ERROR) {
            // Its position in the result is unknown, so it must be restarted.
            if let Some(live) = &mut self.live {
                live.process().kill();
            }
        }
        let log = self.take_log();
        let starts = &self.settings.worker_starts;
        let result = match result {
            Err(failure) if failure.code == WORKER_DIED => Err(starts.record_death(failure, &log)),
            result => {
                let is_answer = result.as_ref().map_or_else(|failure| failure.code == WORKER_ERROR, |_| true);
                starts.has_result.fetch_or(is_answer, Ordering::Relaxed);
                result
            }
        };
        if self.live.as_mut().is_some_and(|live| live.process().is_over()) {
            self.live = None;
        }
        JobAttempt { results: vec![result], stdout: Vec::new(), log }
    }
}

impl Drop for WorkerRunner {
    fn drop(&mut self) {
        if let Some(live) = &mut self.live {
            live.process().finish();
        }
    }
}

impl LiveWorker {
    fn start(settings: &RunnerSettings) -> Result<Self, Failure> {
        let process =
            WorkerProcess::start(settings.interpreter.command()).map_err(|err| Failure::io("start a worker", &err))?;
        Ok(LiveWorker(ArchiveReader::new(process, false)))
    }

    fn process(&mut self) -> &mut WorkerProcess {
        self.0.get_mut()
    }

    /// Reads the result of the last sample.
    fn read_result(&mut self, origin: &Origin, max_sample: u64) -> Result<PackedSamples, Failure> {
        let mut groups: Vec<(String, Vec<Member>)> = Vec::new();
        let mut error = None;
        let mut left = max_sample;
        loop {
            let entry = match self.0.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Err(self.process().fault("the worker ended its archive")),
                Err(fault) => return Err(self.process().fault(&fault.what)),
            };
            if entry.path == END.as_bytes() {
                break;
            }
            left = left
                .checked_sub(entry.size)
                .ok_or_else(|| Failure::new("too_large", "the result of the worker is larger than --max-sample"))?;
            let data = self.0.read_data();
            let data = data.map_err(|fault| self.process().fault(&fault.what))?;
            if entry.path == ERROR {
                error = Some(Failure::new(WORKER_ERROR, String::from_utf8_lossy(&data).trim().to_owned()));
                continue;
            }
            add(&mut groups, &entry.path, entry.kind, data)?;
        }
        match error {
            Some(failure) => Err(failure),
            None => derive(origin, groups),
        }
    }
}

/// Adds a member of a result to its sample.
fn add(groups: &mut Vec<(String, Vec<Member>)>, path: &[u8], kind: EntryKind, data: Vec<u8>) -> Result<(), Failure> {
    let bad =
        |why: &str| Failure::new("bad_name", format!("the worker returned {}: {why}", String::from_utf8_lossy(path)));
    if kind != EntryKind::File {
        return Err(bad("not a regular file"));
    }
    let (key, field) = member_name::split(path).map_err(|unfit| bad(&unfit.to_string()))?;
    let member = Member::new(field, data);
    match groups.last_mut() {
        Some((last, members)) if last == key => members.push(member),
        _ => groups.push((key.to_owned(), vec![member])),
    }
    Ok(())
}

fn derive(origin: &Origin, groups: Vec<(String, Vec<Member>)>) -> Result<PackedSamples, Failure> {
    let samples = groups.into_iter().map(|(key, members)| origin.derive(key, members)).collect::<Result<_, _>>()?;
    Ok(PackedSamples { samples, ignored: 0 })
}

/// The sample in the format that the worker reads.
fn encode(sample: &Sample) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(sample.bytes() as usize + 1024 * (sample.members.len() + 2));
    let mut writer = ArchiveWriter::new(&mut bytes);
    if sample.members.is_empty() {
        writer.new_header(KEY, sample.key.len() as u64, sample.mtime)?;
        writer.data(sample.key.as_bytes())?;
    }
    sample.write(&mut writer)?;
    writer.new_header(END, 0, 0)?;
    writer.flush()?;
    drop(writer);
    Ok(bytes)
}
