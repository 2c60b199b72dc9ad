//! The types of values in JSON fields. Hugging Face's loader infers a table's columns from the first samples of the first
//! shard: it fails if those disagree, and on later values that cannot be converted.

use std::collections::BTreeMap;

use serde_json::Value;

/// Paths that are remembered per shard; more occur where keys are data.
const PATHS: usize = 10_000;

/// The type of a value. Text that is a number can become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JsonType {
    Null,
    Bool,
    Integer,
    Float,
    Text,
    NumericText,
    List,
    Object,
}

/// A value of a type: the first one in the shard.
#[derive(Clone, Debug)]
pub struct TypeSeen {
    pub offset: u64,
    pub key: String,
}

/// The types of all values in a shard, by path.
#[derive(Clone, Debug, Default)]
pub struct JsonTypes {
    /// The types in the first samples, and the first disagreement in them.
    inferred: BTreeMap<String, JsonType>,
    pub conflict: Option<(String, TypeSeen)>,
    seen: BTreeMap<(String, JsonType), TypeSeen>,
}

impl JsonType {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Bool,
            Value::Number(number) if number.is_f64() => JsonType::Float,
            Value::Number(_) => JsonType::Integer,
            Value::String(text) if text.trim().parse::<f64>().is_ok() => JsonType::NumericText,
            Value::String(_) => JsonType::Text,
            Value::Array(_) => JsonType::List,
            Value::Object(_) => JsonType::Object,
        }
    }

    /// Both types as one column; None if they have none in common.
    fn merged(self, other: Self) -> Option<Self> {
        use JsonType::{Null, NumericText, Text};
        match (self, other) {
            (Null, kind) | (kind, Null) => Some(kind),
            (Text | NumericText, Text | NumericText) => Some(Text),
            (kind, same) if kind == same => Some(kind),
            _ => None,
        }
    }

    /// Whether a column of this type takes a later value of another one.
    fn takes(self, later: Self) -> bool {
        use JsonType::{Bool, Float, Integer, List, Null, NumericText, Object, Text};
        later == Null
            || match self {
                Bool | Text | NumericText => true,
                Integer | Float => matches!(later, Bool | Integer | Float | NumericText),
                Null | List | Object => later == self,
            }
    }
}

impl JsonTypes {
    /// Adds the value at a path, and the values in it. `is_first` says that the columns are still being inferred.
    pub fn add(&mut self, path: String, value: &Value, is_first: bool, at: &TypeSeen) {
        if self.seen.len() >= PATHS {
            return;
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    self.add(format!("{path}.{name}"), member, is_first, at);
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.add(format!("{path}[]"), item, is_first, at);
                }
            }
            _ => {}
        }
        let kind = JsonType::of(value);
        if is_first {
            let before = self.inferred.get(&path).copied().unwrap_or(kind);
            match before.merged(kind) {
                Some(merged) => _ = self.inferred.insert(path.clone(), merged),
                None => _ = self.conflict.get_or_insert_with(|| (path.clone(), at.clone())),
            }
        }
        self.seen.entry((path, kind)).or_insert_with(|| at.clone());
    }

    /// The first values of each path that the columns inferred from `first` do not take.
    pub fn refused_by<'a>(&'a self, first: &'a JsonTypes) -> impl Iterator<Item = (&'a str, &'a TypeSeen)> {
        self.seen.iter().filter_map(|((path, kind), seen)| {
            let column = first.inferred.get(path)?;
            (!column.takes(*kind)).then_some((path.as_str(), seen))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn types(first: &Value, later: &Value) -> (bool, Vec<String>) {
        let mut types = JsonTypes::default();
        let at = TypeSeen { offset: 0, key: String::new() };
        types.add("json".into(), first, true, &at);
        types.add("json".into(), later, false, &at);
        let refused = types.refused_by(&types).map(|(path, _)| path.to_owned()).collect();
        (types.conflict.is_some(), refused)
    }

    #[test]
    fn later_values_must_convert_to_the_columns_of_the_first_samples() {
        for (first, later, refused) in [
            (json!({"a": 1}), json!({"a": 2.5}), vec![]),
            (json!({"a": 1}), json!({"a": "x"}), vec!["json.a"]),
            (json!({"a": 1}), json!({"a": "7", "new": 1}), vec![]),
            (json!({"a": null}), json!({"a": 1}), vec!["json.a"]),
            (json!({"a": "x"}), json!({"a": [1]}), vec![]),
            (json!({"a": [1]}), json!({"a": ["x"]}), vec!["json.a[]"]),
            (json!([1]), json!({"a": 1}), vec!["json"]),
        ] {
            let expected = refused.into_iter().map(str::to_owned).collect();
            assert_eq!(types(&first, &later), (false, expected), "{first} {later}");
        }
    }

    #[test]
    fn the_first_samples_must_agree() {
        assert!(types(&json!([1, 2.5]), &json!(null)).0);
        assert!(!types(&json!([null, "7", "x"]), &json!(null)).0);
    }
}
