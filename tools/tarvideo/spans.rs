//! Spans of time that samples name, in every form that is around.

use serde_json::Value;

use super::subtitles;
use super::time;

/// A part of a video, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub start: f64,
    pub end: f64,
    /// What is said in it, where subtitles are the clips.
    pub text: Option<String>,
}

impl Span {
    pub fn new(start: f64, end: f64) -> Self {
        Span { start, end, text: None }
    }

    pub fn length(&self) -> f64 {
        self.end - self.start
    }
}

/// The spans in a field: JSON, subtitles, or a line each with start and end.
pub fn in_field(data: &[u8]) -> Result<Vec<Span>, String> {
    let text = std::str::from_utf8(data).map_err(|_| "not UTF-8")?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with(['[', '{']) {
        let value = serde_json::from_str(text).map_err(|err| format!("not JSON: {err}"))?;
        return in_json(&value);
    }
    if text.contains("-->") {
        return subtitles::parse(text);
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(line).collect()
}

/// The spans of a JSON value: [[start, end], …], [{"start": …, "end": …}, …], one such pair, or text with any of these.
pub fn in_json(value: &Value) -> Result<Vec<Span>, String> {
    match value {
        Value::Array(items) if items.iter().any(|item| item.is_array() || item.is_object()) => {
            items.iter().map(pair).collect()
        }
        Value::Array(items) if items.is_empty() => Ok(Vec::new()),
        // As tables of text have it.
        Value::String(text) => in_field(text.as_bytes()),
        one => Ok(vec![pair(one)?]),
    }
}

/// Looks up `a.b.0.c`.
pub fn at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    })
}

fn pair(value: &Value) -> Result<Span, String> {
    let (start, end) = match value {
        Value::Array(items) => (items.first(), items.get(1).filter(|_| items.len() == 2)),
        other => (other.get("start"), other.get("end")),
    };
    match (start.map(moment), end.map(moment)) {
        (Some(start), Some(end)) => span(start?, end?),
        _ => Err(format!("{} is no span (write [1.5, 4] or {{\"start\": 1.5, \"end\": 4}})", brief(value))),
    }
}

fn moment(value: &Value) -> Result<f64, String> {
    match value {
        Value::String(text) => time::parse(text),
        other => other.as_f64().filter(|seconds| *seconds >= 0.0).ok_or_else(|| format!("{} is no time", brief(other))),
    }
}

fn line(line: &str) -> Result<Span, String> {
    let words: Vec<&str> = line.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty()).collect();
    match words[..] {
        [start, end] => span(time::parse(start)?, time::parse(end)?),
        _ => Err(format!("'{line}' is no span (write start and end, such as 1.5 4)")),
    }
}

/// A span that ends after it starts.
pub fn span(start: f64, end: f64) -> Result<Span, String> {
    if end <= start {
        return Err(format!("a span from {} to {} s", time::show(start), time::show(end)));
    }
    Ok(Span::new(start, end))
}

/// Enough of a value to know it by.
fn brief(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_have_many_forms() {
        let expected = vec![Span::new(1.5, 4.0), Span::new(60.0, 61.25)];
        for text in [
            "[[1.5, 4], [\"0:01:00\", \"61.25\"]]",
            "[{\"start\": 1.5, \"end\": 4, \"label\": \"x\"}, {\"start\": \"1:00\", \"end\": 61.25}]",
            "# start end\n1.5 4\n\n1:00,1:01.25\n",
        ] {
            assert_eq!(in_field(text.as_bytes()).unwrap(), expected, "{text}");
        }
        assert_eq!(in_json(&json!([0, 2])).unwrap(), [Span::new(0.0, 2.0)]);
        assert_eq!(in_json(&json!("[[0, 2]]")).unwrap(), [Span::new(0.0, 2.0)]);
        assert!(in_json(&json!([])).unwrap().is_empty());
        for wrong in ["[[1]]", "[[2, 1]]", "[[1, 2, 3]]", "[null]", "[[-1, 2]]", "{\"start\": 1}", "1 2 3", "[[1,"] {
            assert!(in_field(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_lead_through_objects_and_lists() {
        let value = json!({"meta": {"parts": [{"spans": [0, 1]}]}});
        assert_eq!(at_path(&value, "meta.parts.0.spans"), Some(&json!([0, 1])));
        assert_eq!(at_path(&value, "meta.parts.x"), None);
    }
}
