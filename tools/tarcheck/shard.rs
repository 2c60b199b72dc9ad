//! Checks one shard, from its first byte to its last.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tarpipe::archive::{ArchiveReader, Fault};
use tarpipe::compression::{self, HEAD};
use tarpipe::digest::Digest;
use tarpipe::location;
use tarpipe::messages::progress;
use tarpipe::sample::fields::FieldSet;
use tarpipe::sample::index::Index;
use tarpipe::sample::stream::{MemberView, SampleHead, SampleStream};
use tarpipe::sort::{PositionedKey, RepeatFinder};
use tarpipe::source;

use crate::tarcheck::loaders::{Loader, LoaderMember, LoaderView, names};
use crate::tarcheck::verdict::{Finding, Verdict};

/// Keys are handed over in batches of this size, so that workers seldom wait for the lock.
const BATCH: usize = 4096;

/// This many fields of a sample are looked at for merged files.
const MAX_NAMES: usize = 1000;

/// What to check, and what to collect for the indexes.
pub struct Checks {
    pub loaders: Vec<Loader>,
    pub required: Vec<String>,
    pub ignore_eof: bool,
    pub keys: bool,
    pub index: bool,
    pub digest: bool,
    pub show: usize,
}

impl Checks {
    /// Whether a loader decodes this member, so that its data is needed.
    fn decodes(&self, member: &MemberView<'_>) -> bool {
        self.loaders.iter().any(|loader| loader.decodes(member.field, member.entry.size))
    }
}

/// Checks a shard. Its faults are in the verdict; an error means that this machine could not do the check.
pub fn check(number: usize, name: &str, checks: &Checks, finder: &Mutex<RepeatFinder>) -> Result<Verdict> {
    let stored = BytesRead::default();
    let mut verdict = match open(name, &stored, checks) {
        Ok(stream) => Inspection::new(number, stream, checks).run(name, &stored, finder)?,
        Err(err) => {
            let mut verdict = Verdict::default();
            let what = format!("{err:#}");
            verdict.add(Finding { code: "unreadable", offset: 0, sample: None, what, repair: None }, checks.show);
            verdict
        }
    };
    verdict.shard = location::display(name);
    (verdict.stored_bytes, verdict.sha256) = stored.totals();
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
    loaders: Arc<Mutex<Vec<LoaderView>>>,
    index: Option<Index>,
    keys: Vec<PositionedKey>,
}

impl<'a> Inspection<'a> {
    fn new(number: usize, mut stream: SampleStream, checks: &'a Checks) -> Self {
        let hostile = Arc::new(Mutex::new(Vec::new()));
        let (findings, show) = (Arc::clone(&hostile), checks.show);
        let views = checks.loaders.iter().map(|&loader| LoaderView::new(loader, checks.show));
        let loaders = Arc::new(Mutex::new(views.collect::<Vec<_>>()));
        let views = Arc::clone(&loaders);
        stream.observe(Box::new(move |left_out| {
            let member = LoaderMember { entry: left_out.entry, part: None, data: None };
            views.lock().iter_mut().for_each(|view| view.member(&member));
            let mut findings = findings.lock();
            if !left_out.harmless && findings.len() < show {
                let path = String::from_utf8_lossy(&left_out.entry.path);
                let what = format!("member {path}: {}", left_out.why);
                findings.push(Finding {
                    code: left_out.code,
                    offset: left_out.entry.offset,
                    sample: None,
                    what,
                    repair: None,
                });
            }
        }));
        let index = checks.index.then(Index::default);
        let (verdict, keys) = (Verdict::default(), Vec::new());
        Inspection { number, stream, checks, verdict, hostile, loaders, index, keys }
    }

    fn run(mut self, name: &str, stored: &BytesRead, finder: &Mutex<RepeatFinder>) -> Result<Verdict> {
        self.for_each_loader(|view| view.begin(name, compression::recognise(&stored.head())));
        loop {
            match self.next_sample() {
                Ok(Some(head)) => self.note_key(&head, finder)?,
                Ok(None) => break,
                Err(err) => {
                    let finding = broken(&err);
                    let fault = err.downcast_ref::<Fault>();
                    self.for_each_loader(|view| view.broken(finding.offset, fault));
                    self.add(finding);
                    break;
                }
            }
        }
        self.hand_over_keys(finder)?;
        self.verdict.bytes = self.stream.offset();
        self.verdict.dropped = self.stream.tally().count_dropped();
        self.verdict.faults += self.stream.tally().count_failed();
        self.verdict.index = self.index.as_ref().map(Index::dali);
        let hostile = std::mem::take(&mut *self.hostile.lock());
        let room = self.checks.show.saturating_sub(self.verdict.findings.len());
        self.verdict.findings.extend(hostile.into_iter().take(room));
        self.finish_loaders();
        Ok(self.verdict)
    }

