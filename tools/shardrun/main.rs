//! A pipeline and items in, a dataset out: one output an item, here or on a cluster. It schedules nothing
//! beyond this machine: the engine does.

mod ask;
mod attempt;
mod bundle;
mod config;
mod done;
mod engine;
mod flags;
mod folder;
mod item;
mod items;
mod job;
mod joblog;
mod listener;
mod lock;
mod plan;
mod quoting;
mod requeue;
mod results;
mod samples;
mod settings;
mod status;
mod survey;
mod template;
mod worker;
mod yaml;

use std::process::ExitCode;

use anyhow::Result;
use tarpipe::cli::{self, Outcome};
use tarpipe::run::signals;

use flags::{Args, Command};
use job::Job;

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    signals::be_patient(attempt::LAST_WORDS);
    match args.command {
        None => start(&args),
        Some(Command::Status { dir, watch, json }) => status::show(dir.as_deref(), watch, json),
        Some(Command::Logs { dir, item, failed }) => status::logs(dir.as_deref(), &item, failed),
        Some(Command::Retry { dir, failed }) => engine::run(Job::again(dir.as_deref(), failed)?),
        Some(Command::Cancel { dir }) => engine::cancel(dir.as_deref()),
        Some(Command::Report { dir, html }) => status::report(dir.as_deref(), &html),
        Some(Command::Item { serve: true, .. }) => worker::serve(),
        Some(Command::Item { bundle, task, is_final, .. }) => worker::run(&bundle, task, is_final),
        Some(Command::Record { dir }) => worker::record(&dir),
    }
}

fn start(args: &Args) -> Result<Outcome> {
    args.check()?;
    let job = Job::plan(args)?;
    if args.dry_run {
        return engine::dry_run(&job);
    }
    job.freeze(args.redo)?;
    engine::run(job)
}
