//! The samples that are shown: selected, sliced, and prepared on all cores in their order.

use std::sync::Arc;

use anyhow::Result;
use tarpipe::cli::{self, Samples, SharedTally};
use tarpipe::messages;
use tarpipe::messages::progress;
use tarpipe::run::pool::{self, Limits};
use tarpipe::sample::Sample;
use tarpipe::sample::select::Select;
use tarpipe::tally::Tally;
use tarpipe::value::slice::Slice;

use crate::args::Args;
use crate::reservoir::Reservoir;

/// The samples that the flags take, one by one. Reading ends with the last that can be taken.
pub struct Taken {
    sources: Vec<String>,
    /// None at the end: what the sources left out is counted when they are closed.
    samples: Option<Samples>,
    select: Option<Select>,
    slice: Slice,
    fit: u64,
    tally: SharedTally,
}

impl Taken {
    /// Opens the sources.
    pub fn open(args: &Args) -> Result<Self> {
        Taken::open_first(args, None)
    }

    /// Opens the sources for the first `count` samples.
    pub fn open_first(args: &Args, count: Option<u64>) -> Result<Self> {
        let sources = args.input.names()?;
        cli::expect_bytes(&sources);
        let samples = Samples::new(sources.clone(), args.input.ignore_eof, args.held.max_sample);
        let tally = samples.tally();
        let slice = args.slice.unwrap_or(Slice::ALL).skip_and_count(0, count);
        Ok(Taken { sources, samples: Some(samples), select: args.select.clone(), slice, fit: 0, tally })
    }

    /// The names of all sources.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// Where what is left out is counted, and what is done.
    pub fn tally(&self) -> SharedTally {
        self.tally.clone()
    }

    fn read(&mut self) -> Result<Option<Sample>> {
        while !self.slice.is_over(self.fit) {
            let Some(sample) = self.samples.as_mut().and_then(Iterator::next).transpose()? else { break };
            if self.select.as_ref().is_none_or(|select| select.takes(&sample, &self.tally)) {
                self.fit += 1;
                if self.slice.has(self.fit - 1) {
                    progress::add_sample();
                    return Ok(Some(sample));
                }
            }
        }
        self.samples = None;
        Ok(None)
    }
}

impl Iterator for Taken {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Result<Sample>> {
        self.read().transpose()
    }
}

/// A sample on its way to be prepared.
pub struct Job {
    pub sample: Sample,
    /// Its place in the stream, from 0.
    pub number: u64,
    /// Its place in a random choice, if it is chosen.
    pub place: Option<usize>,
}

impl Job {
    fn bytes(&self) -> u64 {
        self.sample.bytes()
    }
}

/// Prepares every sample with `work`, on all cores, and hands the results to `emit` in order. `Err`
/// of `work` is the reason code under which the sample is left out.
pub fn each<O: Send + 'static>(
    args: &Args,
    work: impl Fn(&Sample) -> Result<O, &'static str> + Send + Sync + 'static,
    emit: impl FnMut(O) -> Result<()>,
) -> Result<Tally> {
    run(args, Taken::open(args)?, Reservoir::new(0, 0), move |job| work(&job.sample), emit)
}

/// The same with a random choice among the samples.
pub fn run<O: Send + 'static>(
    args: &Args,
    taken: Taken,
    mut reservoir: Reservoir,
    work: impl Fn(&Job) -> Result<O, &'static str> + Send + Sync + 'static,
    mut emit: impl FnMut(O) -> Result<()>,
) -> Result<Tally> {
    let tally = taken.tally();
    let work = Arc::new(work);
    let worker = move |_| {
        let work = Arc::clone(&work);
        move |job: Job| Ok(work(&job).inspect_err(|code| tell(&job.sample, code)))
    };
    let jobs = taken
        .enumerate()
        .map(move |(number, sample)| Ok(Job { sample: sample?, number: number as u64, place: reservoir.place() }));
    let limits = Limits::for_workers(args.parallel.threads());
    pool::run(limits, jobs, Job::bytes, worker, |prepared| match prepared {
        Ok(prepared) => {
            tally.add(|tally| tally.done());
            emit(prepared)
        }
        Err(code) => {
            tally.add(|tally| tally.fail(code));
            Ok(())
        }
    })?;
    Ok(tally.take())
}

/// Says that a sample is left out, to those who asked for it.
pub fn tell(sample: &Sample, code: &str) {
    messages::detail(&format!("{}: {}: left out: {code}", sample.source, sample.key));
}
