//! Markers of unfinished uploads. A server keeps the parts of an upload that is
//! never completed, invisible and charged for. Therefore each upload has a
//! marker file on this host, locked while its writer is alive, and the next run
//! aborts the uploads whose marker is not locked.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use serde_json::{Value, json};

use rustix::fs::OFlags;

use super::{ObjectLocation, endpoint, upload};
use crate::run::owner;

const PREFIX: &str = ".tarpipe-";
const SUFFIX: &str = ".upload";
/// The suffix of a marker that is not locked and complete yet.
const UNSEEN: &str = ".new";
/// If nothing else tells whether the writer of a marker is alive, it is
/// considered dead after this time: longer than any upload takes, since
/// aborting a live one would lose it.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3600);

const NONBLOCK: i32 = OFlags::NONBLOCK.bits() as i32;

/// The marker of an upload in progress.
pub(super) struct UploadMarker {
    path: PathBuf,
    _locked: File,
}

impl UploadMarker {
    /// Creates the marker in the folder for temporary files. None if that
    /// fails: an upload does not fail for it.
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
        Some(UploadMarker { path, _locked: file })
    }

    /// Removes the marker of an upload that was completed or aborted.
    pub(super) fn remove(self) {
        _ = fs::remove_file(&self.path);
    }
}

/// Aborts the uploads of killed runs. Done once per process, because it lists a
/// folder. Failures are ignored.
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

/// None if the marker is another user's, belongs to a live run, or cannot be
/// acted on.
fn abort_one(path: &Path, unique: &str) -> Option<()> {
    // A fifo of that name must not block us.
    let mut file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path).ok()?;
    let found = file.metadata().ok()?;
    let is_ours = found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || !owner::is_abandoned(unique, &file, ABANDONED) {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let Ok(record) = serde_json::from_str::<Value>(&text) else {
        return fs::remove_file(path).ok(); // its writer died while writing it
    };
    let (name, id) = (record["name"].as_str()?, record["id"].as_str()?);
    if record["at"] != json!(address()) {
        return None;
    }
    match upload::abort(ObjectLocation::of(name).ok()?, id.to_owned()) {
        Err(_) => None,
        Ok(()) => fs::remove_file(path).ok(),
    }
}

/// What distinguishes two stores that have buckets of the same name.
fn address() -> Vec<String> {
    let variables = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_PROFILE", "AZURE_STORAGE_ACCOUNT_NAME"];
    let asked = endpoint().unwrap_or_default().to_owned();
    std::iter::once(asked).chain(variables.map(|name| std::env::var(name).unwrap_or_default())).collect()
}