    fn for_each_loader(&self, act: impl FnMut(&mut LoaderView)) {
        self.loaders.lock().iter_mut().for_each(act);
    }

    fn finish_loaders(&mut self) {
        for mut view in std::mem::take(&mut *self.loaders.lock()) {
            view.finish(self.number == 0);
            self.verdict.faults += view.faults;
            let room = self.checks.show.saturating_sub(self.verdict.findings.len());
            self.verdict.findings.extend(view.findings.into_iter().take(room));
            self.verdict.loaders.push(view.result);
            self.verdict.field_sets = self.verdict.field_sets.take().or(view.field_sets);
        }
    }

    /// Reads the next sample and records its faults.
    fn next_sample(&mut self) -> Result<Option<SampleHead>> {
        let Some(head) = self.stream.next()? else { return Ok(None) };
        if let Some(index) = &mut self.index {
            index.begin();
        }
        let Inspection { stream, checks, verdict, index, loaders, .. } = self;
        let (mut fields, mut names) = (FieldSet::default(), BTreeSet::new());
        let mut missing: Vec<&String> = checks.required.iter().collect();
        let finding = |code, offset, what| Finding { code, offset, sample: Some(head.key.clone()), what, repair: None };
        let wants = |member: &MemberView<'_>| checks.decodes(member);
        stream.examine(wants, |member, data| {
            let field = member.field;
            if let Err(refusal) = fields.add(field) {
                let what = format!("field {field} {refusal}");
                verdict.add(finding(refusal.code(), member.entry.offset, what), checks.show);
            }
            missing.retain(|required| *required != field);
            verdict.members += 1;
            verdict.fields.add(field);
            if let Some(index) = index {
                index.add(member);
            }
            if !checks.loaders.is_empty() && names.len() < MAX_NAMES {
                names.insert(field.to_owned());
            }
            let part = Some((head.key.as_str(), field));
            loaders.lock().iter_mut().for_each(|view| view.member(&LoaderMember { entry: member.entry, part, data }));
        })?;
        if names::are_merged(&names) {
            let why = "dots in file names merge several files into this sample; rename the files";
            loaders.lock().iter_mut().for_each(|view| view.merged(head.offset, &head.key, why));
        }
        loaders.lock().iter_mut().for_each(|view| view.end_sample(&head.key));
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
        Some(fault) => {
            Finding { code: fault.code, offset: fault.offset, sample: None, what: fault.what.clone(), repair: None }
        }
        None => Finding { code: "unreadable", offset: 0, sample: None, what: format!("{err:#}"), repair: None },
    }
}

/// What is known of a shard as it is stored, before decompression.
#[derive(Clone, Default)]
struct BytesRead(Arc<Mutex<StoredShard>>);

#[derive(Default)]
struct StoredShard {
    bytes: u64,
    digest: Option<Digest>,
    /// The first bytes, which tell the compression.
    head: Vec<u8>,
}

impl BytesRead {
    fn meter(&self, raw: Box<dyn Read + Send>, digest: bool) -> MeteredReader {
        self.0.lock().digest = digest.then(Digest::new);
        MeteredReader { raw, stored: self.clone() }
    }

    fn head(&self) -> Vec<u8> {
        self.0.lock().head.clone()
    }

    fn totals(&self) -> (u64, Option<String>) {
        let mut stored = self.0.lock();
        (stored.bytes, stored.digest.take().map(Digest::hex))
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
        stored.bytes += n as u64;
        let missing = HEAD - stored.head.len();
        stored.head.extend_from_slice(&buf[..n.min(missing)]);
        if let Some(digest) = &mut stored.digest {
            digest.update(&buf[..n]);
        }
        Ok(n)
    }
}
