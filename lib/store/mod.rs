//! Object stores: `s3://BUCKET/KEY`, `gs://BUCKET/KEY` and `az://CONTAINER/KEY`, read and written as
//! plain streams.
//!
//! Nothing here starts before a store's name is opened; then one runtime is, and what is
//! asynchronous stays inside this module.

mod aws;
mod client;
mod download;
mod error;
mod instance;
mod keys;
mod listing;
mod profile;
mod record;
mod runtime;
mod telling;
mod upload;

use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail};
use object_store::path::Path;

pub(crate) use download::{Download, prefetch};
pub(crate) use listing::{expand, is_pattern, list};
pub(crate) use upload::Upload;

use client::Bucket;

static ENDPOINT: OnceLock<String> = OnceLock::new();

/// Has all stores asked at this address instead of the vendor's. The first call counts.
pub fn set_endpoint(url: String) {
    _ = ENDPOINT.set(url);
}

/// The address that all stores are asked at, should it not be the vendor's.
pub fn endpoint() -> Option<&'static str> {
    ENDPOINT.get().map(String::as_str)
}

/// Where an object is, or would be.
#[derive(Clone)]
struct Place {
    bucket: Arc<Bucket>,
    path: Path,
}

impl Place {
    fn of(name: &str) -> Result<Self> {
        let (scheme, bucket, key) = split(name)?;
        if key.is_empty() || key.ends_with('/') {
            bail!("names no object, but all below it");
        }
        let path = Path::parse(key).ok().filter(|path| path.as_ref() == key);
        let path = path.context("keys with empty parts, '.' or '..' between their slashes are not supported")?;
        Ok(Place { bucket: client::bucket(scheme, bucket)?, path })
    }
}

/// Scheme, bucket and key of a name; the key may be empty.
fn split(name: &str) -> Result<(&str, &str, &str)> {
    let (scheme, rest) = name.split_once("://").context("no name of an object")?;
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        bail!("names no bucket");
    }
    Ok((scheme, bucket, key))
}
