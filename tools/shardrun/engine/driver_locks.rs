//! Locks that tell shardrun and its Spark or Ray driver whether the other is alive. The driver may be a child process, a child
//! of a JVM or a process somewhere in the cluster, so the locks are files in the folder of the submission, which both can
//! see. shardrun holds `shardrun.lock`; a driver that finds it free cancels its tasks and ends. The driver holds
//! `driver.lock`. The kernel releases both however their holders end. The file `cancel` asks a driver to end.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const OWNER: &str = "shardrun.lock";
const DRIVER: &str = "driver.lock";
const CANCEL: &str = "cancel";
/// Boot id, by which the driver knows whether it runs on the same machine, where locks are always visible.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Time between two checks of a lock.
pub const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Takes `shardrun.lock`. The driver runs as long as the file stays open and locked.
pub fn own(submission: &Path) -> Result<File> {
    let path = submission.join(OWNER);
    let take = || {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        file.lock()?; // processes that check the lock hold it briefly
        file.write_all(std::fs::read(BOOT_ID).unwrap_or_default().as_slice())?;
        std::io::Result::Ok(file)
    };
    take().with_context(|| path.display().to_string())
}

/// Whether the shardrun of a submission is alive.
pub fn has_owner(submission: &Path) -> bool {
    is_locked(&submission.join(OWNER))
}

/// Whether the driver of a submission is alive.
pub fn has_driver(submission: &Path) -> bool {
    is_locked(&submission.join(DRIVER))
}

/// Asks the driver of a submission to end.
pub fn cancel(submission: &Path) -> Result<()> {
    let path = submission.join(CANCEL);
    File::create(&path).map(drop).with_context(|| path.display().to_string())
}

/// Waits until the driver of a submission has ended; false if it is still alive after `limit`.
pub fn wait_for_driver(submission: &Path, limit: Option<Duration>) -> bool {
    let started = Instant::now();
    while has_driver(submission) {
        if limit.is_some_and(|limit| started.elapsed() > limit) {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock_shared().is_err())
}
