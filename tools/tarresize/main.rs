//! Samples in, the same samples out, their images decoded, oriented, resized and encoded again on all cores.
//! An image that cannot be processed is never passed on as if it had been.

mod area;
mod args;
mod blur;
mod color;
mod decode;
mod encode;
mod engine;
mod exif;
mod failure;
mod fields;
mod frames;
mod head;
mod job;
mod jpeg;
mod lanes;
mod markers;
mod memory;
mod options;
mod orient;
mod picture;
mod planes;
#[cfg(not(feature = "turbojpeg"))]
mod pure;
mod report;
mod resample;
mod size;
#[cfg(feature = "turbojpeg")]
mod turbo;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use tarpipe::cli::{self, Outcome, SharedTally};
use tarpipe::messages;
use tarpipe::report::Ledger;
use tarpipe::run::memory::{Held, Turn};
use tarpipe::run::panics;
use tarpipe::run::pool::{self, Limits};
use tarpipe::sample::Sample;
use tarpipe::sample::failed;
use tarpipe::sample::shard::Shard;

use args::{Args, OnError};
use engine::Engine;
use fields::Image;

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    panics::install();
    let budget = args.decoding.budget();
    let work = Arc::new(args.work(budget.limit())?);
    let samples = args.input.samples(&args.held)?;
    let tally = samples.tally();
    let report = args.report.as_deref().map(|name| Ledger::create(name, report::COLUMNS)).transpose()?;
    let shard = args.output.create(&args.parallel)?;
    let mut output = Output { shard, report, tally: tally.clone(), on_error: args.on_error };
    let passes = args.on_error == OnError::Pass;
    let threads = args.parallel.threads();
    let keep = Engine::keep(budget.limit(), threads);
    let worker = move |_| {
        let work = Arc::clone(&work);
        let mut engine = Engine::new(keep);
        move |(turn, mut sample)| {
            if passes && failed::is_failed(&sample) {
                return Ok(Processed { sample, images: Vec::new(), _held: None });
            }
            let (images, held) = work.process(&mut sample, &mut engine, turn);
            Ok(Processed { sample, images, _held: Some(held) })
        }
    };
    let samples = budget.turns(samples).map(|(turn, sample)| Ok((turn, sample?)));
    let bytes = |(_, sample): &(Turn, Sample)| sample.bytes();
    pool::run(Limits::for_workers(threads), samples, bytes, worker, |processed| output.write(processed))?;
    output.shard.finish()?;
    output.report.map_or(Ok(()), Ledger::finish)?;
    Ok(Outcome { tally: tally.take(), max_failures: args.max_failures })
}

/// A sample and what became of its images.
struct Processed {
    sample: Sample,
    images: Vec<Image>,
    /// The memory of the new images, until they are written.
    _held: Option<Held>,
}

/// Where samples, reports and counts go, in the order of the input.
struct Output {
    shard: Shard,
    report: Option<Ledger>,
    tally: SharedTally,
    on_error: OnError,
}

impl Output {
    fn write(&mut self, Processed { sample, images, _held }: Processed) -> Result<()> {
        if let Some(ledger) = &mut self.report {
            images.iter().try_for_each(|image| ledger.add(report::row(&sample.key, image)))?;
        }
        let failed = images.iter().find_map(|image| Some((image, image.result.as_ref().err()?)));
        let Some((image, failure)) = failed else {
            self.tally.add(|tally| tally.done());
            return self.shard.write(&sample);
        };
        let line = format!("{}: {}.{}: {failure}", sample.source, sample.key, image.field);
        match self.on_error {
            OnError::Abort => return Err(anyhow!(line)),
            OnError::Skip => messages::detail(&line),
            OnError::Keep => {
                messages::detail(&format!("{line}; kept as it was"));
                self.shard.write(&sample)?;
            }
            OnError::Pass => {
                messages::detail(&line);
                self.shard.write(&failed::failed(&sample, failure.code.name(), &failure.detail))?;
            }
        }
        self.tally.add(|tally| tally.fail(failure.code.name()));
        Ok(())
    }
}
