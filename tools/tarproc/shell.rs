//! A directory and a command for every sample: the default.

use std::process::Command;
use std::sync::Arc;

use tarpipe::run::failure::Failure;
use tarpipe::run::scratch::Scratch;
use tarpipe::run::watched;
use tarpipe::sample::Sample;

use crate::command::{self, Finished, Limits, Stdout};
use crate::directory::{self, Directory};
use crate::fast::FastShell;
use crate::interpreter::Interpreter;
use crate::job::{Attempt, Way};
use crate::log::Log;
use crate::pack::{Origin, Packed, Packing};

/// What all directories of a run have in common.
pub struct Settings {
    /// What is run in them.
    pub interpreter: Interpreter,
    /// Where they are.
    pub scratch: Arc<Scratch>,
    /// How they become samples.
    pub packing: Packing,
    /// Whether they do at all.
    pub packs: bool,
    /// What a command may take.
    pub limits: Limits,
    /// Where its stdout goes.
    pub stdout: Stdout,
    /// Whether its status counts.
    pub ignore_status: bool,
}

impl Settings {
    /// Lets a bad status pass, if it should.
    pub fn judge(&self, verdict: Result<(), Failure>) -> Result<(), Failure> {
        verdict.or_else(|failure| if self.ignore_status && failure.is_status() { Ok(()) } else { Err(failure) })
    }
}

/// Runs the command in a directory of its own for each sample.
pub struct Shell {
    settings: Arc<Settings>,
    fast: Option<FastShell>,
}

impl Shell {
    /// With a fresh interpreter for each sample, or one that forks.
    pub fn new(settings: Arc<Settings>, fast: bool) -> Self {
        let fast = fast.then(|| FastShell::new(Arc::clone(&settings)));
        Shell { settings, fast }
    }

    fn unpack(&self, index: u64, sample: &Sample) -> Result<Directory, Failure> {
        let directory = Directory::create(&self.settings.scratch, format!("{index:09}"))?;
        match directory::unpack(directory.handle(), &self.settings.packing.base, sample) {
            Ok(()) => Ok(directory),
            Err(failure) => {
                _ = directory.remove(None);
                Err(failure)
            }
        }
    }

    fn run(&mut self, index: u64, sample: &Sample, directory: &Directory) -> Finished {
        if let Some(fast) = &mut self.fast {
            return fast.run(index, sample, directory);
        }
        let mut command = self.settings.interpreter.command();
        let path = directory.path();
        name_sample(&mut command, index, sample);
        command.env("PWD", &path).current_dir(path);
        command::run(command, None, self.settings.stdout, self.settings.limits)
    }

    /// What is left in the directory, which then goes away.
    fn collect(
        &self,
        directory: Directory,
        origin: &Origin,
        spare: Vec<Vec<u8>>,
        verdict: Result<(), Failure>,
    ) -> Result<Packed, Failure> {
        let entries = directory::list(directory.handle());
        let packed = self.settings.judge(verdict).and_then(|()| directory.check()).and_then(|()| {
            let listed = entries.as_ref().map_err(Clone::clone)?;
            if self.settings.packs {
                self.settings.packing.pack(directory.handle(), listed, origin, spare)
            } else {
                Ok(Packed::default())
            }
        });
        let removed = directory.remove(entries.as_deref().ok());
        packed.and_then(|packed| removed.map(|()| packed))
    }
}

impl Way for Shell {
    fn attempt(&mut self, index: u64, samples: &mut [Sample], keep: bool) -> Attempt {
        watched::wait_if_ending();
        let sample = &mut samples[0];
        let directory = match self.unpack(index, sample) {
            Ok(directory) => directory,
            Err(failure) => return Attempt::failed(1, &failure, Log::default()),
        };
        let origin = Origin::of(sample);
        let spare = if keep { Vec::new() } else { spare(sample) };
        let Finished { verdict, stdout, log } = self.run(index, sample, &directory);
        Attempt { results: vec![self.collect(directory, &origin, spare, verdict)], stdout, log }
    }
}

/// Takes the data out of a sample that no longer needs it, for the memory it stands in.
pub fn spare(sample: &mut Sample) -> Vec<Vec<u8>> {
    sample.members.iter_mut().map(|member| std::mem::take(&mut member.data)).collect()
}

/// Tells a command which sample it works on.
pub fn name_sample(command: &mut Command, index: u64, sample: &Sample) {
    command.env("TARPROC_KEY", &sample.key);
    command.env("TARPROC_SOURCE", &*sample.source);
    command.env("TARPROC_INDEX", index.to_string());
}
