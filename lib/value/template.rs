//! Templates of names: `out-{shard:06}.tar`, `{index:09}`, and `%06d` for those
//! who are used to printf.
//!
//! tarsplit names its shards with them; urlcat, tarcreate and tarcat make keys.
//! Templates are parsed once, at the start, so that a typo in a placeholder is
//! a usage error and not a wrong name.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// A parsed template: text and placeholders.
///
/// ```
/// use tarpipe::value::template::{Template, Values};
///
/// let template = Template::parse("out-{shard:06}.tar", &["shard"])?;
/// assert_eq!(template.fill(&Values::from([("shard", "7".to_owned())])), "out-000007.tar");
/// assert!(Template::parse("{shrad}.tar", &["shard"]).is_err());
/// # anyhow::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    pieces: Vec<TemplatePart>,
}

/// Text or a placeholder; a width of 0 means no padding.
#[derive(Clone, Debug)]
enum TemplatePart {
    Text(String),
    Placeholder { name: String, width: usize },
}

/// The values of placeholders by name. A value that is shorter than the width
/// of its placeholder is padded with zeros on the left, text as well as
/// numbers.
pub type Values<'a> = BTreeMap<&'a str, String>;

impl Template {
    /// Parses a template. Only the placeholders in `known` are allowed; the
    /// first of them is the one that `%d` and `%06d` stand for. `{{`, `}}` and
    /// `%%` are literal braces and a literal percent sign; a `%` that does not
    /// begin a number is literal too.
    ///
    /// # Errors
    ///
    /// An unknown placeholder (the message lists the known ones), an unmatched
    /// brace, or a width that is not a number from 0 to 64.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = match rest.find(['{', '}', '%']) {
                Some(0) => take_placeholder(rest, known, &mut pieces)?,
                Some(at) => {
                    pieces.push(TemplatePart::Text(rest[..at].into()));
                    &rest[at..]
                }
                None => {
                    pieces.push(TemplatePart::Text(rest.into()));
                    ""
                }
            };
        }
        Ok(Template { pieces })
    }

    /// Returns true if the template uses the placeholder `name`, also if it is
    /// written as `%d`.
    pub fn has(&self, name: &str) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, TemplatePart::Placeholder { name: placeholder, .. } if placeholder == name))
    }

    /// The text before the first placeholder, which all names begin with.
    pub fn prefix(&self) -> &str {
        match self.pieces.first() {
            Some(TemplatePart::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns true if all names are in one folder: no slash comes after the
    /// first placeholder.
    pub fn is_in_one_folder(&self) -> bool {
        !self.pieces.iter().skip(1).any(|piece| matches!(piece, TemplatePart::Text(text) if text.contains('/')))
    }

    /// Returns true if `name` can be a result of [`Template::fill`]: `accepts`
    /// is called with the name of a placeholder and the text in its place,
    /// which is never empty and contains no slash.
    ///
    /// ```
    /// use tarpipe::value::template::Template;
    ///
    /// let template = Template::parse("out-{shard:03}.tar", &["shard"])?;
    /// let is_number = |_: &str, text: &str| text.parse::<u64>().is_ok();
    /// assert!(template.matches("out-007.tar", &is_number));
    /// assert!(!template.matches("out-07.tar", &is_number));
    /// assert!(!template.matches("out-abc.tar", &is_number));
    /// # anyhow::Ok(())
    /// ```
    pub fn matches(&self, name: &str, accepts: &dyn Fn(&str, &str) -> bool) -> bool {
        matches(&self.pieces, name, accepts)
    }

    /// Returns the template with its placeholders replaced. A placeholder
    /// without a value becomes empty (or zeros, if it has a width). Never
    /// fails.
    pub fn fill(&self, values: &Values<'_>) -> String {
        self.pieces.iter().map(|piece| piece.fill(values)).collect()
    }
}

impl TemplatePart {
    fn fill(&self, values: &Values<'_>) -> String {
        match self {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Placeholder { name, width } => {
                let value = values.get(name.as_str()).map_or("", String::as_str);
                format!("{}{value}", "0".repeat(width.saturating_sub(value.len())))
            }
        }
    }
}

/// Whether the pieces match the whole of `text`.
fn matches(pieces: &[TemplatePart], text: &str, accepts: &dyn Fn(&str, &str) -> bool) -> bool {
    match pieces {
        [] => text.is_empty(),
        [TemplatePart::Text(piece), rest @ ..] => {
            text.strip_prefix(piece.as_str()).is_some_and(|text| matches(rest, text, accepts))
        }
        [TemplatePart::Placeholder { name, width }, rest @ ..] => {
            let segment = text.split('/').next().unwrap_or_default();
            let ends = segment.char_indices().map(|(at, c)| at + c.len_utf8()).filter(|end| end >= width);
            let mut ends = ends.filter(|end| accepts(name, &text[..*end]));
            ends.any(|end| matches(rest, &text[end..], accepts))
        }
    }
}

/// Parses one placeholder or escape at the start of `text` and returns the
/// rest.
fn take_placeholder<'a>(text: &'a str, known: &[&str], pieces: &mut Vec<TemplatePart>) -> Result<&'a str> {
    for escaped in ["{{", "}}", "%%"] {
        if let Some(rest) = text.strip_prefix(escaped) {
            pieces.push(TemplatePart::Text(escaped[..1].into()));
            return Ok(rest);
        }
    }
    if let Some((digits, rest)) = take_number(text) {
        let name = known.first().copied().unwrap_or_default();
        pieces.push(TemplatePart::Placeholder { name: name.into(), width: parse_width(digits)? });
        return Ok(rest);
    }
    if let Some(rest) = text.strip_prefix('%') {
        pieces.push(TemplatePart::Text("%".into()));
        return Ok(rest);
    }
    let Some((inside, rest)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) else {
        bail!("unmatched brace (write {{{{ or }}}} for a literal brace)");
    };
    let (name, digits) = split_placeholder(inside);
    if !known.contains(&name) {
        bail!("unknown placeholder {{{name}}} (known: {})", known.join(", "));
    }
    pieces.push(TemplatePart::Placeholder { name: name.into(), width: parse_width(digits.unwrap_or_default())? });
    Ok(rest)
}

