//! Which samples an expression takes: `--select`, alike in every tool that has it.

use std::str::FromStr;
use std::sync::Arc;

use crate::messages;
use crate::sample::{Member, Sample};
use crate::tally::SharedTally;
use crate::value::expression::{Expression, Value, from_json};
use anyhow::{Context, Result};
use serde_json::{Map, Value as Json};

/// An expression over the key and the fields of a sample.
#[derive(Clone)]
pub struct Select(Arc<Expression>);

impl FromStr for Select {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Select(Arc::new(Expression::parse(text)?)))
    }
}

impl Select {
    /// Whether the expression holds. A sample for which it cannot be worked out fails as
    /// `select`.
    pub fn takes(&self, sample: &Sample, tally: &SharedTally) -> bool {
        self.decide(sample).unwrap_or_else(|err| {
            messages::detail(&format!("{}: {}: left out: {err:#}", sample.source, sample.key));
            tally.add(|tally| tally.fail("select"));
            false
        })
    }

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

/// JSON fields as values, others as text; bytes that are no text lose what is not.
fn value(member: &Member) -> Result<Json> {
    if member.field == "json" || member.field.ends_with(".json") {
        return serde_json::from_slice(&member.data).with_context(|| format!("field {}", member.field));
    }
    Ok(String::from_utf8_lossy(&member.data).into_owned().into())
}
