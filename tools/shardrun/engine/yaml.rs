//! Reads YAML as JSON values, for site configuration: the core schema of YAML 1.2, a single document, string keys.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput, Tag};
use serde_json::{Map, Value};

/// The line of an error and its message.
pub type YamlError = (usize, String);

/// Parses a document. An empty one is null; a key without a value is left out.
pub fn parse(text: &str) -> Result<Value, YamlError> {
    let mut reader = YamlReader { parser: Parser::new_from_str(text), anchors: HashMap::new() };
    let mut found = None;
    loop {
        match reader.event()? {
            (Event::StreamEnd, _) => return Ok(found.unwrap_or_default()),
            (Event::DocumentStart(_), line) if found.is_some() => {
                return Err((line, "expected a single document".into()));
            }
            (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
            (event, line) => found = Some(reader.node(event, line)?),
        }
    }
}

struct YamlReader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Values that aliases can refer to.
    anchors: HashMap<usize, Value>,
}

impl<'a> YamlReader<'a> {
    fn event(&mut self) -> Result<(Event<'a>, usize), YamlError> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(err)) => Err((err.marker().line(), err.info().to_owned())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// The value that starts with an event.
    fn node(&mut self, event: Event<'a>, line: usize) -> Result<Value, YamlError> {
        let (anchor, value) = match event {
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor).cloned();
                return known.ok_or_else(|| (line, "an alias inside its own anchor".into()));
            }
            Event::Scalar(text, style, anchor, tag) => (anchor, scalar(&text, style, tag)),
            Event::SequenceStart(anchor, _) => (anchor, self.sequence()?),
            Event::MappingStart(anchor, _) => (anchor, self.mapping()?),
            other => return Err((line, format!("unexpected {other:?}"))),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn sequence(&mut self) -> Result<Value, YamlError> {
        let mut values = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => return Ok(Value::Array(values)),
                (event, line) => values.push(self.node(event, line)?),
            }
        }
    }

    fn mapping(&mut self) -> Result<Value, YamlError> {
        let mut map = Map::new();
        loop {
            let name = match self.event()? {
                (Event::MappingEnd, _) => return Ok(Value::Object(map)),
                (Event::Scalar(name, ..), _) => name.into_owned(),
                (_, line) => return Err((line, "keys must be strings".into())),
            };
            let (event, line) = self.event()?;
            let value = self.node(event, line)?;
            if map.contains_key(&name) {
                return Err((line, format!("duplicate key {name}")));
            }
            if !value.is_null() {
                map.insert(name, value);
            }
        }
    }
}

/// Quoted scalars are strings; plain ones are null, booleans or numbers if they look like it.
fn scalar(text: &str, style: ScalarStyle, tag: Option<Cow<'_, Tag>>) -> Value {
    let is_string = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || is_string {
        return text.into();
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ => number(text).unwrap_or_else(|| text.into()),
    }
}

fn number(text: &str) -> Option<Value> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Value::from);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().map(Value::from);
    }
    // Rust would accept `inf` and `nan` too.
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
        && text.bytes().any(|b| b.is_ascii_digit())
        && !text.starts_with(['e', 'E']);
    let whole = || text.parse::<i64>().map(Value::from).ok();
    let fraction = || text.parse::<f64>().ok().map(Value::from);
    whole().or_else(fraction).filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_scalars_are_typed_by_their_look() {
        let text = "a: [1, -2, 0x10, 1.5, 1e3, true, no, '1', \"x\\ty\", 1:00, !!str 5, .5, e5, inf, 2026-11-16]";
        let expected = json!({"a": [1, -2, 16, 1.5, 1000.0, true, "no", "1", "x\ty", "1:00", "5", 0.5, "e5", "inf", "2026-11-16"]});
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn blocks_anchors_and_empty_values() {
        let text = "# site\nsetup: |\n  a\n  b\nbase: &b {x: 1}\nempty:\nlist:\n- *b\n- - 2\n";
        assert_eq!(parse(text).unwrap(), json!({"setup": "a\nb\n", "base": {"x": 1}, "list": [{"x": 1}, [2]]}));
        assert_eq!(parse("# nothing\n").unwrap(), Value::Null);
    }

    #[test]
    fn errors_have_lines() {
        let line = |text: &str| parse(text).unwrap_err().0;
        assert_eq!(line("a: 1\nb: 2\na: 3\n"), 3);
        assert_eq!(line("a: 1\n---\nb: 2\n"), 2);
        assert_eq!(line("a: 1\n[x]: 2\n"), 2);
        assert!(line("a: [1\nb: 2\n") > 0);
        assert!(parse("a: &x [*x]\n").is_err());
    }
}
