//! What is in a bucket: all that starts with a prefix, all that a pattern matches.

use anyhow::{Context, Result, bail};
use glob::{MatchOptions, Pattern};
use object_store::ObjectMeta;
use object_store::list::{PaginatedListOptions, PaginatedListResult};

use super::error::explained;
use super::{client, runtime, split};
use crate::location;

/// Wildcards that stop at slashes, as in a shell.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// Whether a name stands for several objects: it has a wildcard, or ends with a slash.
pub(crate) fn is_pattern(name: &str) -> bool {
    location::is_object(name)
        && split(name).is_ok_and(|(_, _, key)| first_wildcard(key).is_some() || key.ends_with('/'))
}

/// The names that a pattern matches, or all below a name that ends with a slash, sorted. None at
/// all is an error.
pub(crate) fn expand(name: &str) -> Result<Vec<String>> {
    let (scheme, bucket, key) = split(name)?;
    let start = first_wildcard(key).unwrap_or(key.len());
    let (prefix, rest) = key.split_at(start);
    // A pattern that ends in the same folder does not look into those below.
    let delimiter = (!rest.is_empty() && !rest.contains('/')).then_some("/");
    let mut keys: Vec<String> =
        list_keys(scheme, bucket, prefix, delimiter)?.into_iter().map(|found| found.0).collect();
    if !rest.is_empty() {
        let pattern = Pattern::new(key)?;
        keys.retain(|key| pattern.matches_with(key, MATCHING));
    }
    keys.retain(|key| !key.ends_with('/')); // folders that some tools mark by empty objects
    if keys.is_empty() {
        bail!("no object there");
    }
    keys.sort_unstable();
    Ok(keys.into_iter().map(|key| format!("{scheme}://{bucket}/{key}")).collect())
}

/// Names and sizes of all objects whose names start with `prefix`: one listing, a request for each
/// thousand of them.
pub(crate) fn list(prefix: &str) -> Result<Vec<(String, u64)>> {
    let (scheme, bucket, key) = split(prefix)?;
    let found = list_keys(scheme, bucket, key, None)?;
    Ok(found.into_iter().map(|(key, size)| (format!("{scheme}://{bucket}/{key}"), size)).collect())
}

fn first_wildcard(key: &str) -> Option<usize> {
    key.find(['*', '?', '['])
}

fn list_keys(scheme: &str, bucket: &str, prefix: &str, delimiter: Option<&'static str>) -> Result<Vec<(String, u64)>> {
    let bucket = client::bucket(scheme, bucket)?;
    let (mut found, mut page) = (Vec::new(), None);
    loop {
        let options = PaginatedListOptions {
            delimiter: delimiter.map(Into::into),
            page_token: page,
            ..PaginatedListOptions::default()
        };
        let (asked, prefix) = (std::sync::Arc::clone(&bucket), prefix.to_owned());
        let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
        let answer = runtime::wait(async move { asked.store.list_paginated(prefix.as_deref(), options).await })?;
        let PaginatedListResult { result, page_token } = explained(answer, bucket.anonymous).context("cannot list")?;
        found.extend(result.objects.into_iter().map(|ObjectMeta { location, size, .. }| (location.to_string(), size)));
        page = page_token;
        if page.is_none() {
            return Ok(found);
        }
    }
}
