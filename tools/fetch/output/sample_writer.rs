//! Writes finished rows to the archive, each as one sample.

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use tarpipe::messages;
use tarpipe::messages::secret::mask_users;
use tarpipe::sample::failed;
use tarpipe::sample::member_name;
use tarpipe::sample::shard::ShardWriter;
use tarpipe::sample::{Member, Sample};

use super::report_row::final_url;
use crate::fetch::args::Args;
use crate::fetch::content::HashAlgorithm;
use crate::fetch::failure::{FailureCode, FetchFailure};
use crate::fetch::fetcher::{FetchJob, FetchedFile, FinishedRow};

/// The archive, and what is needed to check the next sample.
pub struct SampleWriter {
    /// None after an error: its space on the disk is free again.
    archive: Option<ShardWriter>,
    /// The key of the previous sample.
    last_key: Option<String>,
    hash: HashAlgorithm,
    pass_failed: bool,
}

impl SampleWriter {
    pub fn create(args: &Args) -> Result<Self> {
        let archive = Some(args.output.create(&args.parallel)?);
        Ok(SampleWriter { archive, last_key: None, hash: args.hash, pass_failed: args.pass_failed })
    }

    /// Fails a fetched row whose key cannot be used.
    pub fn validate(&self, finished: &mut FinishedRow) {
        if finished.failure.is_none() {
            finished.failure = self.key_failure(&finished.job.row.key);
        }
    }

    fn key_failure(&self, key: &str) -> Option<FetchFailure> {
        if let Err(invalid) = member_name::check_key(key) {
            return Some(FetchFailure::permanent(FailureCode::BadKey, invalid.to_string()));
        }
        // Readers would merge the two samples.
        let is_repeated = self.last_key.as_deref() == Some(key);
        is_repeated.then(|| {
            FetchFailure::permanent(FailureCode::DuplicateKey, format!("the previous sample has the same key {key}"))
        })
    }

    /// Writes the sample of a row. A failed row is written only with --pass-failed, and ends the run if it is fatal.
    pub fn write(&mut self, finished: FinishedRow) -> Result<()> {
        let FinishedRow { mut job, failure } = finished;
        let Some(failure) = failure else {
            let sample = self.sample(&mut job);
            return self.write_sample(&sample);
        };
        messages::detail(&format!("{}: {}", job.url(), failure.message));
        if failure.is_fatal {
            bail!(failure.message);
        }
        if self.pass_failed && self.key_failure(&job.row.key).is_none() {
            return self.write_sample(&failed_sample(&mut job, &failure));
        }
        Ok(())
    }

    fn write_sample(&mut self, sample: &Sample) -> Result<()> {
        let Some(archive) = &mut self.archive else { return Ok(()) };
        let written = archive.write(sample);
        match written {
            Ok(()) => self.last_key = Some(sample.key.clone()),
            Err(_) => self.archive = None,
        }
        written
    }

    pub fn finish(self) -> Result<()> {
        self.archive.map_or(Ok(()), |archive| archive.finish().map(drop))
    }

    fn sample(&self, job: &mut FetchJob) -> Sample {
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

    /// The columns of the row, then the outcome of the request, which wins if names clash.
    fn json(&self, job: &mut FetchJob) -> Map<String, Value> {
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

    fn facts(&self, file: &FetchedFile) -> Map<String, Value> {
        let mut facts = Map::new();
        facts.insert("final_url".into(), json!(final_url(&file.trace)));
        facts.insert("http_status".into(), json!(file.trace.http_status));
        facts.insert("mime".into(), file.mime.as_str().into());
        facts.insert("bytes".into(), file.data.len().into());
        if self.hash != HashAlgorithm::None {
            facts.insert(self.hash.name().into(), file.hash.as_str().into());
        }
        facts
    }
}

/// The columns of the row. Passwords in URLs are masked.
fn columns(job: &mut FetchJob) -> Map<String, Value> {
    let mut json = Map::new();
    json.insert("key".into(), job.row.key.as_str().into());
    let mut urls = job.row.urls.iter().map(|url| Value::from(mask_users(&url.text)));
    json.insert("url".into(), if job.row.is_list { urls.collect() } else { urls.next().unwrap_or_else(|| "".into()) });
    if let Some(caption) = &job.row.caption {
        json.insert("caption".into(), caption.as_str().into());
    }
    json.extend(std::mem::take(&mut job.row.columns));
    json
}

/// The sample of a failed row, for --pass-failed.
fn failed_sample(job: &mut FetchJob, failure: &FetchFailure) -> Sample {
    let mut json = columns(job);
    failed::mark(&mut json, failure.code.name(), &mask_users(&failure.message));
    json.insert("http_status".into(), json!(job.trace.http_status));
    let member = Member::new("json", Value::Object(json).to_string().into_bytes());
    Sample { key: job.row.key.clone(), mtime: 0, source: job.url().into(), members: vec![member] }
}

/// The field of a file: its extension, preceded by its number if the row has a list of URLs. The fields txt and json are
/// reserved for the caption and the columns.
fn field(file: &FetchedFile, at: usize, is_list: bool) -> String {
    let extension = match file.extension.as_str() {
        reserved @ ("txt" | "json") if !is_list => format!("data.{reserved}"),
        extension => extension.to_owned(),
    };
    if is_list { format!("{at}.{extension}") } else { extension }
}
