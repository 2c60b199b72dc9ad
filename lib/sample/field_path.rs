//! `FIELD[.PATH]`: the content of a field, or a value inside of a JSON field.
//! tarsort sorts by it, tarjoin joins by it.

use serde_json::Value;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// The whole content of a field.
    Content(&'a [u8]),
    /// A value inside of a JSON field; may be null.
    Json(Value),
}

/// The content of the field `path`; or, if there is none, the value at the rest
/// of `path` in the longest prefix that is a field. Numbers in the path are
/// positions in lists. `find` returns the data of a field. None if there is no
/// such field or value, or if the field is not JSON.
///
/// ```
/// use tarpipe::sample::field_path::{FieldValue, value_at};
///
/// let find = |field: &str| (field == "json").then_some(&br#"{"size": [640, 480]}"#[..]);
/// assert_eq!(value_at("json.size.1", find), Some(FieldValue::Json(480.into())));
/// assert_eq!(value_at("json.name", find), None);
/// assert_eq!(value_at("txt", find), None);
/// ```
pub fn value_at<'a>(path: &str, find: impl Fn(&str) -> Option<&'a [u8]>) -> Option<FieldValue<'a>> {
    if let Some(data) = find(path) {
        return Some(FieldValue::Content(data));
    }
    let dots = path.rmatch_indices('.').map(|(at, _)| at);
    let (data, rest) = dots.filter_map(|dot| Some((find(&path[..dot])?, &path[dot..]))).next()?;
    let mut value: Value = serde_json::from_slice(data).ok()?;
    let pointer = rest.replace('~', "~0").replace('/', "~1").replace('.', "/");
    value.pointer_mut(&pointer).map(|found| FieldValue::Json(found.take()))
}
