//! Writes the results of jobs: samples to the archive, the stdout of commands to stdout, failed samples to their archive.

use std::io::Write;

use anyhow::{Result, bail};
use tarpipe::cli::{self, Usage};
use tarpipe::messages::{self, hints, progress};
use tarpipe::run::failure::Failure;
use tarpipe::sample::shard::ShardWriter;
use tarpipe::sample::{Member, Sample};
use tarpipe::sink::{Sink, SinkOptions};
use tarpipe::tally::Tally;

use crate::tarproc::args::{Args, OnCommandError};
use crate::tarproc::job::{JobAttempt, JobResult};
use crate::tarproc::log::CommandLog;
use crate::tarproc::pack::PackedSamples;

/// The field with the log in an archive of failed samples. It is not unpacked when they are processed again.
pub const LOG_FIELD: &str = "tarproc.log";

/// The outputs of a run. Results are written in the order they are given.
pub struct ResultWriter {
    archive: Option<ShardWriter>,
    stdout: Option<Sink>,
    failed: Option<ShardWriter>,
    on_error: OnCommandError,
    /// The field that gets the log of the command.
    log_field: Option<String>,
    tally: Tally,
    last_key: String,
    last_failed: String,
}

impl ResultWriter {
    /// Opens the outputs that the flags name.
    pub fn create(args: &Args) -> Result<Self> {
        if args.command_output && args.output.as_deref() == Some("-") {
            bail!(Usage("-O and -o - both write to stdout; use -o FILE".into()));
        }
        let options = SinkOptions { compression: args.packing.compression(), threads: args.threads(), digest: false };
        let create = |name: &String| ShardWriter::create(name, options);
        let create_failed = |name: &String| ShardWriter::create(name, SinkOptions { compression: None, ..options });
        args.output.as_deref().map(cli::refuse_terminal).transpose()?;
        args.output.iter().chain(&args.failed).try_for_each(|name| args.force.check(name))?;
        Ok(ResultWriter {
            archive: args.output.as_ref().map(create).transpose()?,
            stdout: args.prints_stdout().then(|| Sink::create("-", SinkOptions::default())).transpose()?,
            failed: args.failed.as_ref().map(create_failed).transpose()?,
            on_error: args.on_error,
            log_field: args.add_log.clone(),
            tally: Tally::default(),
            last_key: String::new(),
            last_failed: String::new(),
        })
    }

    /// Writes the result of a job.
    pub fn write(&mut self, result: JobResult) -> Result<()> {
        let JobResult { names, attempt, originals } = result;
        let JobAttempt { results, stdout, log } = attempt;
        let mut originals = originals.into_iter();
        if let Some(out) = &mut self.stdout {
            out.write_all(&stdout)?;
        }
        for ((key, source), result) in names.into_iter().zip(results) {
            let original = originals.next();
            match result.and_then(|packed| self.check_keys(packed)) {
                Ok(packed) => self.write_samples(packed, &log)?,
                Err(failure) => self.fail(&format!("{source}: {key}"), &failure, original, &log)?,
            }
        }
        Ok(())
    }

    /// Adjacent samples with the same key would be read back as one.
    fn check_keys(&self, packed: PackedSamples) -> Result<PackedSamples, Failure> {
        let mut last = self.last_key.as_str();
        for sample in &packed.samples {
            if sample.key == last {
                return Err(Failure::new("same_key", format!("the previous sample has the same key, {last}")));
            }
            last = &sample.key;
        }
        Ok(packed)
    }

    fn write_samples(&mut self, packed: PackedSamples, log: &CommandLog) -> Result<()> {
        (0..packed.ignored).for_each(|_| self.tally.drop("ignored_file"));
        let Some(archive) = &mut self.archive else {
            progress::add_sample();
            self.tally.done();
            return Ok(());
        };
        if packed.samples.is_empty() {
            self.tally.drop("emptied");
        }
        for mut sample in packed.samples {
            if let Some(field) = &self.log_field {
                sample.set(field, log.bytes().to_vec());
            }
            archive.write(&sample)?;
            self.tally.done();
            self.last_key = sample.key;
        }
        Ok(())
    }

    fn fail(&mut self, subject: &str, failure: &Failure, original: Option<Sample>, log: &CommandLog) -> Result<()> {
        if self.on_error == OnCommandError::Abort || failure.ends_run() {
            let hint = hints::for_code(messages::tool(), failure.code).filter(|_| failure.ends_run());
            bail!("{subject}: {failure}{}", hint.map(|hint| format!("; {hint}")).unwrap_or_default());
        }
        self.tally.leave_out(failure.code, subject, failure);
        let (Some(archive), Some(mut sample)) = (&mut self.failed, original) else { return Ok(()) };
        if sample.key == self.last_failed {
            // The same key in two sources. In one archive they would be read back as one sample.
            sample.rekey(format!("{}-{}", sample.key, self.tally.count_failed()));
        }
        let report = [format!("{failure}\n").as_bytes(), log.bytes()].concat();
        sample.members.push(Member::new(LOG_FIELD, report));
        archive.write(&sample)?;
        self.last_failed = sample.key;
        Ok(())
    }

    /// Finishes the outputs, so that they appear under their names.
    pub fn finish(self) -> Result<Tally> {
        for archive in [self.archive, self.failed].into_iter().flatten() {
            archive.finish()?;
        }
        if let Some(stdout) = self.stdout {
            stdout.finish()?;
        }
        Ok(self.tally)
    }
}
