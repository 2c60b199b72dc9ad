//! The jobs that workers get, and the results they return.

use std::sync::Arc;

use tarpipe::run::failure::Failure;
use tarpipe::sample::Sample;

use crate::tarproc::log::CommandLog;
use crate::tarproc::pack::PackedSamples;

/// The samples for one run of the command: one, or a batch.
pub struct CommandJob {
    /// The position of the first sample in the input.
    pub index: u64,
    pub samples: Vec<Sample>,
}

impl CommandJob {
    /// The data of the samples.
    pub fn bytes(&self) -> u64 {
        self.samples.iter().map(Sample::bytes).sum()
    }
}

/// The outcome of one run of the command.
pub struct JobAttempt {
    /// One result per sample.
    pub results: Vec<Result<PackedSamples, Failure>>,
    /// The stdout of the command, if it is kept.
    pub stdout: Vec<u8>,
    /// The output that was logged.
    pub log: CommandLog,
}

impl JobAttempt {
    /// The same failure for all samples of a job.
    pub fn failed(samples: usize, failure: &Failure, log: CommandLog) -> Self {
        let results = (0..samples).map(|_| Err(failure.clone())).collect();
        JobAttempt { results, stdout: Vec::new(), log }
    }

    fn is_success(&self) -> bool {
        self.results.iter().all(Result::is_ok)
    }

    fn ends_run(&self) -> bool {
        self.results.iter().any(|result| result.as_ref().is_err_and(Failure::ends_run))
    }

    fn bytes(&self) -> u64 {
        let packed = self.results.iter().flatten().flat_map(|packed| &packed.samples);
        packed.map(Sample::bytes).sum::<u64>() + self.stdout.len() as u64
    }
}

/// A way to run the command on samples.
pub trait Runner {
    /// Runs it once. If `keep` is false, the runner may take the data of the samples to save memory.
    fn attempt(&mut self, index: u64, samples: &mut [Sample], keep: bool) -> JobAttempt;
}

/// A finished job.
pub struct JobResult {
    /// Key and source of each input sample.
    pub names: Vec<(String, Arc<str>)>,
    /// The last attempt.
    pub attempt: JobAttempt,
    /// The input samples, if they are kept.
    pub originals: Vec<Sample>,
}

impl JobResult {
    /// The data to write, and that of the input samples if they are kept.
    pub fn bytes(&self) -> u64 {
        self.attempt.bytes() + self.originals.iter().map(Sample::bytes).sum::<u64>()
    }
}

/// Runs a job, and retries it if it fails.
pub fn run(runner: &mut dyn Runner, mut job: CommandJob, retries: u32, keep: bool) -> JobResult {
    let names = job.samples.iter().map(|sample| (sample.key.clone(), Arc::clone(&sample.source))).collect();
    let mut left = retries;
    let attempt = loop {
        let attempt = runner.attempt(job.index, &mut job.samples, keep || left > 0);
        if left == 0 || attempt.is_success() || attempt.ends_run() {
            break attempt;
        }
        left -= 1;
    };
    let originals = if keep { job.samples } else { Vec::new() };
    JobResult { names, attempt, originals }
}

/// Takes the data out of a sample that no longer needs it, as buffers to use again.
pub fn take_buffers(sample: &mut Sample) -> Vec<Vec<u8>> {
    sample.members.iter_mut().map(|member| std::mem::take(&mut member.data)).collect()
}
