//! Templates of pipelines and names, with the placeholders `{}`, `{i}`, `{:05}`, `{base}`, `{dir}`, `{ext}` and `{n}`.
//!
//! Pipelines contain many other braces, so a placeholder must be empty or a single word, with an optional width.
//! `{print $1}`, `${x}` and `{a,b}` stay as they are; `{{i}}` is the literal text `{i}`.

use anyhow::{Result, bail};
use tarpipe::run::shell::quote;
use tarpipe::sink::is_command;
use tarpipe::value::template;

use super::items::RunItem;
use super::quoting;

/// Text with placeholders for the values of an item.
#[derive(Clone, Debug)]
pub struct ItemTemplate {
    pieces: Vec<TemplatePiece>,
    /// Whether a shell reads the filled-in text, so that values are quoted.
    is_script: bool,
}

#[derive(Clone, Debug)]
enum TemplatePiece {
    Text(String),
    Placeholder { placeholder: ItemPlaceholder, width: usize, in_quotes: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemPlaceholder {
    Value,
    Index,
    Base,
    Dir,
    Ext,
    Count,
}

impl ItemPlaceholder {
    fn parse(name: &str, has_width: bool) -> Option<Self> {
        Some(match name {
            "" if !has_width => ItemPlaceholder::Value,
            "" | "i" => ItemPlaceholder::Index,
            "base" => ItemPlaceholder::Base,
            "dir" => ItemPlaceholder::Dir,
            "ext" => ItemPlaceholder::Ext,
            "n" => ItemPlaceholder::Count,
            _ => return None,
        })
    }
}

impl ItemTemplate {
    /// Parses a name, in which `%04d` is the index too. A command, `pipe:…`, is parsed as a script.
    pub fn name(text: &str) -> Result<Self> {
        ItemTemplate::parse(text, true, is_command(text))
    }

    /// Parses a shell script.
    pub fn script(text: &str) -> Result<Self> {
        ItemTemplate::parse(text, false, true)
    }

    fn parse(text: &str, is_name: bool, is_script: bool) -> Result<Self> {
        let quotes = if is_script { quoting::quoted(text) } else { Vec::new() };
        let mut pieces = Vec::new();
        let (mut plain, mut at) = (String::new(), 0);
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let after_dollar = text[..at].ends_with('$');
            let (used, placeholder) = match c {
                '{' if !after_dollar => take(rest)?,
                '%' if is_name => take_number(rest)?,
                _ => (0, None),
            };
            match placeholder {
                Some(_) if rest.starts_with("{{") => plain.push_str(&rest[1..used - 1]),
                Some((placeholder, width)) => {
                    pieces.push(TemplatePiece::Text(std::mem::take(&mut plain)));
                    let in_quotes = quotes.get(at).copied().unwrap_or(false);
                    pieces.push(TemplatePiece::Placeholder { placeholder, width, in_quotes });
                }
                None => plain.push(c),
            }
            at += if placeholder.is_some() { used } else { c.len_utf8() };
        }
        pieces.push(TemplatePiece::Text(plain));
        Ok(ItemTemplate { pieces, is_script })
    }

    /// The text that all filled-in names start with; None if they start with a part of the item.
    pub fn start(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [
                TemplatePiece::Text(text),
                TemplatePiece::Placeholder { placeholder: ItemPlaceholder::Value | ItemPlaceholder::Dir, .. },
                ..,
            ] if text.is_empty() => None,
            [TemplatePiece::Text(text), ..] => Some(text),
            _ => Some(""),
        }
    }

    /// The name or the script for an item.
    pub fn fill(&self, item: &RunItem<'_>) -> String {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Text(text) => out.push_str(text),
                TemplatePiece::Placeholder { placeholder, width, .. } if self.is_script => {
                    out.push_str(&quote(&placeholder.value(item, *width)))
                }
                TemplatePiece::Placeholder { placeholder, width, .. } => out.push_str(&placeholder.value(item, *width)),
            }
        }
        out
    }

    /// Whether the value of an item turns a name into a command.
    pub fn becomes_command(&self, item: &RunItem<'_>) -> bool {
        !self.is_script && is_command(&self.fill(item))
    }

    /// Whether a value that needs quoting would be inserted inside quotes of the script.
    pub fn clashes(&self, item: &RunItem<'_>) -> bool {
        self.pieces.iter().any(|piece| match piece {
            TemplatePiece::Placeholder { placeholder, width, in_quotes: true } => {
                let value = placeholder.value(item, *width);
                quote(&value) != value
            }
            _ => false,
        })
    }
}

impl ItemPlaceholder {
    fn value(self, item: &RunItem<'_>, width: usize) -> String {
        match self {
            ItemPlaceholder::Value => item.value.to_owned(),
            ItemPlaceholder::Index => format!("{:0width$}", item.index),
            ItemPlaceholder::Count => format!("{:0width$}", item.count),
            ItemPlaceholder::Base => parts(item.value).1.to_owned(),
            ItemPlaceholder::Dir => parts(item.value).0.to_owned(),
            ItemPlaceholder::Ext => parts(item.value).2.to_owned(),
        }
    }
}

