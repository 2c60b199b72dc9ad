//! One field of every sample through a filter: no directory, and no shell where the command is
//! nothing but a program.

use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Result, bail};
use tarpipe::run::failure::Failure;
use tarpipe::run::watched;
use tarpipe::sample::{Member, Sample};

use crate::command;
use crate::interpreter::Interpreter;
use crate::job::{Attempt, Way};
use crate::log::Log;
use crate::pack::Packed;
use crate::shell::{Settings, name_sample};

/// `jpg`, or `jpg:ppm`: the field that goes in and the one that comes out.
#[derive(Clone, Debug)]
pub struct Fields {
    from: String,
    to: String,
}

impl FromStr for Fields {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (from, to) = text.split_once(':').unwrap_or((text, text));
        let is_field = |field: &str| {
            tarpipe::sample::member_name::split(format!("x.{field}").as_bytes()).is_ok_and(|n| n.1 == field)
        };
        if !is_field(from) || !is_field(to) {
            bail!("not of the form EXT or EXT:NEW");
        }
        Ok(Fields { from: from.to_owned(), to: to.to_owned() })
    }
}

/// Runs a filter on a field.
pub struct Each {
    settings: Arc<Settings>,
    program: Interpreter,
    fields: Fields,
}

impl Each {
    /// Filters these fields.
    pub fn new(settings: Arc<Settings>, fields: Fields) -> Self {
        let program = settings.interpreter.clone().shortest();
        Each { settings, program, fields }
    }

    fn filter(&self, index: u64, sample: &mut Sample, keep: bool) -> Result<(Packed, Log), (Failure, Log)> {
        let Fields { from, to } = &self.fields;
        let none = |failure| (failure, Log::default());
        let Some(at) = sample.members.iter().position(|member| member.field == *from) else {
            return Err(none(Failure::new("no_field", format!("the sample has no field {from}"))));
        };
        let is_taken = |other: &Member| other.field.eq_ignore_ascii_case(to) && other.field != *from;
        if sample.members.iter().any(is_taken) {
            return Err(none(Failure::new("duplicate_field", format!("the sample has a field {to} already"))));
        }
        let mut command = self.program.command();
        name_sample(&mut command, index, sample);
        let input = Some(sample.members[at].data.as_slice());
        let finished = command::run(command, input, command::Stdout::Kept, self.settings.limits);
        if let Err(failure) = self.settings.judge(finished.verdict) {
            return Err((failure, finished.log));
        }
        let mut result = if keep { sample.clone() } else { std::mem::replace(sample, emptied(sample)) };
        let old = &mut result.members[at];
        if old.field != *to || old.data != finished.stdout {
            *old = Member::new(to.as_str(), finished.stdout);
        }
        Ok((Packed { samples: vec![result], ignored: 0 }, finished.log))
    }
}

/// The same sample without its members.
fn emptied(sample: &Sample) -> Sample {
    Sample { key: sample.key.clone(), mtime: sample.mtime, source: Arc::clone(&sample.source), members: Vec::new() }
}

impl Way for Each {
    fn attempt(&mut self, index: u64, samples: &mut [Sample], keep: bool) -> Attempt {
        watched::wait_if_ending();
        match self.filter(index, &mut samples[0], keep) {
            Ok((packed, log)) => Attempt { results: vec![Ok(packed)], stdout: Vec::new(), log },
            Err((failure, log)) => Attempt::failed(1, &failure, log),
        }
    }
}
