//! Persistent workers: processes that read samples on stdin and answer on stdout, for programs
//! that take long to start. The streams are tar archives in which an empty member `__end__`
//! follows every sample and every answer; a member `__error__` in an answer says why there is none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tarpipe::archive::{Kind, Reader, Writer};
use tarpipe::run::failure::Failure;
use tarpipe::run::watched;
use tarpipe::sample::member_name;
use tarpipe::sample::{Member, Sample};

use crate::job::{Attempt, Way};
use crate::link::{Link, Output};
use crate::log::Log;
use crate::pack::{Origin, Packed};
use crate::shell::{Settings, spare};

const END: &str = "__end__";
const ERROR: &[u8] = b"__error__";
/// Says the key of a sample that has no members to say it.
const KEY: &str = "__key__";

/// A process that lives on from sample to sample. It is started when it is first needed, and
/// again after it failed.
pub struct Worker {
    settings: Arc<Settings>,
    live: Option<Live>,
}

struct Live {
    link: Arc<Mutex<Link>>,
    answers: Reader,
}

impl Worker {
    /// A worker to be.
    pub fn new(settings: Arc<Settings>) -> Self {
        Worker { settings, live: None }
    }

    fn exchange(&mut self, sample: &mut Sample, keep: bool) -> Result<Packed, Failure> {
        if self.live.is_none() {
            self.live = Some(Live::start(&self.settings)?);
        }
        let Some(live) = &mut self.live else { return Err(Failure::new("system", "no worker")) };
        let request = encode(sample).map_err(|err| Failure::io("encode the sample", &err))?;
        let origin = Origin::of(sample);
        if !keep {
            drop(spare(sample));
        }
        let deadline = self.settings.limits.timeout.map(|timeout| Instant::now() + timeout);
        live.link().send(request, deadline);
        live.answer(&origin, self.settings.limits.max_output)
    }

    fn take_log(&self) -> Log {
        self.live.as_ref().map(|live| live.link().take_log()).unwrap_or_default()
    }
}

impl Way for Worker {
    fn attempt(&mut self, _index: u64, samples: &mut [Sample], keep: bool) -> Attempt {
        watched::wait_if_ending();
        let result = self.exchange(&mut samples[0], keep);
        if result.as_ref().is_err_and(|failure| failure.code != "worker_error") {
            // Where it stands in its answer is not known: it begins anew.
            if let Some(live) = &self.live {
                live.link().end_by_force();
            }
        }
        let log = self.take_log();
        if self.live.as_ref().is_some_and(|live| live.link().is_over()) {
            self.live = None;
        }
        Attempt { results: vec![result], stdout: Vec::new(), log }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.link().finish();
        }
    }
}

impl Live {
    fn start(settings: &Settings) -> Result<Self, Failure> {
        let link = Link::start(settings.interpreter.command()).map_err(|err| Failure::io("start a worker", &err))?;
        let link = Arc::new(Mutex::new(link));
        let answers = Reader::new(Box::new(Output(Arc::clone(&link))), false);
        Ok(Live { link, answers })
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads up to the end of the answer.
    fn answer(&mut self, origin: &Origin, max_sample: u64) -> Result<Packed, Failure> {
        let mut groups: Vec<(String, Vec<Member>)> = Vec::new();
        let mut error = None;
        let mut left = max_sample;
        loop {
            let entry = match self.answers.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Err(self.link().fault("the worker ended its archive")),
                Err(fault) => return Err(self.link().fault(&fault.what)),
            };
            if entry.path == END.as_bytes() {
                break;
            }
            left = left
                .checked_sub(entry.size)
                .ok_or_else(|| Failure::new("too_large", "the worker answers with more than a sample may hold"))?;
            let data = self.answers.read_data();
            let data = data.map_err(|fault| self.link().fault(&fault.what))?;
            if entry.path == ERROR {
                error = Some(Failure::new("worker_error", String::from_utf8_lossy(&data).trim().to_owned()));
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

/// Puts a member of an answer to the others of its sample.
fn add(groups: &mut Vec<(String, Vec<Member>)>, path: &[u8], kind: Kind, data: Vec<u8>) -> Result<(), Failure> {
    let bad = |why: &str| {
        Failure::new("bad_name", format!("the worker answers with {}: {why}", String::from_utf8_lossy(path)))
    };
    if kind != Kind::File {
        return Err(bad("it is not a regular file"));
    }
    let (key, field) = member_name::split(path).map_err(|unfit| bad(&unfit.to_string()))?;
    let member = Member::new(field, data);
    match groups.last_mut() {
        Some((last, members)) if last == key => members.push(member),
        _ => groups.push((key.to_owned(), vec![member])),
    }
    Ok(())
}

fn derive(origin: &Origin, groups: Vec<(String, Vec<Member>)>) -> Result<Packed, Failure> {
    let samples = groups.into_iter().map(|(key, members)| origin.derive(key, members)).collect::<Result<_, _>>()?;
    Ok(Packed { samples, ignored: 0 })
}

/// The sample as the worker reads it.
fn encode(sample: &Sample) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(sample.bytes() as usize + 1024 * (sample.members.len() + 2));
    let mut writer = Writer::new(&mut bytes);
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
