//! Runs a pipeline once per item and commits one output per item: on this machine, or through Slurm, Kubernetes, Spark or
//! Ray. Only the local engine schedules anything here; a cluster schedules its own tasks.
//!
//! From the command line to the pipeline: `plan` defines what is run, `run` keeps the run on disk and finds out what is
//! left to do, `engine` takes the tasks to their workers, `task` is the worker's side, `item` runs a single item, and
//! `status` shows how far a run is.

mod args;
mod engine;
mod item;
mod plan;
mod run;
mod settings;
mod status;
mod task;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use tarpipe::cli::{self, Outcome};
use tarpipe::run::{orphans, signals};
use tarpipe::value::list;

pub(crate) use args::Args;
use args::RunCommand;
use item::attempt;
use run::pending::PendingRun;
use task::worker;

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    signals::set_grace(attempt::TERM_GRACE);
    match args.command {
        None => start(&args),
        Some(RunCommand::Status { dir, watch, json }) => status::show(dir.as_deref(), watch, json),
        Some(RunCommand::Logs { dir, item, failed }) => status::logs(dir.as_deref(), &list::concat(&item), failed),
        Some(RunCommand::Retry { dir, failed }) => engine::run(PendingRun::retry(dir.as_deref(), failed)?),
        Some(RunCommand::Cancel { dir, delete }) => engine::cancel(dir.as_deref(), delete),
        Some(RunCommand::Report { dir, html }) => status::report(dir.as_deref(), &html),
        Some(RunCommand::Item { serve: true, .. }) => worker::serve(),
        Some(RunCommand::Item { bundle, task, is_final, .. }) => worker::run(&bundle, task, is_final),
        Some(RunCommand::Record { dir }) => worker::record(&dir),
        Some(RunCommand::Guard { mark }) => {
            orphans::guard(&mark, attempt::TERM_GRACE);
            Ok(Outcome::default())
        }
    }
}

fn start(args: &Args) -> Result<Outcome> {
    args.check()?;
    let pending = PendingRun::plan(args)?;
    if args.dry_run {
        return engine::dry_run(&pending);
    }
    pending.freeze(args.redo)?;
    engine::run(pending)
}
