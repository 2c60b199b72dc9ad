//! The tokio runtime of the stores, started when the first name of a store is
//! opened.

use std::fs::File;
use std::future::Future;
use std::io;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// Two threads suffice for hashing and copying at the speed of a fast network.
const THREADS: usize = 2;

/// Starts the runtime on first use.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STARTING.lock();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    expect_descriptors().context("cannot reach a store")?;
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS));
    let built = Builder::new_multi_thread().worker_threads(threads).thread_name("store").enable_all().build();
    let built = built.context("cannot start threads")?;
    Ok(RUNTIME.get_or_init(|| built))
}

/// Checks that there are file descriptors left: tokio panics if it cannot get
/// the ones it needs.
fn expect_descriptors() -> io::Result<()> {
    let taken: io::Result<Vec<File>> = (0..8).map(|_| File::open("/dev/null")).collect();
    taken.map(drop)
}

/// Starts a task in the background.
pub(super) fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> Result<JoinHandle<T>> {
    Ok(runtime()?.spawn(task))
}

/// Runs a task to its end and returns its result. Unlike tokio's `block_on` it
/// can be called from any thread, those of another runtime included.
pub(super) fn wait<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    spawn(async move { _ = sender.send(task.await) })?;
    receiver.recv().map_err(|_| anyhow!("the store client panicked"))
}
