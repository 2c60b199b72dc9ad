//! Samples in, samples out, their video and sound clipped, scaled, re-timed, probed and taken apart by ffmpeg:
//! one run does all that was asked. Media that cannot be processed is never passed on as if it had been.

mod args;
mod choices;
mod clips;
mod collect;
mod ffmpeg;
mod graph;
mod job;
mod media;
mod memory;
mod outputs;
mod probe;
mod program;
mod spans;
mod subtitles;
mod task;
mod time;
mod words;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use serde_json::json;
use tarpipe::cli::{self, Outcome, SharedTally};
use tarpipe::messages;
use tarpipe::report::{Column, Ledger};
use tarpipe::run::failure::Failure;
use tarpipe::run::memory::Turn;
use tarpipe::run::pool::{self, Limits};
use tarpipe::run::scratch::Scratch;
use tarpipe::sample::Sample;
use tarpipe::sample::shard::Shard;

use args::Args;
use job::{Item, Processed, Work};

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    let wanted = args.wanted()?;
    program::check()?;
    let samples = args.input.samples(&args.held)?;
    let tally = samples.tally();
    let report = args.report.as_deref().map(|name| Ledger::create(name, COLUMNS)).transpose()?;
    let shard = args.output.create(&args.parallel)?;
    let mut output = Output { shard, report, tally: tally.clone() };
    let scratch = Arc::new(Scratch::create(args.tmpdir.as_deref(), false)?);
    let budget = args.decoding.budget();
    let work = Arc::new(Work::new(wanted, Arc::clone(&budget), Arc::clone(&scratch)));
    let worker = move |_| {
        let work = Arc::clone(&work);
        move |(turn, sample)| Ok(work.process(turn, sample))
    };
    let limits = Limits::for_workers(args.parallel.threads());
    let samples = budget.turns(samples).map(|(turn, sample)| Ok((turn, sample?)));
    let bytes = |(_, sample): &(Turn, Sample)| sample.bytes();
    pool::run(limits, samples, bytes, worker, |processed| output.write(&processed))?;
    output.shard.finish()?;
    output.report.map_or(Ok(()), Ledger::finish)?;
    scratch.finish();
    Ok(Outcome { tally: tally.take(), max_failures: args.max_failures })
}

/// A line of the report: what became of a sample, or of one of its clips.
const COLUMNS: &[Column] = &[
    Column::Text("key"),
    Column::Text("status"),
    Column::Text("code"),
    Column::Text("error_message"),
    Column::Number("bytes"),
];

/// Where samples, reports and counts go, in the order of the input.
struct Output {
    shard: Shard,
    report: Option<Ledger>,
    tally: SharedTally,
}

impl Output {
    fn write(&mut self, processed: &Processed) -> Result<()> {
        for Item { key, source, result } in &processed.items {
            if let Err(failure) = result
                && failure.blames_machine()
            {
                bail!("{source}: {key}: {failure}");
            }
            if let Some(report) = &mut self.report {
                let (failure, bytes) = (result.as_ref().err(), result.as_ref().ok().map(Sample::bytes));
                let status = if failure.is_some() { "failed" } else { "success" };
                let code = failure.map(|failure| failure.code);
                report.add(vec![
                    json!(key),
                    json!(status),
                    json!(code),
                    json!(failure.map(Failure::what)),
                    json!(bytes),
                ])?;
            }
            match result {
                Ok(sample) => {
                    self.shard.write(sample)?;
                    self.tally.add(|tally| tally.done());
                }
                Err(failure) => {
                    messages::detail(&format!("{source}: {key}: left out: {failure}"));
                    processed.failed(key, failure).map_or(Ok(()), |failed| self.shard.write(&failed))?;
                    self.tally.add(|tally| tally.fail(failure.code));
                }
            }
        }
        Ok(())
    }
}
