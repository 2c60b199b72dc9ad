//! Puts the values of a row into its sample.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use tarpipe::sample::{Member, Sample};

use crate::tarjoin::args::OnConflict;
use crate::tarjoin::into::JoinValue;

/// Why a sample is left out: a reason code and an explanation.
pub type Refusal = (&'static str, String);

/// Puts all values into the sample. After an error the sample is not to be used.
pub fn put_values(sample: &mut Sample, values: &[JoinValue<'_>], on_conflict: OnConflict) -> Result<(), Refusal> {
    let (json, fields): (Vec<&JoinValue<'_>>, Vec<&JoinValue<'_>>) = values.iter().partition(|value| value.is_json);
    put_fields(sample, &fields, on_conflict)?;
    if json.is_empty() { Ok(()) } else { put_json(sample, &json, on_conflict) }
}

fn put_fields(sample: &mut Sample, values: &[&JoinValue<'_>], on_conflict: OnConflict) -> Result<(), Refusal> {
    // Loaders ignore the case of fields. A sample can have many.
    let folded = |field: &str| field.to_ascii_lowercase();
    let positions = sample.members.iter().enumerate().map(|(at, member)| (folded(&member.field), at));
    let mut positions: HashMap<String, usize> = positions.collect();
    for value in values {
        let header = (!value.header.is_empty()).then(|| value.header.to_vec());
        let member = Member { field: value.name.to_owned(), data: value.data.to_vec(), header };
        let Some(&at) = positions.get(&folded(value.name)) else {
            positions.insert(folded(value.name), sample.members.len());
            sample.members.push(member);
            continue;
        };
        match on_conflict {
            _ if sample.members[at].data == value.data => {}
            OnConflict::Replace => sample.members[at] = member,
            OnConflict::Keep => {}
            OnConflict::Fail => return Err(conflict(value.name)),
        }
    }
    Ok(())
}

fn conflict(place: &str) -> Refusal {
    ("conflict", format!("{place} has another value"))
}

/// Adds values to the field json, which is created if it is missing. Everything else in it stays as it is written.
fn put_json(sample: &mut Sample, values: &[&JoinValue<'_>], on_conflict: OnConflict) -> Result<(), Refusal> {
    let old = sample.get("json").map(|member| member.data.clone());
    let mut object = match &old {
        None => Vec::new(),
        Some(data) => read_object(data).map_err(|err| ("bad_json", format!("field json: {err}")))?,
    };
    let mut has_changed = old.is_none();
    for value in values {
        let text = std::str::from_utf8(value.data).unwrap_or("null");
        match object.iter_mut().rfind(|(name, _)| name == value.name) {
            None => object.push((value.name.to_owned(), text)),
            Some((_, before)) if is_equal(before, text) => continue,
            Some((_, before)) => match on_conflict {
                OnConflict::Replace => *before = text,
                OnConflict::Keep => continue,
                OnConflict::Fail => return Err(conflict(&format!("json.{}", value.name))),
            },
        }
        has_changed = true;
    }
    if has_changed {
        let written = write_object(&object);
        sample.set("json", written);
    }
    Ok(())
}

fn is_equal(one: &str, other: &str) -> bool {
    let parse = |text| serde_json::from_str::<Value>(text).ok();
    one == other || parse(one).is_some_and(|value| Some(value) == parse(other))
}

fn write_object(object: &[(String, &str)]) -> Vec<u8> {
    let mut out = vec![b'{'];
    for (at, (name, value)) in object.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
    out
}

/// Names and values of a JSON object, the values as they are written.
fn read_object(data: &[u8]) -> serde_json::Result<Vec<(String, &str)>> {
    let mut json = serde_json::Deserializer::from_slice(data);
    let object = json.deserialize_map(ObjectVisitor)?;
    json.end()?;
    Ok(object)
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Vec<(String, &'de str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            entries.push((name, value.get()));
        }
        Ok(entries)
    }
}
