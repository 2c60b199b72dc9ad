//! Lists the objects of a bucket: those with a prefix, or those that match a
//! pattern.

use anyhow::{Context, Result, bail};
use glob::{MatchOptions, Pattern};
use object_store::ObjectMeta;
use object_store::list::{PaginatedListOptions, PaginatedListResult};

use super::error::explained;
use super::{client, runtime, split};
use crate::location;

/// Wildcards do not match slashes, as in a shell.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// Returns true if a name stands for several objects: it contains a wildcard or
/// ends with a slash.
pub(crate) fn is_pattern(name: &str) -> bool {
    location::is_object(name)
        && split(name).is_ok_and(|(_, _, key)| first_wildcard(key).is_some() || key.ends_with('/'))
}

/// The names that match a pattern, or all names below one that ends with a
/// slash, sorted. Fails if there are none.
pub(crate) fn expand(name: &str) -> Result<Vec<String>> {
    let (scheme, bucket, key) = split(name)?;
    let start = first_wildcard(key).unwrap_or(key.len());
    let (prefix, rest) = key.split_at(start);
    // If there is no slash after the first wildcard, folders below need not be listed.
    let delimiter = (!rest.is_empty() && !rest.contains('/')).then_some("/");
    let mut keys: Vec<String> =
        list_keys(scheme, bucket, prefix, delimiter)?.into_iter().map(|found| found.0).collect();
    if !rest.is_empty() {
        let pattern = Pattern::new(key)?;
        keys.retain(|key| pattern.matches_with(key, MATCHING));
    }
    keys.retain(|key| !key.ends_with('/')); // empty objects that some tools create for folders
    if keys.is_empty() {
        bail!("no matching objects");
    }
    keys.sort_unstable();
    Ok(keys.into_iter().map(|key| format!("{scheme}://{bucket}/{key}")).collect())
}

/// Names and sizes of all objects whose names start with `prefix`. Costs one
/// request per thousand objects; the result is held in memory.
pub(crate) fn list(prefix: &str) -> Result<Vec<(String, u64)>> {
    let (scheme, bucket, key) = split(prefix)?;
    let found = list_keys(scheme, bucket, key, None)?;
    Ok(found.into_iter().map(|(key, size)| (format!("{scheme}://{bucket}/{key}"), size)).collect())
}

fn first_wildcard(key: &str) -> Option<usize> {
    key.find(['*', '?', '['])
}

/// Lists one page after another.
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