/// Parses `{…}` or `{{…}}` at the start of `text`: its length, and the placeholder and width if it is one.
fn take(text: &str) -> Result<(usize, Option<(ItemPlaceholder, usize)>)> {
    let doubled = text.starts_with("{{");
    let open = if doubled { 2 } else { 1 };
    let Some(close) = text.find('}') else { return Ok((0, None)) };
    let inside = &text[open..close.max(open)];
    let (name, width) = template::split_placeholder(inside);
    let is_word =
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.starts_with(|c: char| c.is_ascii_digit());
    let is_width = width.is_none_or(|width| width.bytes().all(|b| b.is_ascii_digit()) && !width.is_empty());
    if !is_word || !is_width {
        return Ok((0, None));
    }
    if doubled {
        let escaped = text[close..].starts_with("}}");
        return Ok(if escaped { (close + 2, Some((ItemPlaceholder::Value, 0))) } else { (0, None) });
    }
    let Some(placeholder) = ItemPlaceholder::parse(name, width.is_some()) else {
        bail!(
            "unknown placeholder {{{inside}}} (known: {{}}, {{i}}, {{:05}}, {{base}}, {{dir}}, {{ext}}, {{n}}; write {{{{{inside}}}}} for the literal text)"
        );
    };
    Ok((close + 1, Some((placeholder, template::parse_width(width.unwrap_or_default())?))))
}

/// Parses `%04d` or `%d`.
fn take_number(text: &str) -> Result<(usize, Option<(ItemPlaceholder, usize)>)> {
    let Some((digits, rest)) = template::take_number(text) else { return Ok((0, None)) };
    Ok((text.len() - rest.len(), Some((ItemPlaceholder::Index, template::parse_width(digits)?))))
}

/// Folder, base name and extension of a name. The extension includes a compression suffix: `a/b.v2.tar.gz` is `a`, `b.v2` and
/// `tar.gz`. The query of a URL is dropped.
fn parts(name: &str) -> (&str, &str, &str) {
    let path = if name.contains("://") { name.split(['?', '#']).next().unwrap_or(name) } else { name };
    let (dir, file) = path.rsplit_once('/').unwrap_or((".", path));
    let dir = if dir.is_empty() { "/" } else { dir };
    let dot = |text: &str| text.rfind('.').filter(|&at| at > 0);
    let Some(last) = dot(file) else { return (dir, file, "") };
    let is_compressed = ["gz", "zst", "xz", "bz2", "lz4"].contains(&&file[last + 1..]);
    let at = if is_compressed { dot(&file[..last]).unwrap_or(last) } else { last };
    (dir, &file[..at], &file[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str, value: &str) -> String {
        ItemTemplate::script(text).unwrap().fill(&RunItem { value, index: 7, count: 12 })
    }

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        assert_eq!(fill("x-{:04} {i} {i:02} {n}", "v"), "x-0007 7 07 12");
        assert_eq!(fill("cat {}", "it's"), r"cat 'it'\''s'");
        assert_eq!(
            fill("awk '{print $1}' ${x} ${x:-1} {a,b} { echo; } {1..3} {", "v"),
            "awk '{print $1}' ${x} ${x:-1} {a,b} { echo; } {1..3} {"
        );
        assert_eq!(fill("tarsplit -o {{shard:05}} {{i}}", "v"), "tarsplit -o {shard:05} {i}");
        assert_eq!(fill("date +%04d", "v"), "date +%04d");
    }

    #[test]
    fn names_come_apart_where_people_expect() {
        assert_eq!(fill("{dir}|{base}|{ext}", "a/b.v2.tar.gz"), "a|b.v2|tar.gz");
        assert_eq!(fill("{dir}|{base}|{ext}", "plain"), ".|plain|''");
        assert_eq!(fill("{base}.{ext}", "http://h/x/y.tgz?sig=a/b"), "y.tgz");
        assert_eq!(fill("{dir}", "/x.tar"), "/");
        assert_eq!(fill("{base}", ".hidden"), ".hidden");
    }

    #[test]
    fn printf_numbers_work_in_names_only() {
        let name = ItemTemplate::name("o-%04d-%d-100%.tar").unwrap();
        assert_eq!(name.fill(&RunItem { value: "v", index: 7, count: 12 }), "o-0007-7-100%.tar");
    }

    #[test]
    fn values_in_commands_are_quoted_and_never_turn_a_name_into_a_command() {
        let item = RunItem { value: "|touch x", index: 7, count: 12 };
        assert_eq!(ItemTemplate::name("pipe:put %04d {}").unwrap().fill(&item), "pipe:put 0007 '|touch x'");
        assert_eq!(ItemTemplate::name("|put {}").unwrap().fill(&item), "|put '|touch x'");
        assert!(ItemTemplate::name("|put '{}'").unwrap().clashes(&item));
        assert!(ItemTemplate::name("{}.tar").unwrap().becomes_command(&item));
        assert!(!ItemTemplate::name("./{}.tar").unwrap().becomes_command(&item));
    }

    #[test]
    fn unknown_placeholders_list_the_known_ones() {
        let error = ItemTemplate::script("x {shard:05}").unwrap_err().to_string();
        assert!(error.starts_with("unknown placeholder {shard:05} (known: {}, {i},"), "{error}");
        assert!(error.ends_with("write {{shard:05}} for the literal text)"), "{error}");
        assert!(ItemTemplate::script("{i:99}").unwrap_err().to_string().contains("'99'"));
        assert!(ItemTemplate::name("%99d").is_err());
    }

    #[test]
    fn a_value_that_needs_quotes_clashes_with_those_of_the_script() {
        let clashes = |text: &str, value: &str| {
            ItemTemplate::script(text).unwrap().clashes(&RunItem { value, index: 0, count: 1 })
        };
        assert!(clashes("echo \"{}\"", "$(rm x)"));
        assert!(clashes("echo '{}'", "a b"));
        assert!(!clashes("echo \"{}\"", "a-1.tar"));
        assert!(!clashes("echo {}", "$(rm x)"));
    }
}
