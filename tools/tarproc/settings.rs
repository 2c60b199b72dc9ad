//! The settings that all runners share.

use std::sync::Arc;

use tarpipe::run::failure::Failure;
use tarpipe::run::scratch::Scratch;

use crate::tarproc::command::{CommandLimits, StdoutTarget};
use crate::tarproc::interpreter::Interpreter;
use crate::tarproc::pack::PackRules;
use crate::tarproc::worker::WorkerStarts;

/// What to run, where, and what to do with the results.
pub struct RunnerSettings {
    /// What to run.
    pub interpreter: Interpreter,
    /// Where the sample directories are made.
    pub scratch: Arc<Scratch>,
    /// How directories are packed as samples.
    pub packing: PackRules,
    /// Whether directories are packed at all.
    pub packs: bool,
    /// Limits for each command.
    pub limits: CommandLimits,
    /// Where the stdout of a command goes.
    pub stdout: StdoutTarget,
    /// Whether a non-zero exit status is ignored.
    pub ignore_status: bool,
    /// What became of the --worker processes so far.
    pub worker_starts: WorkerStarts,
}

impl RunnerSettings {
    /// The result of a command, without a bad exit status if that is to be ignored.
    pub fn judge(&self, verdict: Result<(), Failure>) -> Result<(), Failure> {
        verdict.or_else(|failure| if self.ignore_status && failure.is_status() { Ok(()) } else { Err(failure) })
    }
}
