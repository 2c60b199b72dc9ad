//! Runs the command in a directory per sample, with a new shell or a forking one: the default.

use std::sync::Arc;

use tarpipe::run::failure::Failure;
use tarpipe::run::watched;
use tarpipe::sample::Sample;

use crate::tarproc::command::{self, CommandResult};
use crate::tarproc::directory::{self, SampleDirectory};
use crate::tarproc::forking_shell::ForkingShell;
use crate::tarproc::job::{JobAttempt, Runner, take_buffers};
use crate::tarproc::log::CommandLog;
use crate::tarproc::pack::{Origin, PackedSamples};
use crate::tarproc::settings::RunnerSettings;

/// Runs the command on one sample at a time, each in a directory of its own.
pub struct ShellRunner {
    settings: Arc<RunnerSettings>,
    forking: Option<ForkingShell>,
}

impl ShellRunner {
    /// With a new interpreter per sample, or one that forks.
    pub fn new(settings: Arc<RunnerSettings>, forks: bool) -> Self {
        let forking = forks.then(|| ForkingShell::new(Arc::clone(&settings)));
        ShellRunner { settings, forking }
    }

    fn unpack(&self, index: u64, sample: &Sample) -> Result<SampleDirectory, Failure> {
        let directory = SampleDirectory::create(&self.settings.scratch, format!("{index:09}"))?;
        match directory::unpack(directory.handle(), &self.settings.packing.base, sample) {
            Ok(()) => Ok(directory),
            Err(failure) => {
                _ = directory.remove(None);
                Err(failure)
            }
        }
    }

    fn run(&mut self, index: u64, sample: &Sample, directory: &SampleDirectory) -> CommandResult {
        if let Some(shell) = &mut self.forking {
            return shell.run(index, sample, directory);
        }
        let mut command = self.settings.interpreter.command();
        let path = directory.path();
        command::name_sample(&mut command, index, sample);
        command.env("PWD", &path).current_dir(path);
        command::run(command, None, self.settings.stdout, self.settings.limits)
    }

    /// Packs the directory and removes it.
    fn collect(
        &self,
        directory: SampleDirectory,
        origin: &Origin,
        buffers: Vec<Vec<u8>>,
        verdict: Result<(), Failure>,
    ) -> Result<PackedSamples, Failure> {
        let entries = directory::list(directory.handle());
        let packed = self.settings.judge(verdict).and_then(|()| directory.check()).and_then(|()| {
            let listed = entries.as_ref().map_err(Clone::clone)?;
            if self.settings.packs {
                self.settings.packing.pack(directory.handle(), listed, origin, buffers)
            } else {
                Ok(PackedSamples::default())
            }
        });
        let removed = directory.remove(entries.as_deref().ok());
        packed.and_then(|packed| removed.map(|()| packed))
    }
}

impl Runner for ShellRunner {
    fn attempt(&mut self, index: u64, samples: &mut [Sample], keep: bool) -> JobAttempt {
        watched::park_if_ending();
        let sample = &mut samples[0];
        let directory = match self.unpack(index, sample) {
            Ok(directory) => directory,
            Err(failure) => return JobAttempt::failed(1, &failure, CommandLog::default()),
        };
        let origin = Origin::of(sample);
        let buffers = if keep { Vec::new() } else { take_buffers(sample) };
        let CommandResult { verdict, stdout, log } = self.run(index, sample, &directory);
        JobAttempt { results: vec![self.collect(directory, &origin, buffers, verdict)], stdout, log }
    }
}
