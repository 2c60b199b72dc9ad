//! `VALUE[=COLUMN]`, what samples and rows are matched by: `--on` of tarjoin and
//! tarcat.

use std::borrow::Cow;
use std::str::FromStr;

use serde_json::Value;

use super::Sample;
use super::field_path::{FieldValue, value_at};

/// The value of a sample, and the column of a table that it is compared with.
///
/// ```
/// use tarpipe::sample::join_on::JoinOn;
///
/// let on: JoinOn = "json.url".parse()?;
/// assert_eq!((on.value.as_str(), on.column.as_str()), ("json.url", "url"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct JoinOn {
    /// `key`, or the path of a value in the sample; see
    /// [`super::field_path`].
    pub value: String,
    /// The column; by default the last part of the value.
    pub column: String,
}

impl FromStr for JoinOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (value, column) = text.split_once('=').unwrap_or((text, text.rsplit('.').next().unwrap_or(text)));
        if value.is_empty() || column.is_empty() {
            return Err("expected VALUE or VALUE=COLUMN".into());
        }
        Ok(JoinOn { value: value.to_owned(), column: column.to_owned() })
    }
}

impl JoinOn {
    /// Returns true if samples are matched by their key, which is known before
    /// their data is read.
    pub fn is_key(&self) -> bool {
        self.value == "key"
    }

    /// The value of a sample as text; fields without blanks at both ends. None
    /// if it has no such value, null, or a field that is not UTF-8.
    pub fn of<'a>(&self, sample: &'a Sample) -> Option<Cow<'a, str>> {
        if self.is_key() {
            return Some(Cow::Borrowed(&sample.key));
        }
        let find = |field: &str| sample.get(field).map(|member| member.data.as_slice());
        match value_at(&self.value, find)? {
            FieldValue::Content(data) => std::str::from_utf8(data).ok().map(|text| Cow::Borrowed(text.trim())),
            FieldValue::Json(Value::Null) => None,
            FieldValue::Json(Value::String(text)) => Some(Cow::Owned(text)),
            FieldValue::Json(other) => Some(Cow::Owned(other.to_string())),
        }
    }
}
