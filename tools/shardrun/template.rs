//! Templates of pipelines and names: `{}`, `{i}`, `{:05}`, `{base}`, `{dir}`, `{ext}`, `{n}`.
//!
//! Pipelines are full of other braces, so only what looks like a place is one: a word or nothing, and
//! perhaps a width. `{print $1}`, `${x}` and `{a,b}` stay as they are; `{{i}}` is the text `{i}`.

use anyhow::{Result, bail};
use tarpipe::run::shell::quote;
use tarpipe::sink::is_command;
use tarpipe::value::template;

use crate::items::Item;
use crate::quoting;

/// A text with places for the values of an item.
#[derive(Clone, Debug)]
pub struct Template {
    pieces: Vec<Piece>,
    /// Whether a shell reads what is filled in.
    is_script: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Place { place: Place, width: usize, in_quotes: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Value,
    Index,
    Base,
    Dir,
    Ext,
    Count,
}

impl Place {
    fn of(name: &str, has_width: bool) -> Option<Self> {
        Some(match name {
            "" if !has_width => Place::Value,
            "" | "i" => Place::Index,
            "base" => Place::Base,
            "dir" => Place::Dir,
            "ext" => Place::Ext,
            "n" => Place::Count,
            _ => return None,
        })
    }
}

impl Template {
    /// A name to be made; `%04d` is the index too. The name of a command, `pipe:…`, is a script as well.
    pub fn name(text: &str) -> Result<Self> {
        Template::parse(text, true, is_command(text))
    }

    /// A shell script; values are quoted when they are put in.
    pub fn script(text: &str) -> Result<Self> {
        Template::parse(text, false, true)
    }

    fn parse(text: &str, is_name: bool, is_script: bool) -> Result<Self> {
        let quotes = if is_script { quoting::quoted(text) } else { Vec::new() };
        let mut pieces = Vec::new();
        let (mut plain, mut at) = (String::new(), 0);
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let after_dollar = text[..at].ends_with('$');
            let (used, place) = match c {
                '{' if !after_dollar => take(rest)?,
                '%' if is_name => take_number(rest)?,
                _ => (0, None),
            };
            match place {
                Some(_) if rest.starts_with("{{") => plain.push_str(&rest[1..used - 1]),
                Some((place, width)) => {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    let in_quotes = quotes.get(at).copied().unwrap_or(false);
                    pieces.push(Piece::Place { place, width, in_quotes });
                }
                None => plain.push(c),
            }
            at += if place.is_some() { used } else { c.len_utf8() };
        }
        pieces.push(Piece::Text(plain));
        Ok(Template { pieces, is_script })
    }

    /// What every name starts with that it makes; None where the item itself decides that.
    pub fn start(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Text(text), Piece::Place { place: Place::Value | Place::Dir, .. }, ..] if text.is_empty() => None,
            [Piece::Text(text), ..] => Some(text),
            _ => Some(""),
        }
    }

    /// The name or the script for an item.
    pub fn fill(&self, item: &Item<'_>) -> String {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Place { place, width, .. } if self.is_script => out.push_str(&quote(&place.value(item, *width))),
                Piece::Place { place, width, .. } => out.push_str(&place.value(item, *width)),
            }
        }
        out
    }

    /// Whether an item makes a command of what was meant as a name.
    pub fn becomes_command(&self, item: &Item<'_>) -> bool {
        !self.is_script && is_command(&self.fill(item))
    }

    /// Whether a value that the shell must not see bare would end up between quotes of the script.
    pub fn clashes(&self, item: &Item<'_>) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Place { place, width, in_quotes: true } => {
                let value = place.value(item, *width);
                quote(&value) != value
            }
            _ => false,
        })
    }
}

impl Place {
    fn value(self, item: &Item<'_>, width: usize) -> String {
        match self {
            Place::Value => item.value.to_owned(),
            Place::Index => format!("{:0width$}", item.index),
            Place::Count => format!("{:0width$}", item.count),
            Place::Base => parts(item.value).1.to_owned(),
            Place::Dir => parts(item.value).0.to_owned(),
            Place::Ext => parts(item.value).2.to_owned(),
        }
    }
}

