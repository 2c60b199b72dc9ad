//! The thread that the requests live on. tokio stays inside.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use hyper_util::client::proxy::matcher::Matcher;
use rustix::process::{Resource, getrlimit, setrlimit};
use tarpipe::run::pool::Bug;
use tarpipe::run::scratch::Scratch;
use tokio::runtime::{Builder, Runtime};

use super::attempt::Attempts;
use super::budget::Budget;
use super::connect::Connector;
use super::file::Files;
use super::flags::Args;
use super::request::Client;
use super::resolve::Resolver;
use super::schedule::{self, Ends};
use super::via::Via;

/// Files that are not connections: streams, the report, name servers, the programs of --via.
const OTHER_FILES: u64 = 128;
/// The least that may be open: half of them are connections, the engine itself has a dozen.
const FEWEST_FILES: u64 = 32;

/// Side threads stay: see [`start_side_thread`].
const FOR_GOOD: Duration = Duration::from_secs(365 * 24 * 3600);

/// The running engine.
pub struct Engine {
    thread: JoinHandle<bool>,
    folder: Option<Scratch>,
}

impl Engine {
    /// Waits until every row is done.
    pub fn join(self) -> Result<()> {
        let went_well = self.thread.join().unwrap_or(false);
        if let Some(folder) = self.folder {
            folder.finish();
        }
        if went_well { Ok(()) } else { Err(anyhow!(Bug)) }
    }
}

/// Starts to fetch.
pub fn start(args: &Args, ends: Ends) -> Result<Engine> {
    let connections = connections(open_files())?;
    let runtime = runtime(args.io_threads)?;
    start_side_thread(&runtime)?;
    let make = || Scratch::create(Some(&std::env::temp_dir()), false).context("no temporary folder for --via");
    let folder = args.via.is_some().then(make).transpose()?;
    let attempts = {
        let _inside = runtime.enter();
        Arc::new(attempts(args, connections, folder.as_ref())?)
    };
    let budget = Budget::new(args.window_bytes);
    let plan = args.plan();
    let body = move || {
        let scheduler = runtime.spawn(schedule::run(plan, attempts, budget, ends));
        let went_well = matches!(runtime.block_on(scheduler), Ok(Ok(())));
        // Idle connections and lookups need not be waited for.
        runtime.shutdown_background();
        went_well
    };
    let thread = std::thread::Builder::new().name("engine".into()).spawn(body).context("cannot start a thread")?;
    Ok(Engine { thread, folder })
}

/// One thread costs the least CPU a request: nothing moves between cores.
fn runtime(threads: usize) -> Result<Runtime> {
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = builder.worker_threads(threads).thread_keep_alive(FOR_GOOD).enable_all().build();
    runtime.context("cannot start the engine")
}

/// Files are read, and large bodies decoded and hashed, beside the thread of the connections. tokio panics where it
/// cannot start the first thread for that; one that is there serves all when no more can be had.
fn start_side_thread(runtime: &Runtime) -> Result<()> {
    let probe = std::thread::Builder::new().spawn(|| ()).context("cannot start a thread")?;
    _ = probe.join();
    runtime.spawn_blocking(|| ());
    Ok(())
}

fn attempts(args: &Args, connections: usize, folder: Option<&Scratch>) -> Result<Attempts> {
    let rules = Arc::new(args.rules()?);
    let proxies = Arc::new(Matcher::from_env());
    let resolver = Resolver::new(&args.dns, Arc::clone(&rules))?;
    let connector = Connector::new(resolver, args.insecure, Arc::clone(&proxies), args.connect_timeout, connections);
    let client = Client::new(args.request_options(rules, proxies), connector)?;
    let via = match (&args.via, folder) {
        (Some(command), Some(folder)) => {
            Some(Via::parse(command, &args.recipe, folder.path(), args.timeout, connections)?)
        }
        _ => None,
    };
    Ok(Attempts {
        client,
        limits: args.limits(),
        via,
        direct: args.direct.clone(),
        files: args.allow_file.then(|| Files::new(args.timeout)),
        hash: args.hash,
        verify: args.verify.clone(),
        extension: args.ext.clone(),
    })
}

/// How many connections may be open. One that finds no descriptor would look like a server that is away.
fn connections(files: u64) -> Result<usize> {
    if files < FEWEST_FILES {
        bail!("only {files} files may be open at once, and {FEWEST_FILES} are needed: raise the limit with ulimit -n");
    }
    Ok(files.saturating_sub(OTHER_FILES).clamp(files / 2, 1 << 20) as usize)
}

/// Raises the limit on open files as far as it goes, and says how far that is.
fn open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(65_536)
}
