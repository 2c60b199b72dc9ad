//! `--select EXPRESSION`: which samples to keep, with the same semantics in
//! every tool that has the flag.
//!
//! Variables of the expression are `key`, `fields` (a list of names), `sample`
//! (a map of all fields) and each field by its own name. Fields that end in
//! `json` are parsed; all others are text. Only what the expression refers to
//! is converted.

use std::str::FromStr;
use std::sync::Arc;

use crate::sample::{Member, Sample};
use crate::tally::SharedTally;
use crate::value::expression::{Expression, Value, from_json};
use anyhow::{Context, Result};
use serde_json::{Map, Value as Json};

/// A compiled `--select` expression. Cheap to clone, and can be used from
/// several threads.
///
/// ```
/// use tarpipe::sample::select::Select;
/// use tarpipe::sample::{Member, Sample};
/// use tarpipe::tally::SharedTally;
///
/// let select: Select = "json.width >= 256 && 'jpg' in fields".parse()?;
/// let members = vec![Member::new("jpg", vec![]), Member::new("json", br#"{"width": 300}"#.to_vec())];
/// let cat = Sample { key: "cat".into(), mtime: 0, source: "stdin".into(), members };
/// let tally = SharedTally::default();
/// assert!(select.takes(&cat, &tally));
/// # anyhow::Ok(())
/// ```
#[derive(Clone)]
pub struct Select(Arc<Expression>);

impl FromStr for Select {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Select(Arc::new(Expression::parse(text)?)))
    }
}

impl Select {
    /// Evaluates the expression for a sample. If that fails, because a field is
    /// missing or not JSON, the sample is counted as failed with the code
    /// `select`, the reason is reported with `-v`, and the result is false.
    pub fn takes(&self, sample: &Sample, tally: &SharedTally) -> bool {
        self.decide(sample).unwrap_or_else(|err| {
            let item = format!("{}: {}", sample.source, sample.key);
            tally.add(|tally| tally.leave_out("select", &item, &format_args!("{err:#}")));
            false
        })
    }

    /// Provides the variables that the expression refers to and evaluates it.
    fn decide(&self, sample: &Sample) -> Result<bool> {
        let mut variables = Vec::new();
        for name in self.0.variables() {
            let value = match name.as_str() {
                "key" => Some(sample.key.as_str().into()),
                "fields" => Some(field_list(sample)),
                "sample" => Some(from_json(whole(sample)?)),
                field => sample.get(field).map(|member| value(member).map(from_json)).transpose()?,
            };
            variables.extend(value.map(|value| (name.as_str(), value)));
        }
        self.0.holds(variables)
    }
}

fn field_list(sample: &Sample) -> Value {
    from_json(sample.members.iter().map(|member| member.field.as_str()).collect())
}

fn whole(sample: &Sample) -> Result<Json> {
    let fields = sample.members.iter().map(|member| Ok((member.field.clone(), value(member)?)));
    Ok(Json::Object(fields.collect::<Result<Map<String, Json>>>()?))
}

/// JSON fields as values, others as text, with invalid UTF-8 replaced.
fn value(member: &Member) -> Result<Json> {
    if member.field == "json" || member.field.ends_with(".json") {
        return serde_json::from_slice(&member.data).with_context(|| format!("field {}", member.field));
    }
    Ok(String::from_utf8_lossy(&member.data).into_owned().into())
}
