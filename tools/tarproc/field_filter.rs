//! --each: filters one field of every sample through the command, without a directory, and without a shell if the
//! command is a plain call of a program.

use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Result, bail};
use tarpipe::run::failure::Failure;
use tarpipe::run::watched;
use tarpipe::sample::{Member, Sample};

use crate::tarproc::command;
use crate::tarproc::interpreter::Interpreter;
use crate::tarproc::job::{JobAttempt, Runner};
use crate::tarproc::log::CommandLog;
use crate::tarproc::pack::PackedSamples;
use crate::tarproc::settings::RunnerSettings;

/// `jpg`, or `jpg:ppm`: the input field and the output field.
#[derive(Clone, Debug)]
pub struct FilterFields {
    from: String,
    to: String,
}

impl FromStr for FilterFields {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (from, to) = text.split_once(':').unwrap_or((text, text));
        let is_field = |field: &str| {
            tarpipe::sample::member_name::split(format!("x.{field}").as_bytes()).is_ok_and(|n| n.1 == field)
        };
        if !is_field(from) || !is_field(to) {
            bail!("not of the form EXT or EXT:NEW");
        }
        Ok(FilterFields { from: from.to_owned(), to: to.to_owned() })
    }
}

/// Runs the command as a filter on a field.
pub struct FieldFilter {
    settings: Arc<RunnerSettings>,
    program: Interpreter,
    fields: FilterFields,
}

impl FieldFilter {
    pub fn new(settings: Arc<RunnerSettings>, fields: FilterFields) -> Self {
        let program = settings.interpreter.clone().without_shell();
        FieldFilter { settings, program, fields }
    }

    fn filter(
        &self,
        index: u64,
        sample: &mut Sample,
        keep: bool,
    ) -> Result<(PackedSamples, CommandLog), (Failure, CommandLog)> {
        let FilterFields { from, to } = &self.fields;
        let not_run = |failure| (failure, CommandLog::default());
        let Some(at) = sample.members.iter().position(|member| member.field == *from) else {
            return Err(not_run(Failure::new("no_field", format!("the sample has no field {from}"))));
        };
        let is_taken = |other: &Member| other.field.eq_ignore_ascii_case(to) && other.field != *from;
        if sample.members.iter().any(is_taken) {
            return Err(not_run(Failure::new("duplicate_field", format!("the sample already has a field {to}"))));
        }
        let mut command = self.program.command();
        command::name_sample(&mut command, index, sample);
        let input = Some(sample.members[at].data.as_slice());
        let finished = command::run(command, input, command::StdoutTarget::Kept, self.settings.limits);
        if let Err(failure) = self.settings.judge(finished.verdict) {
            return Err((failure, finished.log));
        }
        let mut result = if keep { sample.clone() } else { std::mem::replace(sample, emptied(sample)) };
        let old = &mut result.members[at];
        if old.field != *to || old.data != finished.stdout {
            *old = Member::new(to.as_str(), finished.stdout);
        }
        Ok((PackedSamples { samples: vec![result], ignored: 0 }, finished.log))
    }
}

/// A copy of the sample without its members.
fn emptied(sample: &Sample) -> Sample {
    Sample { key: sample.key.clone(), mtime: sample.mtime, source: Arc::clone(&sample.source), members: Vec::new() }
}

impl Runner for FieldFilter {
    fn attempt(&mut self, index: u64, samples: &mut [Sample], keep: bool) -> JobAttempt {
        watched::park_if_ending();
        match self.filter(index, &mut samples[0], keep) {
            Ok((packed, log)) => JobAttempt { results: vec![Ok(packed)], stdout: Vec::new(), log },
            Err((failure, log)) => JobAttempt::failed(1, &failure, log),
        }
    }
}
