//! What recipes are made of: samples to be, and what is refused.

use std::sync::Arc;

use tarpipe::sample::fields::Fields;
use tarpipe::sample::member_name;

use crate::content::Content;

/// Where something was asked for.
#[derive(Clone, Debug)]
pub struct Place {
    /// The plan, table or folder, as messages call it.
    pub source: Arc<str>,
    /// `line`, `row` or `file`.
    pub noun: &'static str,
    /// Its number there, from 1.
    pub number: u64,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} {}", self.source, self.noun, self.number)
    }
}

/// A sample to be.
#[derive(Debug)]
pub struct Job {
    pub place: Place,
    pub key: String,
    pub fields: Vec<(String, Content)>,
}

/// Why something is left out.
#[derive(Debug)]
pub struct Refusal {
    pub code: &'static str,
    pub why: String,
    /// Whether it was never meant to be part of a sample.
    pub harmless: bool,
}

impl Refusal {
    pub fn new(code: &'static str, why: impl Into<String>) -> Self {
        Refusal { code, why: why.into(), harmless: false }
    }
}

/// One item of a recipe.
pub type Item = Result<Job, (Place, Refusal)>;

impl Job {
    /// The job, if its names can stand in an archive and give back what they were made of.
    pub fn checked(self) -> Item {
        match self.refusal() {
            None => Ok(self),
            Some(refusal) => Err((self.place, refusal)),
        }
    }

    fn refusal(&self) -> Option<Refusal> {
        if let Err(unfit) = member_name::check_key(&self.key) {
            let code = if unfit.is_harmless() { "bad_key" } else { unfit.code() };
            return Some(Refusal::new(code, format!("'{}' cannot be a key: {unfit}", self.key)));
        }
        if self.fields.is_empty() {
            return Some(Refusal::new("no_field", format!("sample {} has no field", self.key)));
        }
        let mut seen = Fields::default();
        for (field, _) in &self.fields {
            let path = format!("{}.{field}", self.key);
            if member_name::split(path.as_bytes()) != Ok((&self.key, field)) {
                return Some(Refusal::new("bad_field", format!("'{field}' cannot be a field")));
            }
            if let Err(refusal) = seen.add(field) {
                return Some(Refusal::new(refusal.code(), format!("sample {}: field {field} {refusal}", self.key)));
            }
        }
        None
    }
}
