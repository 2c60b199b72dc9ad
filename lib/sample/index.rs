//! Indexes of a shard for random access: DALI's text format and WIDS' JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::sample::stream::Passing;

/// The index of one shard, sample by sample.
#[derive(Debug, Default)]
pub struct Index {
    lines: Vec<String>,
}

impl Index {
    /// Begins the next sample.
    pub fn begin(&mut self) {
        self.lines.push(String::new());
    }

    /// Notes a member of the current sample.
    pub fn add(&mut self, member: &Passing<'_>) {
        let Some(line) = self.lines.last_mut() else { return };
        let space = if line.is_empty() { "" } else { " " };
        let path = String::from_utf8_lossy(&member.entry.path);
        _ = write!(line, "{space}{} {} {} {path}", member.field, member.data_offset, member.entry.size);
    }

    /// The file that DALI's `fn.readers.webdataset` takes as `index_paths`: a version, the number
    /// of samples, and for each sample its members as `field offset size name`.
    pub fn dali(&self) -> String {
        let mut text = format!("v1.2 {}\n", self.lines.len());
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// The name of what stands beside a shard: `a.b.tar` has `a.idx`, as DALI's own wds2idx names it.
pub fn sidecar(shard: &str, suffix: &str) -> String {
    let base_at = shard.rfind('/').map_or(0, |slash| slash + 1);
    let dot = shard[base_at..].find('.').map_or(shard.len(), |dot| base_at + dot);
    format!("{}.{suffix}", &shard[..dot])
}

/// One shard as an entry of a WIDS index.
pub fn wids_shard(url: &str, samples: u64, bytes: u64, sha256: &str) -> Value {
    json!({"url": url, "nsamples": samples, "filesize": bytes, "sha256": sha256})
}

/// A dataset as WIDS describes it.
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
