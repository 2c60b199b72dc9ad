//! What goes to the workers and what comes back.

use std::sync::Arc;

use tarpipe::run::failure::Failure;
use tarpipe::sample::Sample;

use crate::budget::Held;
use crate::log::Log;
use crate::pack::Packed;

/// Samples for one command: one, or a batch.
pub struct Job {
    /// The position of the first of them in the input.
    pub index: u64,
    /// In order.
    pub samples: Vec<Sample>,
    /// What they take up.
    pub held: Held,
}

/// What one run of a command made of a job.
pub struct Attempt {
    /// One for each sample.
    pub results: Vec<Result<Packed, Failure>>,
    /// What the command wrote, if it was kept.
    pub stdout: Vec<u8>,
    /// What the command said.
    pub log: Log,
}

impl Attempt {
    /// All samples of a job fail alike.
    pub fn failed(samples: usize, failure: &Failure, log: Log) -> Self {
        let results = (0..samples).map(|_| Err(failure.clone())).collect();
        Attempt { results, stdout: Vec::new(), log }
    }

    fn went_well(&self) -> bool {
        self.results.iter().all(Result::is_ok)
    }

    fn bytes(&self) -> u64 {
        let packed = self.results.iter().flatten().flat_map(|packed| &packed.samples);
        packed.map(Sample::bytes).sum::<u64>() + self.stdout.len() as u64
    }
}

/// A way to run a command on samples.
pub trait Way {
    /// Runs it once. Unless they are to be kept, the data of the samples may go on the way.
    fn attempt(&mut self, index: u64, samples: &mut [Sample], keep: bool) -> Attempt;
}

/// A job that is done.
pub struct Answer {
    /// Key and source of each sample that went in.
    pub names: Vec<(String, Arc<str>)>,
    /// What became of them.
    pub attempt: Attempt,
    /// The samples as they went in, if they were to be kept.
    pub originals: Vec<Sample>,
    /// What all this takes up, until it is dropped.
    pub held: Held,
}

/// Runs a job, again if it fails and may be retried.
pub fn run(way: &mut dyn Way, mut job: Job, retries: u32, keep: bool) -> Answer {
    let names = job.samples.iter().map(|sample| (sample.key.clone(), Arc::clone(&sample.source))).collect();
    let mut left = retries;
    let attempt = loop {
        let attempt = way.attempt(job.index, &mut job.samples, keep || left > 0);
        if left == 0 || attempt.went_well() {
            break attempt;
        }
        left -= 1;
    };
    let originals = if keep { job.samples } else { Vec::new() };
    job.held.resize(attempt.bytes() + originals.iter().map(Sample::bytes).sum::<u64>());
    Answer { names, attempt, originals, held: job.held }
}
