//! Groups samples into jobs: selects them by position and drops unwanted fields.

use anyhow::Result;
use tarpipe::sample::Sample;
use tarpipe::value::slice::Slice;

use crate::tarproc::job::CommandJob;
use crate::tarproc::output::LOG_FIELD;

/// The samples that become jobs, the fields they keep, and how many go into one job.
pub struct JobSelection {
    /// The positions of the samples in the input.
    pub slice: Slice,
    /// The fields to unpack; None for all.
    pub fields: Option<Vec<String>>,
    /// Samples per job.
    pub batch: usize,
}

/// Jobs for the workers.
pub struct Jobs<I> {
    samples: I,
    selection: JobSelection,
    position: u64,
}

impl<I: Iterator<Item = Result<Sample>>> Jobs<I> {
    pub fn new(samples: I, selection: JobSelection) -> Self {
        Jobs { samples, selection, position: 0 }
    }

    /// The next selected sample and its position.
    fn next_sample(&mut self) -> Option<Result<(u64, Sample)>> {
        while !self.selection.slice.is_over(self.position) {
            let sample = self.samples.next()?;
            self.position += 1;
            match sample {
                Err(err) => return Some(Err(err)),
                Ok(mut sample) if self.selection.slice.has(self.position - 1) => {
                    let wanted =
                        |field: &String| self.selection.fields.as_ref().is_none_or(|fields| fields.contains(field));
                    sample.members.retain(|member| wanted(&member.field) && member.field != LOG_FIELD);
                    return Some(Ok((self.position - 1, sample)));
                }
                Ok(_) => {}
            }
        }
        None
    }
}

impl<I: Iterator<Item = Result<Sample>>> Iterator for Jobs<I> {
    type Item = Result<CommandJob>;

    fn next(&mut self) -> Option<Result<CommandJob>> {
        let mut first = None;
        let mut samples = Vec::with_capacity(self.selection.batch.min(64));
        while samples.len() < self.selection.batch {
            match self.next_sample() {
                None => break,
                Some(Err(err)) => return Some(Err(err)),
                Some(Ok((position, sample))) => {
                    first.get_or_insert(position);
                    samples.push(sample);
                }
            }
        }
        first.map(|index| Ok(CommandJob { index, samples }))
    }
}
