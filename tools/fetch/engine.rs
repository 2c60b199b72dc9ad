//! The thread that the requests live on. tokio stays inside.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use hyper_util::client::proxy::matcher::Matcher;
use rustix::process::{Resource, getrlimit, setrlimit};
use tarpipe::pool::Bug;
use tarpipe::signals;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::attempt::Attempts;
use super::budget::Budget;
use super::connect::Connector;
use super::flags::Args;
use super::request::Client;
use super::resolve::Resolver;
use super::schedule::{self, Ends};
use super::via::Via;

/// Files that are not connections: streams, the report, name servers, the programs of --via.
const OTHER_FILES: u64 = 128;

/// The running engine.
pub struct Engine {
    thread: JoinHandle<bool>,
    folder: Option<TempDir>,
}

impl Engine {
    /// Waits until every row is done.
    pub fn join(self) -> Result<()> {
        let went_well = self.thread.join().unwrap_or(false);
        if let Some(folder) = self.folder {
            signals::release_path(folder.path());
        }
        if went_well { Ok(()) } else { Err(anyhow!(Bug)) }
    }
}

/// Starts to fetch.
pub fn start(args: &Args, ends: Ends) -> Result<Engine> {
    let runtime = runtime(args.io_threads)?;
    let folder = args.via.is_some().then(private_folder).transpose().context("no temporary folder for --via")?;
    if let Some(folder) = &folder {
        signals::guard_path(folder.path());
    }
    let attempts = {
        let _inside = runtime.enter();
        Arc::new(attempts(args, folder.as_ref())?)
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
    builder.worker_threads(threads).enable_all().build().context("cannot start the engine")
}

/// What is fetched is nobody else's business until it is in the archive.
fn private_folder() -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix("fetch-").permissions(Permissions::from_mode(0o700)).tempdir()
}

fn attempts(args: &Args, folder: Option<&TempDir>) -> Result<Attempts> {
    let rules = Arc::new(args.rules()?);
    let proxies = Arc::new(Matcher::from_env());
    let resolver = Resolver::new(&args.dns, Arc::clone(&rules))?;
    let connections = open_files().saturating_sub(OTHER_FILES).clamp(16, 1 << 20) as usize;
    let connector = Connector::new(resolver, args.insecure, Arc::clone(&proxies), args.connect_timeout, connections);
    let client = Client::new(args.request_options(rules, proxies), connector)?;
    let via = match (&args.via, folder) {
        (Some(command), Some(folder)) => Some(Via::parse(command, &args.recipe, folder.path(), args.timeout)?),
        _ => None,
    };
    Ok(Attempts {
        client,
        limits: args.limits(),
        via,
        allow_file: args.allow_file,
        hash: args.hash,
        verify: args.verify.clone(),
        extension: args.ext.clone(),
    })
}

/// Raises the limit on open files as far as it goes, and says how far that is.
fn open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(65_536)
}
