//! Fields of samples: a set that finds duplicates within one sample, and counts
//! of fields over many samples. Both are bounded, whatever the input.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// Up to this many fields are compared one by one, which is faster than
/// hashing; nearly all samples have fewer.
const FEW: usize = 32;

/// The maximum number of fields of a sample; the set takes 50 MB then.
const MOST: usize = 1 << 20;

/// The maximum number of distinct fields that are counted by name.
const NAMED: usize = 10_000;

/// The fields of one sample. Fields that differ only in (ASCII) case are
/// duplicates, because loaders ignore the case.
///
/// ```
/// use tarpipe::sample::fields::{FieldRefusal, FieldSet};
///
/// let mut fields = FieldSet::default();
/// assert_eq!(fields.add("jpg"), Ok(()));
/// assert_eq!(fields.add("JPG"), Err(FieldRefusal::Twice));
/// ```
#[derive(Default)]
pub struct FieldSet {
    few: Vec<String>,
    /// A hash of 128 bits of each field, once there are many, however long
    /// their names are.
    many: HashSet<[u64; 2]>,
    salt: RandomState,
}

/// Why a field is refused. `Display` completes the sentence "field jpg …".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRefusal {
    /// The sample has this field already.
    Twice,
    /// The sample has 2²⁰ fields already.
    TooMany,
}

impl FieldSet {
    /// Adds a field, unless it is a duplicate or there are too many. A refused
    /// field does not change the set.
    pub fn add(&mut self, field: &str) -> Result<(), FieldRefusal> {
        let folded = field.to_ascii_lowercase();
        if self.many.is_empty() && self.few.len() < FEW {
            if self.few.contains(&folded) {
                return Err(FieldRefusal::Twice);
            }
            self.few.push(folded);
            return Ok(());
        }
        for field in self.few.drain(..) {
            self.many.insert(hash(&self.salt, &field));
        }
        let hash = hash(&self.salt, &folded);
        if self.many.contains(&hash) {
            return Err(FieldRefusal::Twice);
        }
        if self.many.len() == MOST {
            return Err(FieldRefusal::TooMany);
        }
        self.many.insert(hash);
        Ok(())
    }

    /// Empties the set for the next sample. Keeps its memory.
    pub fn clear(&mut self) {
        self.few.clear();
        self.many.clear();
    }
}

/// Two hashes with a secret key: nobody can construct fields that collide.
fn hash(salt: &RandomState, field: &str) -> [u64; 2] {
    [salt.hash_one((0, field)), salt.hash_one((1, field))]
}

impl FieldRefusal {
    /// The stable reason code, `duplicate_field` or `too_many_fields`.
    pub fn code(self) -> &'static str {
        match self {
            FieldRefusal::Twice => "duplicate_field",
            FieldRefusal::TooMany => "too_many_fields",
        }
    }
}

impl fmt::Display for FieldRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldRefusal::Twice => f.write_str("appears twice"),
            FieldRefusal::TooMany => write!(f, "is too many: a sample can have at most {MOST} fields"),
        }
    }
}

/// How many members have which field, case included. Only the first 10,000
/// distinct fields are counted by name, so that a stream whose fields are all
/// different needs constant memory.
#[derive(Clone, Debug, Default)]
pub struct FieldCounts {
    named: BTreeMap<String, u64>,
    others: u64,
}

impl FieldCounts {
    /// Counts one member with this field.
    pub fn add(&mut self, field: &str) {
        if let Some(count) = self.named.get_mut(field) {
            *count += 1;
        } else if self.named.len() < NAMED {
            self.named.insert(field.to_owned(), 1);
        } else {
            self.others += 1;
        }
    }

    /// The fields that are counted by name, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    /// Sets `fields` of a JSON object to the counts and, if there were more
    /// than 10,000 fields, `other_fields` to the number of members with any
    /// other field.
    pub fn put_into(&self, object: &mut serde_json::Value) {
        object["fields"] = serde_json::json!(self.named);
        if self.others > 0 {
            object["other_fields"] = self.others.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_field_is_found_among_few_and_many() {
        for count in [1, FEW - 1, FEW, FEW + 1, 5000] {
            let mut fields = FieldSet::default();
            (0..count).for_each(|i| assert_eq!(fields.add(&format!("f{i}.jpg")), Ok(()), "{count}"));
            for twice in [0, count / 2, count - 1] {
                assert_eq!(fields.add(&format!("F{twice}.JPG")), Err(FieldRefusal::Twice), "{count}: {twice}");
            }
            assert_eq!(fields.add("new"), Ok(()));
            fields.clear();
            assert_eq!(fields.add("f0.jpg"), Ok(()));
        }
    }

    #[test]
    fn the_number_of_fields_of_a_sample_is_limited() {
        let mut fields = FieldSet::default();
        let refused = (0..).find_map(|i: usize| fields.add(&i.to_string()).err().map(|refusal| (i, refusal)));
        assert_eq!(refused, Some((MOST, FieldRefusal::TooMany)));
    }

    #[test]
    fn a_limited_number_of_fields_is_counted_by_name() {
        let mut counts = FieldCounts::default();
        (0..NAMED + 5).for_each(|i| counts.add(&i.to_string()));
        counts.add("7");
        let mut object = serde_json::json!({});
        counts.put_into(&mut object);
        assert_eq!(
            (counts.names().count(), &object["fields"]["7"], &object["other_fields"]),
            (NAMED, &2.into(), &5.into())
        );
    }
}
