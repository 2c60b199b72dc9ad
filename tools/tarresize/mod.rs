//! Reads samples and writes the same samples with their images decoded, oriented, resized and encoded again, on all
//! cores and in the order of the input. An image that fails is never passed on as if it had been processed: what
//! happens to its sample is `--on-error`.

mod args;
mod failure;
mod formats;
mod geometry;
mod image_job;
mod image_resizer;
mod jpeg;
mod memory_estimate;
mod options;
mod pixels;
mod report;
mod sample_resizer;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use tarpipe::cli::{self, Outcome, SharedTally};
use tarpipe::messages;
use tarpipe::report::ReportWriter;
use tarpipe::run::memory::{MemoryShare, MemoryTurn};
use tarpipe::run::panics;
use tarpipe::run::pool::{self, Cost, PoolLimits};
use tarpipe::sample::Sample;
use tarpipe::sample::failed;
use tarpipe::sample::shard::ShardWriter;
use tarpipe::tally::Tally;

pub(crate) use args::Args;
use args::OnImageError;
use image_resizer::ImageResizer;
use sample_resizer::{ImageResult, SampleResizer};

/// Runs the tool; `args` starts with the program name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    panics::silence();
    let budget = args.decoding.budget();
    let sample_resizer = Arc::new(args.sample_resizer(budget.limit())?);
    let samples = args.input.samples(&args.held)?;
    let mut output = ResizeOutput::create(&args, samples.tally())?;
    let threads = args.parallel.threads();
    let max_kept = ImageResizer::buffer_limit(budget.limit(), threads);
    let pass_failed = args.on_error == OnImageError::Pass;
    let worker = move |_| {
        let (sample_resizer, image_resizer) = (Arc::clone(&sample_resizer), ImageResizer::new(max_kept));
        let mut worker = ResizeWorker { sample_resizer, image_resizer, pass_failed };
        move |(turn, sample)| Ok(worker.resize(turn, sample))
    };
    let samples = budget.turns(samples).map(|(turn, sample)| Ok((turn, sample?)));
    let cost = Cost::of_jobs(|(_, sample): &(MemoryTurn, Sample)| sample.bytes());
    pool::run(PoolLimits::for_workers(threads), samples, cost, worker, |resized| output.write(resized))?;
    Ok(Outcome { tally: output.finish()?, max_failures: args.max_failures })
}

/// What one thread needs to resize the images of any sample.
struct ResizeWorker {
    sample_resizer: Arc<SampleResizer>,
    image_resizer: ImageResizer,
    /// Whether samples that an earlier tool has marked as failed pass unchanged.
    pass_failed: bool,
}

impl ResizeWorker {
    fn resize(&mut self, turn: MemoryTurn, mut sample: Sample) -> ResizedSample {
        if self.pass_failed && failed::is_failed(&sample) {
            return ResizedSample { sample, images: Vec::new(), _held: None };
        }
        let (images, held) = self.sample_resizer.process(&mut sample, &mut self.image_resizer, turn);
        ResizedSample { sample, images, _held: Some(held) }
    }
}

/// A sample and the result of each of its images.
struct ResizedSample {
    sample: Sample,
    images: Vec<ImageResult>,
    /// The memory of the new images, released once they are written.
    _held: Option<MemoryShare>,
}

/// Where samples, report rows and counts go.
struct ResizeOutput {
    shard: ShardWriter,
    report: Option<ReportWriter>,
    tally: SharedTally,
    on_error: OnImageError,
}

impl ResizeOutput {
    fn create(args: &Args, tally: SharedTally) -> Result<Self> {
        let report = args.report.as_deref().map(|name| ReportWriter::create(name, report::COLUMNS)).transpose()?;
        let shard = args.output.create(&args.parallel)?;
        Ok(ResizeOutput { shard, report, tally, on_error: args.on_error })
    }

    fn write(&mut self, ResizedSample { sample, images, _held }: ResizedSample) -> Result<()> {
        if let Some(ledger) = &mut self.report {
            images.iter().try_for_each(|image| ledger.add(report::row(&sample.key, image)))?;
        }
        let failed = images.iter().find_map(|image| Some((image, image.result.as_ref().err()?)));
        let Some((image, failure)) = failed else {
            self.tally.add(|tally| tally.done());
            return self.shard.write(&sample);
        };
        let code = failure.code.name();
        let message = format!("{}: {}.{}: {failure}", sample.source, sample.key, image.field);
        match self.on_error {
            OnImageError::Abort => return Err(anyhow!(message)),
            OnImageError::Skip => messages::detail(&message),
            OnImageError::Keep => {
                messages::detail(&format!("{message}; sample kept unchanged"));
                self.shard.write(&sample)?;
            }
            OnImageError::Pass => {
                messages::detail(&message);
                self.shard.write(&failed::sample(&sample, code, &failure.detail))?;
            }
        }
        self.tally.add(|tally| tally.fail_as(code, || message));
        Ok(())
    }

    fn finish(self) -> Result<Tally> {
        self.shard.finish()?;
        self.report.map_or(Ok(()), ReportWriter::finish)?;
        Ok(self.tally.take())
    }
}
