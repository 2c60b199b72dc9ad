//! Checks one shard, from its first byte to its last.

use std::io::{self, Read};
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tarpipe::archive::{ArchiveReader, Fault};
use tarpipe::compression;
use tarpipe::digest::Digest;
use tarpipe::location;
use tarpipe::messages::progress;
use tarpipe::sample::fields::FieldSet;
use tarpipe::sample::index::Index;
use tarpipe::sample::stream::{SampleHead, SampleStream};
use tarpipe::sort::{PositionedKey, RepeatFinder};
use tarpipe::source;

use crate::tarcheck::verdict::{Finding, Verdict};

/// Keys are handed over in batches of this size, so that workers seldom wait for the lock.
const BATCH: usize = 4096;

/// What to check, and what to collect for the indexes.
pub struct Checks {
    pub required: Vec<String>,
    pub ignore_eof: bool,
    pub keys: bool,
    pub index: bool,
    pub digest: bool,
    pub show: usize,
}

/// Checks a shard. Its faults are in the verdict; an error means that this machine could not do the check.
pub fn check(number: usize, name: &str, checks: &Checks, finder: &Mutex<RepeatFinder>) -> Result<Verdict> {
    let stored = BytesRead::default();
    let mut verdict = match open(name, &stored, checks) {
        Ok(stream) => Inspection::new(number, stream, checks).run(finder)?,
        Err(err) => {
            let mut verdict = Verdict::default();
            let what = format!("{err:#}");
            verdict.add(Finding { code: "unreadable", offset: 0, sample: None, what }, checks.show);
            verdict
        }
    };
    verdict.shard = location::display(name);
    (verdict.stored_bytes, verdict.sha256) = stored.take();
    Ok(verdict)
}

fn open(name: &str, stored: &BytesRead, checks: &Checks) -> Result<SampleStream> {
    let raw = stored.meter(source::open_raw(name)?, checks.digest);
    Ok(SampleStream::new(name, ArchiveReader::new(compression::decoder(Box::new(raw))?, checks.ignore_eof)))
}

/// The check of a shard in progress.
struct Inspection<'a> {
    number: usize,
    stream: SampleStream,
    checks: &'a Checks,
    verdict: Verdict,
    hostile: Arc<Mutex<Vec<Finding>>>,
    index: Option<Index>,
    keys: Vec<PositionedKey>,
}

impl<'a> Inspection<'a> {
    fn new(number: usize, mut stream: SampleStream, checks: &'a Checks) -> Self {
        let hostile = Arc::new(Mutex::new(Vec::new()));
        let (findings, show) = (Arc::clone(&hostile), checks.show);
        stream.observe(Box::new(move |left_out| {
            let mut findings = findings.lock();
            if !left_out.harmless && findings.len() < show {
                let path = String::from_utf8_lossy(&left_out.entry.path);
                let what = format!("member {path}: {}", left_out.why);
                findings.push(Finding { code: left_out.code, offset: left_out.entry.offset, sample: None, what });
            }
        }));
        let index = checks.index.then(Index::default);
        Inspection { number, stream, checks, verdict: Verdict::default(), hostile, index, keys: Vec::new() }
    }

    fn run(mut self, finder: &Mutex<RepeatFinder>) -> Result<Verdict> {
        loop {
            match self.next_sample() {
                Ok(Some(head)) => self.note_key(&head, finder)?,
                Ok(None) => break,
                Err(err) => {
                    self.add(broken(&err));
                    break;
                }
            }
        }
        self.hand_over_keys(finder)?;
        self.verdict.bytes = self.stream.offset();
        self.verdict.dropped = self.stream.tally().count_dropped();
        self.verdict.faults += self.stream.tally().count_failed();
        self.verdict.index = self.index.map(|index| index.dali());
        let hostile = std::mem::take(&mut *self.hostile.lock());
        let room = self.checks.show.saturating_sub(self.verdict.findings.len());
        self.verdict.findings.extend(hostile.into_iter().take(room));
        Ok(self.verdict)
    }

    /// Reads the next sample and records its faults.
    fn next_sample(&mut self) -> Result<Option<SampleHead>> {
        let Some(head) = self.stream.next()? else { return Ok(None) };
        if let Some(index) = &mut self.index {
            index.begin();
        }
        let Inspection { stream, checks, verdict, index, .. } = self;
        let mut fields = FieldSet::default();
        let mut missing: Vec<&String> = checks.required.iter().collect();
        let finding = |code, offset, what| Finding { code, offset, sample: Some(head.key.clone()), what };
        stream.headers(|member| {
            let field = member.field;
            if let Err(refusal) = fields.add(field) {
                let what = format!("field {field} {refusal}");
                verdict.add(finding(refusal.code(), member.entry.offset, what), checks.show);
            }
            missing.retain(|required| *required != field);
            verdict.members += 1;
            verdict.fields.add(field);
            if let Some(index) = index {
                index.add(&member);
            }
        })?;
        verdict.samples += 1;
        for required in missing {
            verdict.add(finding("missing_field", head.offset, format!("field {required} is missing")), checks.show);
        }
        Ok(Some(head))
    }

    fn note_key(&mut self, head: &SampleHead, finder: &Mutex<RepeatFinder>) -> Result<()> {
        progress::add_sample();
        if !self.checks.keys {
            return Ok(());
        }
        self.keys.push(PositionedKey::new(&head.key, (self.number as u64, head.offset)));
        if self.keys.len() < BATCH { Ok(()) } else { self.hand_over_keys(finder) }
    }

    fn hand_over_keys(&mut self, finder: &Mutex<RepeatFinder>) -> Result<()> {
        let mut finder = finder.lock();
        self.keys.drain(..).try_for_each(|key| finder.add(&key))
    }

    fn add(&mut self, finding: Finding) {
        self.verdict.add(finding, self.checks.show);
    }
}

fn broken(err: &anyhow::Error) -> Finding {
    match err.downcast_ref::<Fault>() {
        Some(fault) => Finding { code: fault.code, offset: fault.offset, sample: None, what: fault.what.clone() },
        None => Finding { code: "unreadable", offset: 0, sample: None, what: format!("{err:#}") },
    }
}

/// Size and digest of a shard as it is stored, before decompression.
#[derive(Clone, Default)]
struct BytesRead(Arc<Mutex<(u64, Option<Digest>)>>);

impl BytesRead {
    fn meter(&self, raw: Box<dyn Read + Send>, digest: bool) -> MeteredReader {
        self.0.lock().1 = digest.then(Digest::new);
        MeteredReader { raw, stored: self.clone() }
    }

    fn take(&self) -> (u64, Option<String>) {
        let mut stored = self.0.lock();
        (stored.0, stored.1.take().map(Digest::hex))
    }
}

struct MeteredReader {
    raw: Box<dyn Read + Send>,
    stored: BytesRead,
}

impl Read for MeteredReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.raw.read(buf)?;
        let mut stored = self.stored.0.lock();
        stored.0 += n as u64;
        if let Some(digest) = &mut stored.1 {
            digest.update(&buf[..n]);
        }
        Ok(n)
    }
}
