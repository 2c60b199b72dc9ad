//! Samples in, samples out, and between them a command on every sample, in parallel and in order.
//! A sample that fails is left out and counted; none is ever passed on unprocessed.

mod args;
mod batch;
mod command;
mod directory;
mod field_filter;
mod forking_shell;
mod interpreter;
mod job;
mod jobs;
mod log;
mod output;
mod pack;
mod read_file;
mod settings;
mod shell;
mod text_samples;
mod worker;
mod worker_process;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use tarpipe::cli::{self, Outcome, Samples, SharedTally};
use tarpipe::run::pool::{self, ByteLimit, Cost, PoolLimits};
use tarpipe::run::watched;
use tarpipe::sample::Sample;
use tarpipe::tally::MaxFailures;

pub(crate) use args::Args;
use args::InputMode;
use batch::BatchRunner;
use field_filter::FieldFilter;
use job::{CommandJob, JobResult, Runner};
use jobs::Jobs;
use output::ResultWriter;
use settings::RunnerSettings;
use shell::ShellRunner;
use text_samples::TextSamples;
use worker::WorkerRunner;

/// Bytes of samples to read ahead when they are small.
const READ_AHEAD: u64 = 8 << 20;

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    watched::become_subreaper();
    let settings = Arc::new(args.runner_settings()?);
    let tally = SharedTally::default();
    let mut output = ResultWriter::create(&args)?;
    let max_failures = process(args, &settings, &tally, &mut output)?;
    let mut counts = output.finish()?;
    settings.scratch.finish();
    counts.merge(&tally.take());
    Ok(Outcome { tally: counts, max_failures: Some(max_failures) })
}

/// Runs the command on all samples and writes the results. Returns after the last worker has ended.
fn process(
    args: Args,
    settings: &Arc<RunnerSettings>,
    tally: &SharedTally,
    output: &mut ResultWriter,
) -> Result<MaxFailures> {
    let parallel = args.threads();
    let bytes = ByteLimit::LargestPerWorker(READ_AHEAD);
    let limits = PoolLimits { ordered: !args.unordered, bytes, ..PoolLimits::for_workers(parallel) };
    let samples = samples(&args, tally)?;
    let (retries, keep, max_failures) = (args.retries, args.failed.is_some(), args.max_failures);
    let jobs = Jobs::new(samples, args.job_selection());
    let factory = {
        let settings = Arc::clone(settings);
        move |_| {
            let mut runner = runner(&args, &settings);
            move |job| Ok(job::run(runner.as_mut(), job, retries, keep))
        }
    };
    let cost = Cost { job: CommandJob::bytes, result: Some(JobResult::bytes) };
    pool::run(limits, jobs, cost, factory, |result| output.write(result))?;
    watched::kill_orphans();
    Ok(max_failures)
}

fn samples(args: &Args, tally: &SharedTally) -> Result<Box<dyn Iterator<Item = Result<Sample>> + Send>> {
    let names = args.input.names()?;
    cli::expect_bytes(&names);
    let max_sample = args.held.max_sample;
    Ok(match args.mode {
        InputMode::Tar => Box::new(Samples::new(names, args.input.ignore_eof, max_sample).counted_in(tally)),
        mode => Box::new(TextSamples::new(names, mode, max_sample, tally)),
    })
}

fn runner(args: &Args, settings: &Arc<RunnerSettings>) -> Box<dyn Runner> {
    let settings = Arc::clone(settings);
    if let Some(fields) = &args.each {
        Box::new(FieldFilter::new(settings, fields.clone()))
    } else if args.worker.is_some() {
        Box::new(WorkerRunner::new(settings))
    } else if args.batch.is_some() {
        Box::new(BatchRunner::new(settings))
    } else {
        Box::new(ShellRunner::new(settings, args.fast_shell))
    }
}
