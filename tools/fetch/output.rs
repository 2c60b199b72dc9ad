//! What becomes of a row that is done: a sample and a line of the report, or the line alone.

use anyhow::{Result, anyhow};
use serde_json::{Map, Value, json};
use tarpipe::ledger::Ledger;
use tarpipe::report::Tally;
use tarpipe::sample::{Member, Sample};
use tarpipe::secret::mask_users;
use tarpipe::shard::Shard;
use tarpipe::{messages, name, passed, progress};

use super::attempt::{File, Job};
use super::entry::Entry;
use super::failure::{Code, Failure};
use super::flags::Args;
use super::hash::Hash;
use super::request::Trace;
use super::schedule::Done;
use super::stats::Stats;

/// The archive and the report.
pub struct Output {
    archive: Shard,
    report: Option<Ledger>,
    hash: Hash,
    pass_failed: bool,
    tally: Tally,
}

impl Output {
    pub fn create(args: &Args) -> Result<Self> {
        let report = args.report.as_deref().map(|name| Ledger::create(name, Entry::COLUMNS)).transpose()?;
        let archive = args.output.create(&args.parallel)?;
        Ok(Output { archive, report, hash: args.hash, pass_failed: args.pass_failed, tally: Tally::default() })
    }

    /// Writes one row. When the run is over already, its sample goes nowhere and the row is
    /// reported as not done.
    pub fn add(&mut self, done: Done, is_over: bool, stats: &Stats) -> Result<()> {
        let Done { mut job, mut failure } = done;
        if is_over && failure.is_none() {
            failure = Some(Failure::lasting(Code::Interrupted, "interrupted before it was written"));
        }
        if failure.is_none() {
            failure =
                name::check_key(&job.row.key).err().map(|unfit| Failure::lasting(Code::BadKey, unfit.to_string()));
        }
        let entry = self.entry(&job, failure.as_ref());
        let mut written = Ok(());
        match &failure {
            None => written = self.archive.write(&self.sample(&mut job)),
            Some(failure) => {
                messages::detail(&format!("{}: {}", job.url(), failure.why));
                self.tally.fail(failure.code.name());
                progress::add_failed();
                if failure.ends_run && !is_over {
                    written = Err(anyhow!(failure.why.clone()));
                } else if self.pass_failed && !is_over && failure.code != Code::BadKey {
                    written = self.archive.write(&failed_sample(&mut job, failure));
                }
            }
        }
        if written.is_ok() && failure.is_none() {
            self.tally.done();
            progress::add_sample();
            progress::add_bytes(entry.bytes);
        }
        stats.add(failure.as_ref().map(|failure| failure.code), entry.bytes);
        if let Some(report) = &mut self.report {
            let entry = match written {
                Ok(()) => entry,
                Err(_) => Entry { code: Some(Code::Interrupted.name()), ..entry },
            };
            report.add(entry.into_row())?;
        }
        written
    }

    /// Completes the archive and the report.
    pub fn finish(mut self) -> Result<Tally> {
        self.finish_report()?;
        self.archive.finish()?;
        Ok(self.tally)
    }

    /// Completes the report alone, for a run whose archive is lost.
    pub fn finish_report(&mut self) -> Result<()> {
        self.report.take().map_or(Ok(()), Ledger::finish)
    }

    fn entry(&self, job: &Job, failure: Option<&Failure>) -> Entry {
        let hashes: Vec<&str> = job.files.iter().map(|file| file.hash.as_str()).collect();
        let first = job.files.first();
        let trace = first.map_or(&job.trace, |file| &file.trace);
        Entry {
            key: job.row.key.clone(),
            url: mask_users(if failure.is_some() { job.url() } else { job.row.url(0) }).into_owned(),
            code: failure.map(|failure| failure.code.name()),
            error_message: failure.map(|failure| mask_users(&failure.why).into_owned()),
            http_status: trace.http_status,
            final_url: final_url(trace),
            bytes: job.files.iter().map(|file| file.data.len() as u64).sum(),
            mime: first.map(|file| file.mime.clone()).or_else(|| trace.mime.clone()),
            attempts: job.attempts,
            milliseconds: job.spent.as_millis() as u64,
            hash: failure.is_none().then(|| hashes.join(" ")).filter(|hash| !hash.is_empty()),
        }
    }

