//! The archive: what a finished row becomes in it.

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use tarpipe::messages;
use tarpipe::messages::secret::mask_users;
use tarpipe::sample::failed;
use tarpipe::sample::member_name;
use tarpipe::sample::shard::Shard;
use tarpipe::sample::{Member, Sample};

use super::attempt::{File, Job};
use super::entry::final_url;
use super::failure::{Code, Failure};
use super::flags::Args;
use super::hash::Hash;
use super::schedule::Done;

/// The archive.
pub struct Output {
    /// None after it has failed: what it took on the disk is free again.
    archive: Option<Shard>,
    /// The key of the sample written last.
    last_key: Option<String>,
    hash: Hash,
    pass_failed: bool,
}

impl Output {
    pub fn create(args: &Args) -> Result<Self> {
        let archive = Some(args.output.create(&args.parallel)?);
        Ok(Output { archive, last_key: None, hash: args.hash, pass_failed: args.pass_failed })
    }

    /// Fails a row that was fetched and cannot become a sample of this archive.
    pub fn judge(&self, done: &mut Done) {
        if done.failure.is_none() {
            done.failure = self.refuse(&done.job.row.key);
        }
    }

    fn refuse(&self, key: &str) -> Option<Failure> {
        if let Err(unfit) = member_name::check_key(key) {
            return Some(Failure::lasting(Code::BadKey, unfit.to_string()));
        }
        // Readers would take the two for one sample.
        let is_repeated = self.last_key.as_deref() == Some(key);
        is_repeated.then(|| Failure::lasting(Code::DuplicateKey, format!("the sample before it has the key {key} too")))
    }

    /// Writes the sample of one row, or what --pass-failed leaves of it.
    pub fn write(&mut self, done: Done) -> Result<()> {
        let Done { mut job, failure } = done;
        let Some(failure) = failure else {
            let sample = self.sample(&mut job);
            return self.write_sample(&sample);
        };
        messages::detail(&format!("{}: {}", job.url(), failure.why));
        if failure.ends_run {
            bail!(failure.why);
        }
        if self.pass_failed && self.refuse(&job.row.key).is_none() {
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

    /// Completes the archive.
    pub fn finish(self) -> Result<()> {
        self.archive.map_or(Ok(()), |archive| archive.finish().map(drop))
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
    failed::mark(&mut json, failure.code.name(), &mask_users(&failure.why));
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
