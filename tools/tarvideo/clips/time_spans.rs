//! Reads spans of time from a field or a JSON value, in every common notation.

use serde_json::Value;

use crate::tarvideo::clips::subtitles;
use crate::tarvideo::clips::timestamp;

/// Part of a video, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSpan {
    pub start: f64,
    pub end: f64,
    /// The text of a subtitle.
    pub text: Option<String>,
}

impl TimeSpan {
    pub fn new(start: f64, end: f64) -> Self {
        TimeSpan { start, end, text: None }
    }

    pub fn length(&self) -> f64 {
        self.end - self.start
    }
}

/// Reads the spans in a field: JSON, subtitles, or one line of start and end per span.
pub fn parse_field(data: &[u8]) -> Result<Vec<TimeSpan>, String> {
    let text = std::str::from_utf8(data).map_err(|_| "invalid UTF-8")?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with(['[', '{']) {
        let value = serde_json::from_str(text).map_err(|err| format!("invalid JSON: {err}"))?;
        return parse_json(&value);
    }
    if text.contains("-->") {
        return subtitles::parse(text);
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parse_line).collect()
}

/// Reads the spans in a JSON value: [[start, end], …], [{"start": …, "end": …}, …], a single span, or a text with any
/// of these.
pub fn parse_json(value: &Value) -> Result<Vec<TimeSpan>, String> {
    match value {
        Value::Array(items) if items.iter().any(|item| item.is_array() || item.is_object()) => {
            items.iter().map(parse_pair).collect()
        }
        Value::Array(items) if items.is_empty() => Ok(Vec::new()),
        // Tables without nested columns store lists as text.
        Value::String(text) => parse_field(text.as_bytes()),
        one => Ok(vec![parse_pair(one)?]),
    }
}

/// Looks up a path such as `a.b.0.c`.
pub fn at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    })
}

fn parse_pair(value: &Value) -> Result<TimeSpan, String> {
    let (start, end) = match value {
        Value::Array(items) => (items.first(), items.get(1).filter(|_| items.len() == 2)),
        other => (other.get("start"), other.get("end")),
    };
    match (start.map(parse_moment), end.map(parse_moment)) {
        (Some(start), Some(end)) => span(start?, end?),
        _ => Err(format!("invalid span {} (write [1.5, 4] or {{\"start\": 1.5, \"end\": 4}})", excerpt(value))),
    }
}

fn parse_moment(value: &Value) -> Result<f64, String> {
    match value {
        Value::String(text) => timestamp::parse(text),
        other => {
            other.as_f64().filter(|seconds| *seconds >= 0.0).ok_or_else(|| format!("invalid time {}", excerpt(other)))
        }
    }
}

fn parse_line(line: &str) -> Result<TimeSpan, String> {
    let words: Vec<&str> = line.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty()).collect();
    match words[..] {
        [start, end] => span(timestamp::parse(start)?, timestamp::parse(end)?),
        _ => Err(format!("invalid span '{line}' (write start and end, such as 1.5 4)")),
    }
}

/// A span; fails unless it ends after it starts.
pub fn span(start: f64, end: f64) -> Result<TimeSpan, String> {
    if end <= start {
        return Err(format!("span ends before it starts: {} to {} s", timestamp::show(start), timestamp::show(end)));
    }
    Ok(TimeSpan::new(start, end))
}

/// The start of a value, for messages.
fn excerpt(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_have_many_forms() {
        let expected = vec![TimeSpan::new(1.5, 4.0), TimeSpan::new(60.0, 61.25)];
        for text in [
            "[[1.5, 4], [\"0:01:00\", \"61.25\"]]",
            "[{\"start\": 1.5, \"end\": 4, \"label\": \"x\"}, {\"start\": \"1:00\", \"end\": 61.25}]",
            "# start end\n1.5 4\n\n1:00,1:01.25\n",
        ] {
            assert_eq!(parse_field(text.as_bytes()).unwrap(), expected, "{text}");
        }
        assert_eq!(parse_json(&json!([0, 2])).unwrap(), [TimeSpan::new(0.0, 2.0)]);
        assert_eq!(parse_json(&json!("[[0, 2]]")).unwrap(), [TimeSpan::new(0.0, 2.0)]);
        assert!(parse_json(&json!([])).unwrap().is_empty());
        for wrong in ["[[1]]", "[[2, 1]]", "[[1, 2, 3]]", "[null]", "[[-1, 2]]", "{\"start\": 1}", "1 2 3", "[[1,"] {
            assert!(parse_field(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_lead_through_objects_and_lists() {
        let value = json!({"meta": {"parts": [{"spans": [0, 1]}]}});
        assert_eq!(at_path(&value, "meta.parts.0.spans"), Some(&json!([0, 1])));
        assert_eq!(at_path(&value, "meta.parts.x"), None);
    }
}
