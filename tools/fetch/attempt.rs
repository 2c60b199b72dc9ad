//! One attempt at one file of a row, by whichever way its URL asks for, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use tarpipe::sample::Member;
use tokio::time::Instant;
use url::Url;

use super::body::Limits;
use super::budget::{Budget, Held};
use super::failure::{Code, Failure};
use super::file::Files;
use super::hash::Hash;
use super::kind;
use super::promise;
use super::request::{Client, Trace};
use super::row::Row;
use super::via::Via;
use super::ytdlp::Fetched;

/// Bytes whose hash takes a millisecond or more.
const LARGE: usize = 1 << 20;

/// A row on its way: what has been fetched of it and what it took.
pub struct Job {
    pub row: Row,
    pub files: Vec<File>,
    /// Of the latest attempt.
    pub trace: Trace,
    /// Over all its URLs.
    pub attempts: u32,
    /// At the present URL.
    pub tries: u32,
    /// Time spent in attempts, not between them.
    pub spent: Duration,
    /// The latest attempt.
    pub began: Instant,
    at: usize,
    held: Held,
}

/// A file that was fetched.
pub struct File {
    pub data: Vec<u8>,
    /// What came with it, by field.
    pub extras: Vec<Member>,
    pub extension: String,
    pub mime: String,
    pub hash: String,
    pub trace: Trace,
}

impl Job {
    pub fn new(row: Row, budget: &Arc<Budget>) -> Self {
        let held = Held::new(budget, row.index);
        Job {
            row,
            files: Vec::new(),
            trace: Trace::default(),
            attempts: 0,
            tries: 0,
            spent: Duration::ZERO,
            began: Instant::now(),
            at: 0,
            held,
        }
    }

    /// The URL that is being fetched, was last, or failed.
    pub fn url(&self) -> &str {
        self.row.url(self.at)
    }

    /// The host that this attempt is for, however its URL spells it; what has none shares an empty name.
    pub fn host(&self) -> String {
        let Ok(url) = Url::parse(self.url()) else { return String::new() };
        let name = url.host_str().unwrap_or_default();
        // The default port of the scheme is not told.
        url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
    }

    /// Whether the row has URLs after the present one.
    pub fn has_more(&self) -> bool {
        self.at + 1 < self.row.urls.len()
    }

    /// Goes on to the next URL.
    pub fn advance(&mut self) {
        self.at += 1;
        self.tries = 0;
    }

    /// A number from 0 to 1 that differs from row to row and is the same in every run.
    pub fn jitter(&self) -> f64 {
        let mixed = (self.row.index + u64::from(self.attempts)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as f64 / f64::from(1 << 24)
    }

    /// The row is done and only has to be written.
    pub fn leave(&mut self) {
        self.held.leave();
    }

    /// Lets go of what a failed row had fetched.
    pub fn drop_files(&mut self) {
        self.files.clear();
        self.held.shrink_to(0);
    }
}

/// All ways to fetch a file.
pub struct Attempts {
    pub client: Client,
    pub limits: Limits,
    pub via: Option<Via>,
    /// Extensions of URLs that are requested all the same.
    pub direct: Vec<String>,
    /// None where file URLs are not allowed.
    pub files: Option<Files>,
    pub hash: Hash,
    /// The column with the hash that a file must have.
    pub verify: Option<String>,
    pub extension: Option<String>,
}

impl Attempts {
    /// Fetches the present URL of the job and keeps the file in it.
    pub async fn run(&self, job: &mut Job) -> Result<(), Failure> {
        job.began = Instant::now();
        job.attempts += 1;
        job.tries += 1;
        job.trace = Trace::default();
        let before = job.held.bytes();
        let result = self.fetch(job).await;
        job.spent += job.began.elapsed();
        let result = match result {
            // It has a hash too, and not the right one.
            Err(failure) if failure.code == Code::Empty => self.verify(self.hash.of(&[]), job).and(Err(failure)),
            Err(failure) => Err(failure),
            Ok(fetched) => self.examine(fetched, job).await,
        };
        match result {
            Ok(file) => {
                job.files.push(file);
                Ok(())
            }
            Err(failure) => {
                job.held.shrink_to(before);
                Err(failure)
            }
        }
    }

