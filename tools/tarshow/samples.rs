//! The samples to show: selected, sliced, and prepared on all cores in the order of the input.

use std::sync::Arc;

use anyhow::Result;
use tarpipe::cli::{self, Samples, SharedTally};
use tarpipe::messages::progress;
use tarpipe::run::pool::{self, Cost, PoolLimits};
use tarpipe::sample::Sample;
use tarpipe::sample::select::Select;
use tarpipe::tally::Tally;
use tarpipe::value::slice::Slice;

use crate::tarshow::args::Args;
use crate::tarshow::reservoir::Reservoir;

/// Iterates over the samples that the flags select. Reading stops after the last one that can be selected.
pub struct SelectedSamples {
    sources: Vec<String>,
    /// `None` at the end: closing the sources counts what they left out.
    samples: Option<Samples>,
    select: Option<Select>,
    slice: Slice,
    matched: u64,
    tally: SharedTally,
}

impl SelectedSamples {
    /// Opens the sources.
    pub fn open(args: &Args) -> Result<Self> {
        SelectedSamples::open_first(args, None)
    }

    /// Opens the sources for the first `count` selected samples.
    pub fn open_first(args: &Args, count: Option<u64>) -> Result<Self> {
        let sources = args.input.names()?;
        cli::expect_bytes(&sources);
        let samples = Samples::new(sources.clone(), args.input.ignore_eof, args.held.max_sample);
        let tally = samples.tally();
        let slice = args.slice.unwrap_or(Slice::ALL).skip_and_count(0, count);
        Ok(SelectedSamples { sources, samples: Some(samples), select: args.select.clone(), slice, matched: 0, tally })
    }

    /// The names of all sources.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// The counts of processed samples and of everything left out.
    pub fn tally(&self) -> SharedTally {
        self.tally.clone()
    }

    fn read(&mut self) -> Result<Option<Sample>> {
        while !self.slice.is_over(self.matched) {
            let Some(sample) = self.samples.as_mut().and_then(Iterator::next).transpose()? else { break };
            if self.select.as_ref().is_none_or(|select| select.takes(&sample, &self.tally)) {
                self.matched += 1;
                if self.slice.has(self.matched - 1) {
                    progress::add_sample();
                    return Ok(Some(sample));
                }
            }
        }
        self.samples = None;
        Ok(None)
    }
}

impl Iterator for SelectedSamples {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Result<Sample>> {
        self.read().transpose()
    }
}

/// A sample to prepare.
pub struct NumberedSample {
    pub sample: Sample,
    /// Its index among the selected samples, from 0.
    pub number: u64,
    /// Its slot in the random choice, if chosen.
    pub slot: Option<usize>,
}

impl NumberedSample {
    fn bytes(&self) -> u64 {
        self.sample.bytes()
    }
}

/// Prepares every sample with `work` on all cores and passes the results to `emit` in order. If `work` fails, its error
/// is the reason code under which the sample is left out.
pub fn prepare<O: Send + 'static>(
    args: &Args,
    work: impl Fn(&Sample) -> Result<O, &'static str> + Send + Sync + 'static,
    emit: impl FnMut(O) -> Result<()>,
) -> Result<Tally> {
    prepare_with_choice(
        args,
        SelectedSamples::open(args)?,
        Reservoir::new(0, 0),
        move |numbered| work(&numbered.sample),
        emit,
    )
}

/// Like [`prepare`], with a random choice among the samples.
pub fn prepare_with_choice<O: Send + 'static>(
    args: &Args,
    samples: SelectedSamples,
    mut reservoir: Reservoir,
    work: impl Fn(&NumberedSample) -> Result<O, &'static str> + Send + Sync + 'static,
    mut emit: impl FnMut(O) -> Result<()>,
) -> Result<Tally> {
    let tally = samples.tally();
    let failures = tally.clone();
    let work = Arc::new(work);
    let worker = move |_| {
        let work = Arc::clone(&work);
        let failures = failures.clone();
        move |numbered: NumberedSample| {
            Ok(work(&numbered).map_err(|code| failures.add(|tally| leave_out(tally, &numbered.sample, code))))
        }
    };
    let numbered = samples.enumerate().map(move |(number, sample)| {
        Ok(NumberedSample { sample: sample?, number: number as u64, slot: reservoir.next_slot() })
    });
    let limits = PoolLimits::for_workers(args.parallel.threads());
    pool::run(limits, numbered, Cost::of_jobs(NumberedSample::bytes), worker, |prepared| match prepared {
        Ok(prepared) => {
            tally.add(|tally| tally.done());
            emit(prepared)
        }
        Err(()) => Ok(()),
    })?;
    Ok(tally.take())
}

/// Counts a sample that is left out.
pub fn leave_out(tally: &mut Tally, sample: &Sample, code: &'static str) {
    let reason = match code {
        "exists" => "a file of that name exists",
        "in_the_way" => "a link, a folder or a file is in the way",
        "json" => "a field is not valid JSON",
        "name_field" => "a column cannot be part of a file name",
        "name_long" => "the file name is too long",
        "no_field" => "it has none of the fields",
        other => other,
    };
    tally.leave_out(code, &format!("{}: {}", sample.source, sample.key), &reason);
}
