//! Fields: those of one sample, so that none stands twice; and how often each is there, in many.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// So many are looked at one by one, which is quicker than a hash; nearly all samples have fewer.
const FEW: usize = 32;

/// A sample has no more than these: what is kept of its fields takes 50 MB then.
const MOST: usize = 1 << 20;

/// So many are counted by name.
const NAMED: usize = 10_000;

/// The fields of a sample as they come. Loaders fold their case, so two that differ only there are one.
#[derive(Default)]
pub struct Fields {
    few: Vec<String>,
    /// 128 bits of each once they are many, however long their names are.
    many: HashSet<[u64; 2]>,
    salt: RandomState,
}

/// Why a field is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sample has it already.
    Twice,
    /// The sample has too many.
    TooMany,
}

impl Fields {
    /// Takes in the next one.
    pub fn add(&mut self, field: &str) -> Result<(), Refusal> {
        let folded = field.to_ascii_lowercase();
        if self.many.is_empty() && self.few.len() < FEW {
            if self.few.contains(&folded) {
                return Err(Refusal::Twice);
            }
            self.few.push(folded);
            return Ok(());
        }
        for field in self.few.drain(..) {
            self.many.insert(hash(&self.salt, &field));
        }
        let hash = hash(&self.salt, &folded);
        if self.many.contains(&hash) {
            return Err(Refusal::Twice);
        }
        if self.many.len() == MOST {
            return Err(Refusal::TooMany);
        }
        self.many.insert(hash);
        Ok(())
    }

    /// The next sample begins.
    pub fn clear(&mut self) {
        self.few.clear();
        self.many.clear();
    }
}

fn hash(salt: &RandomState, field: &str) -> [u64; 2] {
    [salt.hash_one((0, field)), salt.hash_one((1, field))]
}

impl Refusal {
    /// The stable reason code.
    pub fn code(self) -> &'static str {
        match self {
            Refusal::Twice => "duplicate_field",
            Refusal::TooMany => "too_many_fields",
        }
    }
}

/// What follows the name of the field in a message.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Twice => f.write_str("stands twice"),
            Refusal::TooMany => write!(f, "is one too many: a sample has at most {MOST}"),
        }
    }
}

/// How many members have which field. The first 10,000 names are kept: in a stream whose fields are all different,
/// nothing grows.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    named: BTreeMap<String, u64>,
    others: u64,
}

impl Counts {
    /// Another member with this field.
    pub fn add(&mut self, field: &str) {
        if let Some(count) = self.named.get_mut(field) {
            *count += 1;
        } else if self.named.len() < NAMED {
            self.named.insert(field.to_owned(), 1);
        } else {
            self.others += 1;
        }
    }

    /// The fields that are counted by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    /// Puts `fields` into an object, and `other_fields` where there are more than those.
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
    fn a_field_that_stands_twice_is_found_among_few_and_many() {
        for count in [1, FEW - 1, FEW, FEW + 1, 5000] {
            let mut fields = Fields::default();
            (0..count).for_each(|i| assert_eq!(fields.add(&format!("f{i}.jpg")), Ok(()), "{count}"));
            for twice in [0, count / 2, count - 1] {
                assert_eq!(fields.add(&format!("F{twice}.JPG")), Err(Refusal::Twice), "{count}: {twice}");
            }
            assert_eq!(fields.add("new"), Ok(()));
            fields.clear();
            assert_eq!(fields.add("f0.jpg"), Ok(()));
        }
    }

    #[test]
    fn there_is_an_end_to_the_fields_of_a_sample() {
        let mut fields = Fields::default();
        let refused = (0..).find_map(|i: usize| fields.add(&i.to_string()).err().map(|refusal| (i, refusal)));
        assert_eq!(refused, Some((MOST, Refusal::TooMany)));
    }

    #[test]
    fn only_so_many_fields_are_counted_by_name() {
        let mut counts = Counts::default();
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
