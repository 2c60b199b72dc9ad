//! Index files of shards for random access, in the formats of DALI and WIDS.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::sample::stream::MemberView;

/// Collects the index of one shard while it is written. Holds one line of text
/// per sample in memory.
///
/// ```
/// use tarpipe::sample::index::Index;
///
/// let mut index = Index::default();
/// index.begin(); // for each sample; Index::add for each of its members
/// assert_eq!(index.dali(), "v1.2 1\n\n");
/// ```
#[derive(Debug, Default)]
pub struct Index {
    lines: Vec<String>,
}

impl Index {
    /// Begins the next sample.
    pub fn begin(&mut self) {
        self.lines.push(String::new());
    }

    /// Adds a member to the current sample. Does nothing before the first
    /// [`Index::begin`].
    pub fn add(&mut self, member: &MemberView<'_>) {
        let Some(line) = self.lines.last_mut() else { return };
        let space = if line.is_empty() { "" } else { " " };
        let path = String::from_utf8_lossy(&member.entry.path);
        _ = write!(line, "{space}{} {} {} {path}", member.field, member.data_offset, member.entry.size);
    }

    /// The file that DALI's `fn.readers.webdataset` accepts as `index_paths`: a
    /// version and the number of samples, then one line per sample with its
    /// members as `field offset size name`. Offsets are those of the data in
    /// the uncompressed shard.
    pub fn dali(&self) -> String {
        let mut text = format!("v1.2 {}\n", self.lines.len());
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// The name of a file that accompanies a shard: `a.idx` for `a.b.tar`, as
/// DALI's own `wds2idx` names it.
///
/// ```
/// use tarpipe::sample::index::sidecar;
///
/// assert_eq!(sidecar("set/train-0001.tar.gz", "idx"), "set/train-0001.idx");
/// ```
pub fn sidecar(shard: &str, suffix: &str) -> String {
    let base_at = shard.rfind('/').map_or(0, |slash| slash + 1);
    let dot = shard[base_at..].find('.').map_or(shard.len(), |dot| base_at + dot);
    format!("{}.{suffix}", &shard[..dot])
}

/// The entry of one shard in a WIDS index.
pub fn wids_shard(url: &str, samples: u64, bytes: u64, sha256: &str) -> Value {
    json!({"url": url, "nsamples": samples, "filesize": bytes, "sha256": sha256})
}

/// The WIDS index of a dataset; `shards` are made by [`wids_shard`].
pub fn wids(name: &str, shards: &[Value]) -> Value {
    json!({"wids_version": 1, "name": name, "shardlist": shards})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecars_are_named_after_their_shards() {
        assert_eq!(sidecar("a/b-0001.tar", "idx"), "a/b-0001.idx");
        assert_eq!(sidecar("a.d/b.tar.gz", "stats.json"), "a.d/b.stats.json");
        assert_eq!(sidecar("plain", "idx"), "plain.idx");
    }
}
