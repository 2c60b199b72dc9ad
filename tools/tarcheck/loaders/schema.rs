//! The fields that Hugging Face's webdataset loader expects in every sample: those of the first samples of the first
//! shard. It refuses a dataset whose first samples differ, and drops other fields later.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::tarcheck::loaders::json_types::{JsonTypes, TypeSeen};
use crate::tarcheck::loaders::view::is_plain;
use crate::tarcheck::loaders::{Loader, LoaderResult};
use crate::tarcheck::verdict::{Finding, Verdict};

/// The number of samples from which the fields are inferred.
const FIRST: usize = 5;

/// Distinct sets of fields that are remembered per shard, and fields per set: enough for any dataset that is not broken.
const SETS: usize = 1000;
const FIELDS: usize = 1000;

/// A set of fields that samples of a shard have.
#[derive(Clone, Debug)]
struct FieldsSeen {
    samples: u64,
    offset: u64,
    key: String,
}

/// The sets of fields in one shard.
#[derive(Clone, Debug, Default)]
pub struct FieldSets {
    /// The first samples: key, offset, fields.
    first: Vec<(String, u64, BTreeSet<String>)>,
    sets: BTreeMap<BTreeSet<String>, FieldsSeen>,
    sample: BTreeSet<String>,
    types: JsonTypes,
}

impl FieldSets {
    /// Adds the value of a JSON field of the current sample.
    pub fn add_json(&mut self, field: &str, value: &Value, at: &TypeSeen) {
        let is_first = self.first.len() < FIRST;
        self.types.add(field.to_owned(), value, is_first, at);
    }

    /// Adds a field to the current sample.
    pub fn add(&mut self, field: &str) {
        if !field.is_empty() && self.sample.len() < FIELDS {
            self.sample.insert(field.to_owned());
        }
    }

    /// Ends the current sample of the loader.
    pub fn end_sample(&mut self, key: &str, offset: u64) {
        let fields = std::mem::take(&mut self.sample);
        if self.first.len() < FIRST {
            self.first.push((key.to_owned(), offset, fields.clone()));
        }
        if let Some(seen) = self.sets.get_mut(&fields) {
            seen.samples += 1;
        } else if self.sets.len() < SETS {
            self.sets.insert(fields, FieldsSeen { samples: 1, offset, key: key.to_owned() });
        }
    }
}

/// Compares the fields of all samples with those of the first ones, and adds what Hugging Face's loader makes of them.
pub fn check_schema(verdicts: &mut [Verdict], show: usize) {
    let Some(first) = verdicts.first().and_then(|verdict| verdict.field_sets.clone()) else { return };
    let Some((_, _, expected)) = first.first.first() else { return };
    if let Some((key, offset, fields)) = first.first.iter().find(|(_, _, fields)| fields != expected) {
        let what = format!(
            "hf: fails because the first {FIRST} samples differ: fields {} here, {} in the first sample",
            list(fields),
            list(expected)
        );
        let repair = command("-f", &common(&first, expected));
        let finding = Finding { code: "loader_fails", offset: *offset, sample: Some(key.clone()), what, repair };
        add(&mut verdicts[0], finding, show, |result| result.fails += 1);
        return;
    }
    if let Some((path, at)) = &first.types.conflict {
        let what = format!("hf: fails because the values of {path} in the first {FIRST} samples have different types");
        add(&mut verdicts[0], failure(at, what), show, |result| result.fails += 1);
        return;
    }
    for verdict in verdicts {
        let Some(sets) = verdict.field_sets.take() else { continue };
        for (path, at) in sets.types.refused_by(&first.types) {
            let what = format!("hf: fails on {path}, whose type is unlike that in the first {FIRST} samples");
            add(verdict, failure(at, what), show, |result| result.fails += 1);
        }
        for (fields, seen) in &sets.sets {
            let others: BTreeSet<String> = fields.difference(expected).cloned().collect();
            if !others.is_empty() {
                let what = format!(
                    "hf: drops field {} of {} such samples: the first {FIRST} samples do not have it",
                    list(&others),
                    seen.samples
                );
                let repair = command("--drop", &others);
                let sample = Some(seen.key.clone());
                let finding = Finding { code: "loader_loses", offset: seen.offset, sample, what, repair };
                add(verdict, finding, show, |result| result.lost += seen.samples);
            }
        }
    }
}

fn common(first: &FieldSets, expected: &BTreeSet<String>) -> BTreeSet<String> {
    let in_all = |field: &&String| first.first.iter().all(|(_, _, fields)| fields.contains(*field));
    expected.iter().filter(in_all).cloned().collect()
}

fn failure(at: &TypeSeen, what: String) -> Finding {
    Finding { code: "loader_fails", offset: at.offset, sample: Some(at.key.clone()), what, repair: None }
}

/// The command that applies a flag of tarcat to some fields.
fn command(flag: &str, fields: &BTreeSet<String>) -> Option<String> {
    let fields = list(fields);
    (!fields.is_empty() && is_plain(&fields)).then(|| format!("tarcat {flag} '{fields}' {{}} -o fixed.tar"))
}

fn list(fields: &BTreeSet<String>) -> String {
    fields.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn add(verdict: &mut Verdict, finding: Finding, show: usize, count: impl FnOnce(&mut LoaderResult)) {
    if let Some(result) = verdict.loaders.iter_mut().find(|result| result.loader == Loader::Hf) {
        count(result);
    }
    verdict.add(finding, show);
}
