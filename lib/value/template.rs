//! Names that are made: `out-{shard:06}.tar`, `{index:09}`, and `%06d` for those used to it.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// A pattern with places to fill.
#[derive(Clone, Debug)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Place { name: String, width: usize },
}

/// What fills a place: numbers are padded with zeros, text with nothing.
pub type Values<'a> = BTreeMap<&'a str, String>;

impl Template {
    /// Takes a pattern apart. Only the places in `known` may stand in it; the first of them is
    /// the number that `%d` means. A brace is written as `{{` or `}}`.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = match rest.find(['{', '}', '%']) {
                Some(0) => take_place(rest, known, &mut pieces)?,
                Some(at) => {
                    pieces.push(Piece::Text(rest[..at].into()));
                    &rest[at..]
                }
                None => {
                    pieces.push(Piece::Text(rest.into()));
                    ""
                }
            };
        }
        Ok(Template { pieces })
    }

    /// Whether a place of this name stands in the pattern.
    pub fn has(&self, name: &str) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Place { name: place, .. } if place == name))
    }

    /// The pattern with its places filled; a place without a value stays empty.
    pub fn fill(&self, values: &Values<'_>) -> String {
        self.pieces.iter().map(|piece| piece.fill(values)).collect()
    }
}

impl Piece {
    fn fill(&self, values: &Values<'_>) -> String {
        match self {
            Piece::Text(text) => text.clone(),
            Piece::Place { name, width } => {
                let value = values.get(name.as_str()).map_or("", String::as_str);
                format!("{}{value}", "0".repeat(width.saturating_sub(value.len())))
            }
        }
    }
}

/// Takes what starts with `{`, `}` or `%` and returns what follows it.
fn take_place<'a>(text: &'a str, known: &[&str], pieces: &mut Vec<Piece>) -> Result<&'a str> {
    for escaped in ["{{", "}}", "%%"] {
        if let Some(rest) = text.strip_prefix(escaped) {
            pieces.push(Piece::Text(escaped[..1].into()));
            return Ok(rest);
        }
    }
    if let Some((digits, rest)) = take_number(text) {
        let name = known.first().copied().unwrap_or_default();
        pieces.push(Piece::Place { name: name.into(), width: parse_width(digits)? });
        return Ok(rest);
    }
    if let Some(rest) = text.strip_prefix('%') {
        pieces.push(Piece::Text("%".into()));
        return Ok(rest);
    }
    let Some((inside, rest)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) else {
        bail!("a brace without its other half (write {{{{ or }}}} for a brace itself)");
    };
    let (name, digits) = split_place(inside);
    if !known.contains(&name) {
        bail!("unknown place {{{name}}} (known: {})", known.join(", "));
    }
    pieces.push(Piece::Place { name: name.into(), width: parse_width(digits.unwrap_or_default())? });
    Ok(rest)
}

/// What stands between the braces of a place: its name, and the digits of its width where it has one.
pub fn split_place(inside: &str) -> (&str, Option<&str>) {
    inside.split_once(':').map_or((inside, None), |(name, digits)| (name, Some(digits)))
}

/// Takes `%d` or `%06d` off the start of a text: the digits of its width, and what follows.
pub fn take_number(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('%')?;
    let (digits, rest) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    Some((digits, rest.strip_prefix('d')?))
}

/// A width of up to 64; no digits are none.
pub fn parse_width(digits: &str) -> Result<usize> {
    match digits.parse() {
        _ if digits.is_empty() => Ok(0),
        Ok(width @ 0..=64) => Ok(width),
        _ => bail!("'{digits}' is no width (write {{name:06}})"),
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
    fn places_are_filled_and_padded() {
        assert_eq!(fill("x-{shard:06}.tar").unwrap(), "x-000007.tar");
        assert_eq!(fill("%04d-%d").unwrap(), "0007-7");
        assert_eq!(fill("{key}_{shard}").unwrap(), "a/b_7");
        assert_eq!(fill("{{x}} 100% 5%% %s").unwrap(), "{x} 100% 5% %s");
    }

    #[test]
    fn mistakes_say_what_is_known() {
        let said = |pattern| format!("{:#}", fill(pattern).unwrap_err());
        assert_eq!(said("{shrad}"), "unknown place {shrad} (known: shard, key)");
        assert_eq!(said("{shard:x}"), "'x' is no width (write {name:06})");
        assert_eq!(said("{shard"), "a brace without its other half (write {{ or }} for a brace itself)");
    }
}
