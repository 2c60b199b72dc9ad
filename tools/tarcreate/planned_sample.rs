//! The items of an input: samples to make, and items that are left out.

use std::sync::Arc;

use tarpipe::sample::fields::FieldSet;
use tarpipe::sample::member_name;

use crate::tarcreate::content::Content;

/// The position of an item in its input, for messages.
#[derive(Clone, Debug)]
pub struct InputPosition {
    /// The display name of the plan, table or folder.
    pub source: Arc<str>,
    /// `line`, `row` or `file`.
    pub noun: &'static str,
    /// Counted from 1.
    pub number: u64,
}

impl std::fmt::Display for InputPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} {}", self.source, self.noun, self.number)
    }
}

/// A sample to make: its key, and where the content of each field is.
#[derive(Debug)]
pub struct PlannedSample {
    pub position: InputPosition,
    pub key: String,
    pub fields: Vec<(String, Content)>,
}

/// Why an item is left out.
#[derive(Debug)]
pub struct ItemRefusal {
    pub code: &'static str,
    pub why: String,
    /// Whether it was never meant to be part of a sample, such as a dot file: dropped, not failed.
    pub harmless: bool,
}

impl ItemRefusal {
    pub fn new(code: &'static str, why: impl Into<String>) -> Self {
        ItemRefusal { code, why: why.into(), harmless: false }
    }
}

/// One item of an input.
pub type PlannedItem = Result<PlannedSample, (InputPosition, ItemRefusal)>;

impl PlannedSample {
    /// The sample, if its member names are valid and are read back as the same key and fields.
    pub fn checked(self) -> PlannedItem {
        match self.refusal() {
            None => Ok(self),
            Some(refusal) => Err((self.position, refusal)),
        }
    }

    fn refusal(&self) -> Option<ItemRefusal> {
        if let Err(unfit) = member_name::check_key(&self.key) {
            let code = if unfit.is_harmless() { "bad_key" } else { unfit.code() };
            return Some(ItemRefusal::new(code, format!("'{}' cannot be a key: {unfit}", self.key)));
        }
        if self.fields.is_empty() {
            return Some(ItemRefusal::new("no_field", format!("sample {} has no field", self.key)));
        }
        let mut seen = FieldSet::default();
        for (field, _) in &self.fields {
            let path = format!("{}.{field}", self.key);
            if member_name::split(path.as_bytes()) != Ok((&self.key, field)) {
                return Some(ItemRefusal::new("bad_field", format!("'{field}' cannot be a field")));
            }
            if let Err(refusal) = seen.add(field) {
                return Some(ItemRefusal::new(refusal.code(), format!("sample {}: field {field} {refusal}", self.key)));
            }
        }
        None
    }
}
