//! What loaders would make of shards: for each loader of --for, where it fails and which samples it loses.
//!
//! The rules are those of the loaders' sources; tests/loaders holds them against the real loaders.

mod arrays;
mod content;
mod json_types;
pub mod names;
mod schema;
mod view;

use std::str::FromStr;

use tarpipe::archive::{ArchiveEntry, EntryKind};
use tarpipe::compression::CompressionFormat;

pub use schema::{FieldSets, check_schema};
pub use view::{LoaderMember, LoaderResult, LoaderView};

/// A loader that --for can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loader {
    Hf,
    Webdataset,
    Energon,
    Wids,
    Ray,
}

/// In the order of [`Loader`].
const NAMES: [&str; 5] = ["hf", "webdataset", "energon", "wids", "ray"];

impl FromStr for Loader {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        use Loader::{Energon, Hf, Ray, Webdataset, Wids};
        let known = [Hf, Webdataset, Energon, Wids, Ray].into_iter().find(|loader| loader.name() == name);
        known.ok_or_else(|| format!("unknown loader (known: {})", NAMES.join(", ")))
    }
}

impl Loader {
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// Whether it reads shards that are compressed so.
    fn reads(self, compression: CompressionFormat) -> bool {
        !compression.loaders_without().contains(&self.name())
    }

    /// Whether it reads a shard of this name at all.
    fn finds(self, shard: &str) -> bool {
        match self {
            Loader::Energon => shard.ends_with(".tar") || shard.ends_with(".tgz"),
            Loader::Hf | Loader::Webdataset | Loader::Wids | Loader::Ray => true,
        }
    }

    /// Whether it looks at a member at all. The others are skipped silently.
    fn sees(self, entry: &ArchiveEntry, path: &str) -> bool {
        let base = path.rsplit('/').next().unwrap_or(path);
        let regular = match self {
            Loader::Wids => entry.kind == EntryKind::File,
            _ => matches!(entry.kind, EntryKind::File | EntryKind::Sparse),
        };
        regular
            && match self {
                Loader::Hf => !base.starts_with('.') && !base.starts_with("__"),
                Loader::Webdataset | Loader::Energon => !names::is_metadata(path),
                Loader::Ray | Loader::Wids => true,
            }
    }

    /// Key and field of a member; None if it skips the member.
    fn split(self, path: &str) -> Option<(&str, &str)> {
        match self {
            Loader::Wids => names::by_wids(path),
            _ => names::by_webdataset(path),
        }
    }

    /// Whether two fields that differ only in case are one.
    fn folds_case(self) -> bool {
        self == Loader::Webdataset
    }

    /// Whether a repeated field in a sample is an error. The others keep the last one.
    fn refuses_repeated_fields(self) -> bool {
        matches!(self, Loader::Hf | Loader::Webdataset | Loader::Ray)
    }

    /// Whether it refuses a key that comes again: in the same shard, in another one.
    pub fn refuses_repeated_key(self, in_another_shard: bool) -> bool {
        match self {
            Loader::Energon => true,
            Loader::Ray => !in_another_shard,
            Loader::Hf | Loader::Webdataset | Loader::Wids => false,
        }
    }

    /// Whether it decodes this field, so that the data is needed.
    pub fn decodes(self, field: &str, size: u64) -> bool {
        content::is_decoded(self, field, size)
    }

    /// Whether it fails on a shard without samples.
    fn refuses_empty_shards(self, is_first: bool) -> bool {
        self == Loader::Energon || (self == Loader::Hf && is_first)
    }
}
