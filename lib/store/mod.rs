//! Object stores: `s3://BUCKET/KEY`, `gs://BUCKET/KEY` and
//! `az://CONTAINER/KEY`, read and written as plain blocking streams.
//!
//! Clients are configured as the vendors' own tools are. The first of these
//! that provides credentials is used; without any, the bucket is accessed
//! anonymously:
//!
//! - S3: `AWS_ACCESS_KEY_ID` and the other `AWS_…` variables; the profile in
//!   `~/.aws` that `AWS_PROFILE` selects, its `credential_process`, single
//!   sign-on or role included; the role of the container or the machine.
//!   `AWS_ENDPOINT_URL` selects another server.
//! - Google: `GOOGLE_APPLICATION_CREDENTIALS` and the other `GOOGLE_…`
//!   variables; the login of gcloud; the machine's account.
//!   `STORAGE_EMULATOR_HOST` selects an emulator.
//! - Azure: the `AZURE_…` variables, of which `AZURE_STORAGE_ACCOUNT_NAME` is
//!   required; the machine's identity.
//!
//! Nothing is started before the first name of a store is opened; then one
//! tokio runtime is, and everything asynchronous stays inside of this module.
//! Requests are retried with increasing delays; each failure is reported with
//! `-v`.
//!
//! Memory is bounded: a download holds up to 32 MB ahead of its reader, an
//! upload one part of 8 MB besides the six that all uploads together send at a
//! time.

mod aws;
mod client;
mod credential_process;
mod download;
mod error;
mod listing;
mod metadata_service;
mod profile;
mod removal;
mod retry_log;
mod runtime;
mod upload;
mod upload_marker;

use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail};
use object_store::path::Path;

pub(crate) use download::{ObjectDownload, prefetch};
pub(crate) use listing::{expand, is_pattern, list};
pub(crate) use removal::remove;
pub(crate) use upload::ObjectUpload;

use client::Bucket;

static ENDPOINT: OnceLock<String> = OnceLock::new();

/// Sends the requests for all stores to this address instead of the vendor's
/// (`--endpoint-url`). Only the first call has an effect; call it before a
/// store is opened.
pub fn set_endpoint(url: String) {
    _ = ENDPOINT.set(url);
}

/// The address set by [`set_endpoint`].
pub fn endpoint() -> Option<&'static str> {
    ENDPOINT.get().map(String::as_str)
}

/// The bucket and the key of an object, which need not exist.
#[derive(Clone)]
struct ObjectLocation {
    bucket: Arc<Bucket>,
    path: Path,
}

impl ObjectLocation {
    /// Parses a name and creates the client of its bucket if necessary.
    fn of(name: &str) -> Result<Self> {
        let (scheme, bucket, key) = split(name)?;
        if key.is_empty() || key.ends_with('/') {
            bail!("is a prefix, not an object");
        }
        let path = Path::parse(key).ok().filter(|path| path.as_ref() == key);
        let path = path.context("keys with empty parts, '.' or '..' between their slashes are not supported")?;
        Ok(ObjectLocation { bucket: client::bucket(scheme, bucket)?, path })
    }
}

/// Scheme, bucket and key of a name; the key may be empty.
fn split(name: &str) -> Result<(&str, &str, &str)> {
    let (scheme, rest) = name.split_once("://").context("not the name of an object")?;
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        bail!("missing bucket name");
    }
    Ok((scheme, bucket, key))
}
