//! Fetches the files of a row, each by the method that its URL calls for: an HTTP request, a local file, or the program of
//! `--via`. Then checks, hashes and names what was fetched.

mod job;
mod local_file;
mod supervise;
mod via_command;
pub mod ytdlp;

pub use job::{FetchJob, FetchedFile, FinishedRow};
pub use local_file::LocalFiles;
pub use via_command::ViaCommand;

use tarpipe::media_type;
use tarpipe::sample::Member;
use tokio::time::Instant;
use url::Url;

use super::client::{BodyLimits, HttpClient};
use super::content::{HashAlgorithm, not_a_page};
use super::failure::{FailureCode, FetchFailure};
use super::memory::HeldBytes;

/// Bodies from this size on are hashed on another thread: it takes a millisecond or more.
const LARGE: usize = 1 << 20;

/// All methods to fetch a file, and the checks that follow.
pub struct Fetcher {
    pub client: HttpClient,
    pub limits: BodyLimits,
    pub via: Option<ViaCommand>,
    /// Extensions of URLs that are requested directly, despite `--via`.
    pub direct: Vec<String>,
    /// None if file URLs are not allowed.
    pub files: Option<LocalFiles>,
    pub hash: HashAlgorithm,
    /// The column with the expected hash.
    pub verify: Option<String>,
    /// The extension for all files, instead of the detected one.
    pub extension: Option<String>,
}

/// What one URL gave.
pub struct FetchedData {
    pub data: Vec<u8>,
    /// Further members of the sample, such as subtitles.
    pub extras: Vec<Member>,
}

impl From<Vec<u8>> for FetchedData {
    fn from(data: Vec<u8>) -> Self {
        FetchedData { data, extras: Vec::new() }
    }
}

impl Fetcher {
    /// Makes one attempt at the job's current URL and adds the file to the job.
    pub async fn attempt(&self, job: &mut FetchJob) -> Result<(), FetchFailure> {
        job.start_attempt(Instant::now());
        let held_before = job.held.bytes();
        let result = self.download(job).await;
        job.spent += job.started.elapsed();
        let result = match result {
            // An empty body is a hash mismatch first, if the row expects another hash.
            Err(failure) if failure.code == FailureCode::Empty => self.verify(self.hash.of(&[]), job).and(Err(failure)),
            Err(failure) => Err(failure),
            Ok(fetched) => self.inspect(fetched, job).await,
        };
        match result {
            Ok(file) => {
                job.files.push(file);
                Ok(())
            }
            Err(failure) => {
                job.held.shrink_to(held_before);
                Err(failure)
            }
        }
    }

    /// The rare methods are boxed: otherwise the future of every request would be as large as theirs.
    async fn download(&self, job: &mut FetchJob) -> Result<FetchedData, FetchFailure> {
        let FetchJob { row, held, trace, .. } = job;
        let missing = || FetchFailure::permanent(FailureCode::BadUrl, "missing URL");
        let url = row.urls.get(job.url_index).ok_or_else(missing)?.parsed()?;
        if url.scheme() == "file" {
            return Box::pin(self.read_file(url, held)).await.map(FetchedData::from);
        }
        match self.via.as_ref().filter(|_| !self.is_direct(url)) {
            Some(via) => {
                Box::pin(self.client.check_host(url)).await?;
                trace.final_url = Some(url.to_string());
                Box::pin(via.fetch(url.as_str(), &row.columns, &self.limits, held)).await
            }
            None => self.client.get(url, held, trace).await.map(FetchedData::from),
        }
    }

    fn is_direct(&self, url: &Url) -> bool {
        let extension = url.path().rsplit_once('.').map_or("", |(_, extension)| extension);
        self.direct.iter().any(|direct| direct.eq_ignore_ascii_case(extension))
    }

    async fn read_file(&self, url: &Url, held: &mut HeldBytes) -> Result<Vec<u8>, FetchFailure> {
        let bad_url = |message: &str| FetchFailure::permanent(FailureCode::BadUrl, message);
        let Some(files) = &self.files else {
            return Err(bad_url("file: URLs are not allowed; use --allow-file"));
        };
        let path = url.to_file_path().map_err(|()| bad_url("not the URL of a local file"))?;
        let data = files.read(path, &self.limits, held).await?;
        self.limits.check_size(data.len() as u64)?;
        self.limits.check_type(&data, &hyper::HeaderMap::new())?;
        Ok(data)
    }

    /// Checks what was fetched and determines its type, extension and hash.
    async fn inspect(&self, fetched: FetchedData, job: &FetchJob) -> Result<FetchedFile, FetchFailure> {
        let FetchedData { data, extras } = fetched;
        let content_type = job.trace.mime.as_deref();
        not_a_page::check(self.extension.as_deref(), job.url(), &data, content_type)?;
        let (data, hash) = self.hash(data).await?;
        let hash = self.verify(hash, job)?;
        let extension = self.extension.clone().unwrap_or_else(|| media_type::extension(&data, content_type));
        let mime = media_type::mime(&data, content_type);
        Ok(FetchedFile { data, extras, extension, mime, hash, trace: job.trace.clone() })
    }

    async fn hash(&self, data: Vec<u8>) -> Result<(Vec<u8>, String), FetchFailure> {
        let algorithm = self.hash;
        if data.len() < LARGE {
            let hash = algorithm.of(&data);
            return Ok((data, hash));
        }
        let hashing = tokio::task::spawn_blocking(move || (algorithm.of(&data), data));
        let interrupted = |_| FetchFailure::permanent(FailureCode::Interrupted, "interrupted");
        let (hash, data) = hashing.await.map_err(interrupted)?;
        Ok((data, hash))
    }

    /// Returns the hash if it is the one that the row expects.
    fn verify(&self, hash: String, job: &FetchJob) -> Result<String, FetchFailure> {
        let Some(column) = &self.verify else { return Ok(hash) };
        let expected = job.row.columns.get(column).and_then(|value| value.as_str()).unwrap_or_default();
        if expected.trim().eq_ignore_ascii_case(&hash) {
            return Ok(hash);
        }
        let message = format!("{} is {hash}, expected '{expected}'", self.hash.name());
        Err(FetchFailure::permanent(FailureCode::HashMismatch, message))
    }
}
