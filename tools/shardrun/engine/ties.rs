//! What ties the driver of Spark or Ray to its shardrun. The driver may be a child, a child of a JVM or a process
//! somewhere in the cluster, so the ties are locks in the submission's folder, which both see: `shardrun.lock` is held by
//! shardrun, and a driver that finds it free cancels its tasks and ends; `driver.lock` is held by the driver. The kernel
//! releases both, however their holders end. The file `cancel` asks a driver to end.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const OWNER: &str = "shardrun.lock";
const DRIVER: &str = "driver.lock";
const CANCEL: &str = "cancel";
/// Tells the driver whether it runs on the same machine, where locks are always seen.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Between two looks at a lock.
pub const EVERY: Duration = Duration::from_millis(200);

/// Tells the driver of a submission to go on, for as long as the file is open and locked.
pub fn tie(submission: &Path) -> Result<File> {
    let path = submission.join(OWNER);
    let take = || {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        file.lock()?; // whoever looks at it holds it for a moment
        file.write_all(std::fs::read(BOOT).unwrap_or_default().as_slice())?;
        std::io::Result::Ok(file)
    };
    take().with_context(|| path.display().to_string())
}

/// Whether the shardrun of a submission is there.
pub fn has_owner(submission: &Path) -> bool {
    is_locked(&submission.join(OWNER))
}

/// Whether the driver of a submission is at work.
pub fn has_driver(submission: &Path) -> bool {
    is_locked(&submission.join(DRIVER))
}

/// Asks the driver of a submission to end.
pub fn cancel(submission: &Path) -> Result<()> {
    let path = submission.join(CANCEL);
    File::create(&path).map(drop).with_context(|| path.display().to_string())
}

/// Waits until no driver is at work on a submission; false when one still is after this time.
pub fn wait_for_driver(submission: &Path, limit: Option<Duration>) -> bool {
    let started = Instant::now();
    while has_driver(submission) {
        if limit.is_some_and(|limit| started.elapsed() > limit) {
            return false;
        }
        std::thread::sleep(EVERY);
    }
    true
}

fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock_shared().is_err())
}
