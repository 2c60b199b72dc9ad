//! Where results go: samples to the archive, what commands wrote to stdout, failures to theirs.

use std::io::Write;

use anyhow::{Result, bail};
use clap::ValueEnum;
use tarpipe::messages;
use tarpipe::messages::progress;
use tarpipe::run::failure::Failure;
use tarpipe::sample::shard::Shard;
use tarpipe::sample::{Member, Sample};
use tarpipe::sink::Sink;
use tarpipe::tally::Tally;

use crate::job::{Answer, Attempt};
use crate::log::Log;
use crate::pack::Packed;

/// The field that holds the log in an archive of failed samples. It is not unpacked again.
pub const LOG_FIELD: &str = "tarproc.log";

/// What a failure does to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// The sample is left out and counted.
    Skip,
    /// The exit status of the command does not count: what it left is packed.
    Ignore,
    /// The run ends.
    Abort,
}

/// Takes answers in order.
pub struct Outlet {
    /// Where samples go.
    pub archive: Option<Shard>,
    /// Where the stdout of commands goes.
    pub stdout: Option<Sink>,
    /// Where failed samples go.
    pub failed: Option<Shard>,
    /// Whether a failure ends the run.
    pub on_error: OnError,
    /// The field that gets the log of the command.
    pub log_field: Option<String>,
    /// What became of the samples.
    pub tally: Tally,
    last_key: String,
    last_failed: String,
}

impl Outlet {
    /// With nowhere to go yet.
    pub fn new(on_error: OnError, log_field: Option<String>) -> Self {
        let (last_key, last_failed) = (String::new(), String::new());
        Outlet {
            archive: None,
            stdout: None,
            failed: None,
            on_error,
            log_field,
            tally: Tally::default(),
            last_key,
            last_failed,
        }
    }

    /// Writes what came of a job.
    pub fn take(&mut self, answer: Answer) -> Result<()> {
        let Answer { names, attempt, originals, held: _held } = answer;
        let Attempt { results, stdout, log } = attempt;
        let mut originals = originals.into_iter();
        if let Some(out) = &mut self.stdout {
            out.write_all(&stdout)?;
        }
        for ((key, source), result) in names.into_iter().zip(results) {
            let original = originals.next();
            match result.and_then(|packed| self.check_keys(packed)) {
                Ok(packed) => self.write(packed, &log)?,
                Err(failure) => self.fail(&format!("{source}: {key}"), &failure, original, &log)?,
            }
        }
        Ok(())
    }

    /// Two samples in a row with one key would be read back as one.
    fn check_keys(&self, packed: Packed) -> Result<Packed, Failure> {
        let mut last = self.last_key.as_str();
        for sample in &packed.samples {
            if sample.key == last {
                return Err(Failure::new("same_key", format!("the sample before it has the key {last} too")));
            }
            last = &sample.key;
        }
        Ok(packed)
    }

    fn write(&mut self, packed: Packed, log: &Log) -> Result<()> {
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

    fn fail(&mut self, subject: &str, failure: &Failure, original: Option<Sample>, log: &Log) -> Result<()> {
        if self.on_error == OnError::Abort || failure.blames_machine() {
            bail!("{subject}: {failure}");
        }
        messages::detail(&format!("{subject}: left out: {failure}"));
        self.tally.fail(failure.code);
        let (Some(archive), Some(mut sample)) = (&mut self.failed, original) else { return Ok(()) };
        if sample.key == self.last_failed {
            // Of two sources with one key; archives tell samples apart by it.
            sample.rekey(format!("{}-{}", sample.key, self.tally.count_failed()));
        }
        let report = [format!("{failure}\n").as_bytes(), log.bytes()].concat();
        sample.members.push(Member::new(LOG_FIELD, report));
        archive.write(&sample)?;
        self.last_failed = sample.key;
        Ok(())
    }

    /// Ends the archives and makes them appear.
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
