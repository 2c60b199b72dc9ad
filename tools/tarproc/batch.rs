//! --batch: runs the command on several samples at a time, each in a sub-directory of its own.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;
use tarpipe::run::failure::Failure;
use tarpipe::run::watched;
use tarpipe::sample::Sample;

use crate::tarproc::command::{self, CommandResult};
use crate::tarproc::directory::{self, SampleDirectory};
use crate::tarproc::job::{JobAttempt, Runner, take_buffers};
use crate::tarproc::log::CommandLog;
use crate::tarproc::pack::{Origin, PackedSamples};
use crate::tarproc::settings::RunnerSettings;

/// Runs the command on batches of samples.
pub struct BatchRunner {
    settings: Arc<RunnerSettings>,
}

impl BatchRunner {
    pub fn new(settings: Arc<RunnerSettings>) -> Self {
        BatchRunner { settings }
    }

    fn unpack(&self, index: u64, samples: &[Sample]) -> Result<SampleDirectory, Failure> {
        let directory = SampleDirectory::create(&self.settings.scratch, format!("{index:09}"))?;
        let filled = samples.iter().enumerate().try_for_each(|(i, sample)| {
            let own = directory::create(directory.handle(), &name(i))?;
            directory::unpack(own.as_fd(), &self.settings.packing.base, sample)
        });
        match filled {
            Ok(()) => Ok(directory),
            Err(failure) => {
                _ = directory.remove(None);
                Err(failure)
            }
        }
    }

    fn run(&self, index: u64, count: usize, directory: &SampleDirectory) -> CommandResult {
        let mut command = self.settings.interpreter.command();
        let path = directory.path();
        command.env("TARPROC_INDEX", index.to_string()).env("TARPROC_COUNT", count.to_string());
        command.env("PWD", &path).current_dir(path);
        command::run(command, None, self.settings.stdout, self.settings.limits)
    }

    fn pack(&self, directory: BorrowedFd<'_>, i: usize, origin: &Origin) -> Result<PackedSamples, Failure> {
        if !self.settings.packs {
            return Ok(PackedSamples::default());
        }
        let name = CString::new(name(i)).unwrap_or_default();
        let own = match directory::open(directory, &name) {
            Ok(own) => own,
            Err(Errno::NOENT) => return Ok(PackedSamples::default()), // the command removed the sample
            Err(err) => return Err(Failure::system("open a sub-directory", err)),
        };
        self.settings.packing.pack(own.as_fd(), &directory::list(own.as_fd())?, origin, Vec::new())
    }

    /// Packs all sub-directories. Other files are counted with the first sample.
    fn collect(
        &self,
        directory: &SampleDirectory,
        origins: &[Origin],
        verdict: Result<(), Failure>,
    ) -> Result<Vec<Result<PackedSamples, Failure>>, Failure> {
        self.settings.judge(verdict)?;
        directory.check()?;
        let ours: Vec<String> = (0..origins.len()).map(name).collect();
        let is_ours = |entry: &directory::DirectoryEntry| {
            entry.kind == FileType::Directory && ours.iter().any(|name| name.as_bytes() == entry.name.to_bytes())
        };
        let others = directory::list(directory.handle())?.iter().filter(|entry| !is_ours(entry)).count();
        let mut results: Vec<_> =
            origins.iter().enumerate().map(|(i, origin)| self.pack(directory.handle(), i, origin)).collect();
        if let Some(Ok(first)) = results.first_mut() {
            first.ignored += others as u64;
        }
        Ok(results)
    }
}

impl Runner for BatchRunner {
    fn attempt(&mut self, index: u64, samples: &mut [Sample], keep: bool) -> JobAttempt {
        watched::park_if_ending();
        let directory = match self.unpack(index, samples) {
            Ok(directory) => directory,
            Err(failure) => return JobAttempt::failed(samples.len(), &failure, CommandLog::default()),
        };
        let origins: Vec<Origin> = samples.iter().map(Origin::of).collect();
        if !keep {
            samples.iter_mut().for_each(|sample| drop(take_buffers(sample)));
        }
        let CommandResult { verdict, stdout, log } = self.run(index, samples.len(), &directory);
        let collected = self.collect(&directory, &origins, verdict);
        let removed = directory.remove(None);
        match collected.and_then(|results| removed.map(|()| results)) {
            Ok(results) => JobAttempt { results, stdout, log },
            Err(failure) => JobAttempt::failed(samples.len(), &failure, log),
        }
    }
}

/// The sub-directory of the i-th sample of a batch.
fn name(i: usize) -> String {
    format!("{i:06}")
}