/// Takes `{…}` or `{{…}}` off the start: how long it is and what it stands for, if it is a place.
fn take(text: &str) -> Result<(usize, Option<(Place, usize)>)> {
    let doubled = text.starts_with("{{");
    let open = if doubled { 2 } else { 1 };
    let Some(close) = text.find('}') else { return Ok((0, None)) };
    let inside = &text[open..close.max(open)];
    let (name, width) = template::split_place(inside);
    let is_word =
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.starts_with(|c: char| c.is_ascii_digit());
    let is_width = width.is_none_or(|width| width.bytes().all(|b| b.is_ascii_digit()) && !width.is_empty());
    if !is_word || !is_width {
        return Ok((0, None));
    }
    if doubled {
        let escaped = text[close..].starts_with("}}");
        return Ok(if escaped { (close + 2, Some((Place::Value, 0))) } else { (0, None) });
    }
    let Some(place) = Place::of(name, width.is_some()) else {
        bail!(
            "unknown place {{{inside}}} (known: {{}}, {{i}}, {{:05}}, {{base}}, {{dir}}, {{ext}}, {{n}}; write {{{{{inside}}}}} for the text itself)"
        );
    };
    Ok((close + 1, Some((place, template::parse_width(width.unwrap_or_default())?))))
}

/// `%04d` or `%d`.
fn take_number(text: &str) -> Result<(usize, Option<(Place, usize)>)> {
    let Some((digits, rest)) = template::take_number(text) else { return Ok((0, None)) };
    Ok((text.len() - rest.len(), Some((Place::Index, template::parse_width(digits)?))))
}

/// Folder, base name and extension of a name. A compression suffix is part of the extension, so that
/// `a/b.v2.tar.gz` is `a`, `b.v2` and `tar.gz`; the query of a URL is part of none.
fn parts(name: &str) -> (&str, &str, &str) {
    let path = if name.contains("://") { name.split(['?', '#']).next().unwrap_or(name) } else { name };
    let (dir, file) = path.rsplit_once('/').unwrap_or((".", path));
    let dir = if dir.is_empty() { "/" } else { dir };
    let dot = |text: &str| text.rfind('.').filter(|&at| at > 0);
    let Some(last) = dot(file) else { return (dir, file, "") };
    let packed = ["gz", "zst", "xz", "bz2", "lz4"].contains(&&file[last + 1..]);
    let at = if packed { dot(&file[..last]).unwrap_or(last) } else { last };
    (dir, &file[..at], &file[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str, value: &str) -> String {
        Template::script(text).unwrap().fill(&Item { value, index: 7, count: 12 })
    }

    #[test]
    fn places_are_filled_and_other_braces_stay() {
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
    fn numbers_of_c_are_for_names_only() {
        let name = Template::name("o-%04d-%d-100%.tar").unwrap();
        assert_eq!(name.fill(&Item { value: "v", index: 7, count: 12 }), "o-0007-7-100%.tar");
    }

    #[test]
    fn a_value_in_the_name_of_a_command_is_quoted_and_never_makes_one() {
        let item = Item { value: "|touch x", index: 7, count: 12 };
        assert_eq!(Template::name("pipe:put %04d {}").unwrap().fill(&item), "pipe:put 0007 '|touch x'");
        assert_eq!(Template::name("|put {}").unwrap().fill(&item), "|put '|touch x'");
        assert!(Template::name("|put '{}'").unwrap().clashes(&item));
        assert!(Template::name("{}.tar").unwrap().becomes_command(&item));
        assert!(!Template::name("./{}.tar").unwrap().becomes_command(&item));
    }

    #[test]
    fn unknown_places_say_what_is_known() {
        let said = Template::script("x {shard:05}").unwrap_err().to_string();
        assert!(said.starts_with("unknown place {shard:05} (known: {}, {i},"), "{said}");
        assert!(said.ends_with("write {{shard:05}} for the text itself)"), "{said}");
        assert_eq!(Template::script("{i:99}").unwrap_err().to_string(), "'99' is no width (write {name:06})");
        assert!(Template::name("%99d").is_err());
    }

    #[test]
    fn a_value_that_needs_quotes_clashes_with_those_of_the_script() {
        let clashes =
            |text: &str, value: &str| Template::script(text).unwrap().clashes(&Item { value, index: 0, count: 1 });
        assert!(clashes("echo \"{}\"", "$(rm x)"));
        assert!(clashes("echo '{}'", "a b"));
        assert!(!clashes("echo \"{}\"", "a-1.tar"));
        assert!(!clashes("echo {}", "$(rm x)"));
    }
}
