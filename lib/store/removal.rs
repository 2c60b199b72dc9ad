//! Removes objects, many with one request where the store can do that.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures_util::stream::{self, StreamExt};
use object_store::path::Path;

use super::client::Bucket;
use super::error::explained;
use super::{ObjectLocation, runtime, split};

/// Removes objects. Those that do not exist are skipped. Fails at the first
/// that cannot be removed.
pub(crate) fn remove(names: &[String]) -> Result<()> {
    let mut by_bucket: BTreeMap<String, (Arc<Bucket>, Vec<Path>)> = BTreeMap::new();
    for name in names {
        let (scheme, bucket, _) = split(name)?;
        let object = ObjectLocation::of(name).with_context(|| name.clone())?;
        let entry = by_bucket.entry(format!("{scheme}://{bucket}"));
        entry.or_insert_with(|| (object.bucket, Vec::new())).1.push(object.path);
    }
    for (name, (bucket, paths)) in by_bucket {
        let asked = Arc::clone(&bucket);
        let answer = runtime::wait(async move {
            let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
            let mut removed = asked.store.delete_stream(paths);
            while let Some(result) = removed.next().await {
                match result {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(err) => return Err(err),
                }
            }
            Ok(())
        })?;
        explained(answer, bucket.anonymous).with_context(|| format!("{name}: cannot remove objects"))?;
    }
    Ok(())
}
