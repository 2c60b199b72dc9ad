//! Traces of uploads that a kill left behind. A server keeps the parts of an upload that nobody
//! completes, unseen and charged for; so each has a record on this host, locked while its
//! writer lives, and the next run aborts what it finds unlocked.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use serde_json::{Value, json};

use rustix::fs::OFlags;

use super::{Place, endpoint, upload};
use crate::run::owner;

const PREFIX: &str = ".tarpipe-";
const SUFFIX: &str = ".upload";
/// Until it is locked and whole.
const UNSEEN: &str = ".new";
/// Where nothing else tells whether the writer of a record lives, it is dead after so long: longer than any upload
/// takes, as aborting one that lives would lose it.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3600);

const NONBLOCK: i32 = OFlags::NONBLOCK.bits() as i32;

/// The record of a live upload.
pub(super) struct Record {
    path: PathBuf,
    _locked: File,
}

impl Record {
    /// None where there is no room for it: an upload does not fail for that.
    pub(super) fn write(name: &str, id: &str) -> Option<Self> {
        let path = std::env::temp_dir().join(format!("{PREFIX}{}{SUFFIX}", owner::unique()));
        let unseen = path.with_extension(&UNSEEN[1..]);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unseen).ok()?;
        _ = file.try_lock();
        let text = json!({ "name": name, "id": id, "at": address() }).to_string();
        let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&unseen, &path));
        if written.is_err() {
            _ = fs::remove_file(&unseen);
            return None;
        }
        Some(Record { path, _locked: file })
    }

    pub(super) fn remove(self) {
        _ = fs::remove_file(&self.path);
    }
}

/// Aborts the uploads of killed runs; once a run, for it is a listing.
pub(super) fn abort_abandoned() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
            if let Some(unique) = name.strip_suffix(SUFFIX).or_else(|| name.strip_suffix(UNSEEN)) {
                _ = abort_one(&entry.path(), unique);
            }
        }
    });
}

/// None when the record is another user's, belongs to a live run, or cannot be acted on.
fn abort_one(path: &Path, unique: &str) -> Option<()> {
    // A fifo of that name must not make us wait.
    let mut file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path).ok()?;
    let found = file.metadata().ok()?;
    let is_ours = found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || !owner::is_abandoned(unique, &file, ABANDONED) {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let Ok(record) = serde_json::from_str::<Value>(&text) else {
        return fs::remove_file(path).ok(); // its writer died while it wrote
    };
    let (name, id) = (record["name"].as_str()?, record["id"].as_str()?);
    if record["at"] != json!(address()) {
        return None;
    }
    match upload::abort(Place::of(name).ok()?, id.to_owned()) {
        Err(_) => None,
        Ok(()) => fs::remove_file(path).ok(),
    }
}

/// What makes two stores with buckets of one name different.
fn address() -> Vec<String> {
    let variables = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_PROFILE", "AZURE_STORAGE_ACCOUNT_NAME"];
    let asked = endpoint().unwrap_or_default().to_owned();
    std::iter::once(asked).chain(variables.map(|name| std::env::var(name).unwrap_or_default())).collect()
}