    fn sample(&self, job: &mut Job) -> Sample {
        let json = self.json(job);
        let mut members = Vec::new();
        for (at, file) in std::mem::take(&mut job.files).into_iter().enumerate() {
            let number = if job.row.is_list { format!("{at}.") } else { String::new() };
            members.push(Member::new(field(&file, at, job.row.is_list), file.data));
            members.extend(file.extras.into_iter().map(|extra| Member::new(number.clone() + &extra.field, extra.data)));
        }
        if let Some(caption) = job.row.caption.take() {
            members.push(Member::new("txt", caption.into_bytes()));
        }
        members.push(Member::new("json", Value::Object(json).to_string().into_bytes()));
        Sample { key: job.row.key.clone(), mtime: 0, source: job.url().into(), members }
    }

    /// Every column of the row, then what became of the request. Ours win where names clash.
    fn json(&self, job: &mut Job) -> Map<String, Value> {
        let mut json = columns(job);
        json.insert("status".into(), "success".into());
        if job.row.is_list {
            let facts = job.files.iter().enumerate().map(|(at, file)| {
                let mut facts = self.facts(file);
                facts.insert("field".into(), field(file, at, true).into());
                Value::Object(facts)
            });
            json.insert("files".into(), facts.collect());
        } else if let Some(file) = job.files.first() {
            json.extend(self.facts(file));
        }
        json
    }

    fn facts(&self, file: &File) -> Map<String, Value> {
        let mut facts = Map::new();
        facts.insert("final_url".into(), json!(final_url(&file.trace)));
        facts.insert("http_status".into(), json!(file.trace.http_status));
        facts.insert("mime".into(), file.mime.as_str().into());
        facts.insert("bytes".into(), file.data.len().into());
        if self.hash != Hash::None {
            facts.insert(self.hash.name().into(), file.hash.as_str().into());
        }
        facts
    }
}

/// Where redirects led, without the password for it.
fn final_url(trace: &Trace) -> Option<String> {
    trace.final_url.as_deref().map(|url| mask_users(url).into_owned())
}

/// Every column of the row. The password in a URL opened it, and goes no further.
fn columns(job: &mut Job) -> Map<String, Value> {
    let mut json = Map::new();
    json.insert("key".into(), job.row.key.as_str().into());
    let mut urls = job.row.urls.iter().map(|url| Value::from(mask_users(url)));
    json.insert("url".into(), if job.row.is_list { urls.collect() } else { urls.next().unwrap_or_else(|| "".into()) });
    if let Some(caption) = &job.row.caption {
        json.insert("caption".into(), caption.as_str().into());
    }
    json.extend(std::mem::take(&mut job.row.columns));
    json
}

/// What --pass-failed tells the tools that follow.
fn failed_sample(job: &mut Job, failure: &Failure) -> Sample {
    let mut json = columns(job);
    passed::mark(&mut json, failure.code.name(), &mask_users(&failure.why));
    json.insert("http_status".into(), json!(job.trace.http_status));
    let member = Member::new("json", Value::Object(json).to_string().into_bytes());
    Sample { key: job.row.key.clone(), mtime: 0, source: job.url().into(), members: vec![member] }
}

/// The field of a file: its extension, after its number where there are several. The fields txt and
/// json are taken.
fn field(file: &File, at: usize, is_list: bool) -> String {
    let extension = match file.extension.as_str() {
        taken @ ("txt" | "json") if !is_list => format!("data.{taken}"),
        extension => extension.to_owned(),
    };
    if is_list { format!("{at}.{extension}") } else { extension }
}
