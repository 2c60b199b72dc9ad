//! The thread that runs the requests. The async runtime is confined to it; the rest of fetch is synchronous.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Resource, getrlimit, setrlimit};
use tarpipe::http;
use tarpipe::run::pool::WorkerPanicked;
use tarpipe::run::scratch::Scratch;
use tarpipe::value::list;
use tokio::runtime::{Builder, Runtime};

use super::scheduler::{self, ScheduleChannels};
use crate::fetch::args::Args;
use crate::fetch::client::{Connector, HttpClient, Resolver};
use crate::fetch::fetcher::{Fetcher, LocalFiles, ViaCommand};
use crate::fetch::memory::ByteBudget;

/// File descriptors for other things than connections: streams, the report, name servers, programs of --via.
const OTHER_FILES: u64 = 128;
/// The least limit on open files: half of them are for connections, and the runtime itself needs a dozen.
const MIN_FILES: u64 = 32;

/// How long a blocking thread stays idle: for ever, see [`start_blocking_thread`].
const KEEP_ALIVE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The running thread.
pub struct FetchRuntime {
    thread: JoinHandle<bool>,
    /// Where programs of --via write.
    folder: Option<Scratch>,
}

impl FetchRuntime {
    /// Waits until every row is finished.
    pub fn join(self) -> Result<()> {
        let succeeded = self.thread.join().unwrap_or(false);
        if let Some(folder) = self.folder {
            folder.finish();
        }
        if succeeded { Ok(()) } else { Err(anyhow!(WorkerPanicked)) }
    }
}

/// Starts fetching.
pub fn start(args: &Args, channels: ScheduleChannels) -> Result<FetchRuntime> {
    let max_connections = max_connections(raise_file_limit())?;
    let runtime = runtime(args.io_threads)?;
    start_blocking_thread(&runtime)?;
    let create =
        || Scratch::create(Some(&std::env::temp_dir()), false).context("cannot create a temporary folder for --via");
    let folder = args.via.is_some().then(create).transpose()?;
    let fetcher = {
        let _entered = runtime.enter();
        Arc::new(fetcher(args, max_connections, folder.as_ref())?)
    };
    let budget = ByteBudget::new(args.window_bytes);
    let options = args.schedule_options();
    let run = move || {
        let scheduler = runtime.spawn(scheduler::run(options, fetcher, budget, channels));
        let succeeded = matches!(runtime.block_on(scheduler), Ok(Ok(())));
        // Not waiting for idle connections and DNS lookups.
        runtime.shutdown_background();
        succeeded
    };
    let thread = std::thread::Builder::new().name("requests".into()).spawn(run).context("cannot start a thread")?;
    Ok(FetchRuntime { thread, folder })
}

/// One thread costs the least CPU time per request: nothing moves between cores.
fn runtime(threads: usize) -> Result<Runtime> {
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = builder.worker_threads(threads).thread_keep_alive(KEEP_ALIVE).enable_all().build();
    runtime.context("cannot start the async runtime")
}

/// Starts the first thread for blocking work (local files, decoding and hashing of large bodies). tokio panics if it cannot
/// start the first one when it is needed; if further ones fail, the first serves all.
fn start_blocking_thread(runtime: &Runtime) -> Result<()> {
    let probe = std::thread::Builder::new().spawn(|| ()).context("cannot start a thread")?;
    _ = probe.join();
    runtime.spawn_blocking(|| ());
    Ok(())
}

fn fetcher(args: &Args, max_connections: usize, folder: Option<&Scratch>) -> Result<Fetcher> {
    let rules = Arc::new(args.address_rules()?);
    let proxies = http::proxies();
    let resolver = Resolver::new(&list::concat(&args.dns), Arc::clone(&rules))?;
    let connector = Connector::new(resolver, args.insecure, proxies, args.connect_timeout, max_connections);
    let client = HttpClient::new(args.request_options(rules, proxies), connector)?;
    let via = match (&args.via, folder) {
        (Some(command), Some(folder)) => {
            Some(ViaCommand::parse(command, &args.ytdlp, folder.path(), args.timeout, max_connections)?)
        }
        _ => None,
    };
    Ok(Fetcher {
        client,
        limits: args.body_limits(),
        via,
        direct: list::concat(&args.direct),
        files: args.allow_file.then(|| LocalFiles::new(args.timeout)),
        hash: args.hash,
        verify: args.verify.clone(),
        extension: args.ext.clone(),
    })
}

/// How many connections may be open at a time. Without this limit, a lack of file descriptors would look like a server that
/// cannot be reached.
fn max_connections(files: u64) -> Result<usize> {
    if files < MIN_FILES {
        bail!("the limit on open files is {files}, at least {MIN_FILES} are needed; raise it with ulimit -n");
    }
    Ok(files.saturating_sub(OTHER_FILES).clamp(files / 2, 1 << 20) as usize)
}

/// Raises the limit on open files as far as allowed, and returns it.
fn raise_file_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(65_536)
}