    /// What is rare is boxed: every request would carry its size.
    async fn fetch(&self, job: &mut Job) -> Result<Fetched, Failure> {
        let url =
            Url::parse(job.row.url(job.at).trim()).map_err(|err| Failure::lasting(Code::BadUrl, err.to_string()))?;
        if url.scheme() == "file" {
            return Box::pin(self.read_file(&url, &mut job.held)).await.map(Fetched::from);
        }
        match self.via.as_ref().filter(|_| !self.is_direct(&url)) {
            Some(via) => {
                Box::pin(self.client.check_host(&url)).await?;
                job.trace.final_url = Some(url.to_string());
                Box::pin(via.get(url.as_str(), &job.row.columns, &self.limits, &mut job.held)).await
            }
            None => self.client.get(&url, &mut job.held, &mut job.trace).await.map(Fetched::from),
        }
    }

    fn is_direct(&self, url: &Url) -> bool {
        let extension = url.path().rsplit_once('.').map_or("", |(_, extension)| extension);
        self.direct.iter().any(|direct| direct.eq_ignore_ascii_case(extension))
    }

    async fn read_file(&self, url: &Url, held: &mut Held) -> Result<Vec<u8>, Failure> {
        let Some(files) = &self.files else {
            return Err(Failure::lasting(Code::BadUrl, "file URLs are read only with --allow-file"));
        };
        let path = url.to_file_path().map_err(|()| Failure::lasting(Code::BadUrl, "not the URL of a local file"))?;
        let data = files.read(path, &self.limits, held).await?;
        self.limits.check_size(data.len() as u64)?;
        self.limits.check_type(&data, &hyper::HeaderMap::new())?;
        Ok(data)
    }

    async fn examine(&self, fetched: Fetched, job: &Job) -> Result<File, Failure> {
        let Fetched { data, extras } = fetched;
        promise::check(self.extension.as_deref(), job.url(), &data, job.trace.mime.as_deref())?;
        let (data, hash) = self.hash(data).await?;
        let hash = self.verify(hash, job)?;
        let claimed = job.trace.mime.as_deref();
        let extension = self.extension.clone().unwrap_or_else(|| kind::extension(&data, claimed));
        let mime = kind::mime(&data, claimed);
        Ok(File { data, extras, extension, mime, hash, trace: job.trace.clone() })
    }

    /// Takes the hash of a body; that of a large one beside the thread of the connections.
    async fn hash(&self, data: Vec<u8>) -> Result<(Vec<u8>, String), Failure> {
        let hash = self.hash;
        if data.len() < LARGE {
            let taken = hash.of(&data);
            return Ok((data, taken));
        }
        let beside = tokio::task::spawn_blocking(move || (hash.of(&data), data));
        let (taken, data) = beside.await.map_err(|_| Failure::lasting(Code::Interrupted, "interrupted"))?;
        Ok((data, taken))
    }

    /// The hash of a body, once it is the one that the row asks for.
    fn verify(&self, hash: String, job: &Job) -> Result<String, Failure> {
        let Some(column) = &self.verify else { return Ok(hash) };
        let expected = job.row.columns.get(column).and_then(|value| value.as_str()).unwrap_or_default();
        if expected.trim().eq_ignore_ascii_case(&hash) {
            return Ok(hash);
        }
        Err(Failure::lasting(Code::HashMismatch, format!("{} is {hash}, not '{expected}'", self.hash.name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_however_it_is_spelt() {
        let budget = Budget::new(1);
        let host = |url: &str| Job::new(Row::parse(0, 0, url.as_bytes()), &budget).host();
        for url in ["http://h.test/a", "http://H.test:80/b", "https://h.test:443/", "http://me:pw@h.test?x"] {
            assert_eq!(host(url), "h.test", "{url}");
        }
        assert_eq!(host("http://h.test:8080/"), "h.test:8080");
        assert_eq!(host("http://b\u{fc}cher.test/"), host("http://xn--bcher-kva.test/"));
        assert_eq!(host("file:/etc/hosts"), "");
    }
}
