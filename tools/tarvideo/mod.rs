//! Reads samples and writes samples whose video and audio is clipped, scaled, re-timed, probed and split by ffmpeg, in
//! one run per sample wherever possible. Media that fails is never passed on as if it had been processed: what happens
//! to its sample is `--on-error`.

mod args;
mod clips;
mod ffmpeg;
mod flag_values;
mod media_job;
mod memory_estimate;
mod options;
mod report;
mod sample_processor;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use tarpipe::cli::{self, Outcome, SharedTally};
use tarpipe::report::ReportWriter;
use tarpipe::run::memory::MemoryTurn;
use tarpipe::run::pool::{self, Cost, PoolLimits};
use tarpipe::run::scratch::Scratch;
use tarpipe::sample::Sample;
use tarpipe::sample::shard::ShardWriter;
use tarpipe::tally::Tally;

pub(crate) use args::Args;
use sample_processor::{OutputSample, SampleProcessor, SampleResults};

/// Runs the tool; `args` starts with the program name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    let options = args.options()?;
    ffmpeg::program::check()?;
    let samples = args.input.samples(&args.held)?;
    let mut output = MediaOutput::create(&args, samples.tally())?;
    let scratch = Arc::new(Scratch::create(args.tmpdir.as_deref(), false)?);
    let budget = args.decoding.budget();
    let processor = Arc::new(SampleProcessor::new(options, Arc::clone(&budget), Arc::clone(&scratch)));
    let worker = move |_| {
        let processor = Arc::clone(&processor);
        move |(turn, sample)| Ok(processor.process(turn, sample))
    };
    let samples = budget.turns(samples).map(|(turn, sample)| Ok((turn, sample?)));
    let cost = Cost::of_jobs(|(_, sample): &(MemoryTurn, Sample)| sample.bytes());
    let limits = PoolLimits::for_workers(args.parallel.threads());
    pool::run(limits, samples, cost, worker, |results| output.write(&results))?;
    let tally = output.finish()?;
    scratch.finish();
    Ok(Outcome { tally, max_failures: Some(args.max_failures) })
}

/// Where samples, report rows and counts go.
struct MediaOutput {
    shard: ShardWriter,
    report: Option<ReportWriter>,
    tally: SharedTally,
}

impl MediaOutput {
    fn create(args: &Args, tally: SharedTally) -> Result<Self> {
        let report = args.report.as_deref().map(|name| ReportWriter::create(name, report::COLUMNS)).transpose()?;
        let shard = args.output.create(&args.parallel)?;
        Ok(MediaOutput { shard, report, tally })
    }

    fn write(&mut self, results: &SampleResults) -> Result<()> {
        for output in &results.items {
            let OutputSample { key, source, result } = output;
            if let Err(failure) = result
                && failure.ends_run()
            {
                bail!("{source}: {key}: {failure}");
            }
            if let Some(report) = &mut self.report {
                report.add(report::row(output))?;
            }
            match result {
                Ok(sample) => {
                    self.shard.write(sample)?;
                    self.tally.add(|tally| tally.done());
                }
                Err(failure) => {
                    results.failed_sample(key, failure).map_or(Ok(()), |failed| self.shard.write(&failed))?;
                    self.tally.add(|tally| tally.leave_out(failure.code, &format!("{source}: {key}"), failure));
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Tally> {
        self.shard.finish()?;
        self.report.map_or(Ok(()), ReportWriter::finish)?;
        Ok(self.tally.take())
    }
}