/// Splits the inside of a placeholder, `shard:06`, into its name and the digits
/// of its width, if there is a colon. Used by templates with other rules than
/// these (shardrun).
pub fn split_placeholder(inside: &str) -> (&str, Option<&str>) {
    inside.split_once(':').map_or((inside, None), |(name, digits)| (name, Some(digits)))
}

/// Parses `%d` or `%06d` at the start of a text: returns the digits of the
/// width (perhaps none) and the rest of the text, or None for anything else.
pub fn take_number(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('%')?;
    let (digits, rest) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    Some((digits, rest.strip_prefix('d')?))
}

/// Parses the width of a placeholder, 0 to 64; no digits are a width of 0. The
/// limit keeps a typo from filling the memory with zeros.
pub fn parse_width(digits: &str) -> Result<usize> {
    match digits.parse() {
        _ if digits.is_empty() => Ok(0),
        Ok(width @ 0..=64) => Ok(width),
        _ => bail!("'{digits}' is not a width (write {{name:06}})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(pattern: &str) -> Result<String> {
        let values = Values::from([("shard", "7".to_owned()), ("key", "a/b".to_owned())]);
        Ok(Template::parse(pattern, &["shard", "key"])?.fill(&values))
    }

    #[test]
    fn placeholders_are_filled_and_padded() {
        assert_eq!(fill("x-{shard:06}.tar").unwrap(), "x-000007.tar");
        assert_eq!(fill("%04d-%d").unwrap(), "0007-7");
        assert_eq!(fill("{key}_{shard}").unwrap(), "a/b_7");
        assert_eq!(fill("{{x}} 100% 5%% %s").unwrap(), "{x} 100% 5% %s");
    }

    #[test]
    fn mistakes_say_what_is_known() {
        let said = |pattern| format!("{:#}", fill(pattern).unwrap_err());
        assert_eq!(said("{shrad}"), "unknown placeholder {shrad} (known: shard, key)");
        assert_eq!(said("{shard:x}"), "'x' is not a width (write {name:06})");
        assert_eq!(said("{shard"), "unmatched brace (write {{ or }} for a literal brace)");
    }
}
