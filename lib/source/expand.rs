//! Expands lists of sources: brace ranges, `::`, globs in object stores, and
//! files of names.
//!
//! `{0000..0147}` and `{a,b}` expand as in a shell, zero padding included;
//! `A::B` is A followed by B. In names of objects `*`, `?` and `[…]` match
//! existing objects and files, and a trailing slash means all objects below
//! it.

use anyhow::{Context, Result, bail};

use crate::location;
use crate::source;
#[cfg(feature = "stores")]
use crate::store;

/// More names than any dataset has shards: a typo, not a list.
const MAX_NAMES: usize = 10_000_000;
/// More braces than this in one name, nested or not, are not a pattern that
/// somebody wrote.
const MAX_BRACES: usize = 100;
/// How many pairs of braces are examined: each costs time proportional to its
/// contents.
const MAX_TRIES: usize = 1000;

/// Returns all names that `spec` stands for, in order. If a file of exactly
/// this name exists, it is that file. The command of a `pipe:` is expanded, but
/// not split at `::`.
///
/// Names that need no listing are not checked for existence. Patterns of
/// objects cost one listing each, sorted by name.
///
/// # Errors
///
/// More than 10 million names or 100 braces, a pattern that matches no object,
/// or a failed listing.
///
/// ```
/// use tarpipe::source::expand::expand;
///
/// assert_eq!(expand("train-{08..10}.tar::val.tar")?, ["train-08.tar", "train-09.tar", "train-10.tar", "val.tar"]);
/// # anyhow::Ok(())
/// ```
pub fn expand(spec: &str) -> Result<Vec<String>> {
    // The file system is only consulted for names that would be expanded: lists of names are long.
    let has_parts = spec.contains('{') || spec.contains("::");
    if has_parts && std::fs::exists(spec).unwrap_or(false) {
        return Ok(vec![spec.to_owned()]);
    }
    let parts: Vec<&str> = if spec.starts_with("pipe:") { vec![spec] } else { spec.split("::").collect() };
    let mut names = Vec::new();
    for part in parts {
        names.extend(expand_braces(part).with_context(|| spec.to_owned())?);
    }
    #[cfg(feature = "stores")]
    if names.iter().any(|name| is_listed(name)) {
        return list_patterns(names);
    }
    Ok(names)
}

/// The same as [`expand`], with patterns of local files replaced by the files
/// that match, sorted by name. A name that exists is never a pattern. A pattern
/// that matches nothing, or a folder that cannot be read, is an error.
pub fn expand_files(spec: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in expand(spec)? {
        names.extend(files(name)?);
    }
    Ok(names)
}

/// The files that a pattern matches; the name itself if it is not a pattern.
fn files(name: String) -> Result<Vec<String>> {
    let path = location::path_of(&name);
    if name == "-" || !location::is_path(&name) || !path.contains(['*', '?', '[']) || std::fs::exists(path)? {
        return Ok(vec![name]);
    }
    let mut found = Vec::new();
    for entry in glob::glob(path).with_context(|| name.clone())? {
        found.push(entry?.to_string_lossy().into_owned());
    }
    if found.is_empty() {
        bail!("{name}: no file matches");
    }
    Ok(found)
}

/// Reads names from a file (any source), one per line, and expands each. Blank
/// lines are ignored. The whole list is held in memory.
///
/// # Errors
///
/// The file cannot be read or is not UTF-8, or a line expands to too many
/// names.
///
/// ```
/// use tarpipe::source::expand;
///
/// let names = expand::from_file("pipe:echo 'a-{0..1}.tar'; echo b.tar")?;
/// assert_eq!(names, ["a-0.tar", "a-1.tar", "b.tar"]);
/// # anyhow::Ok(())
/// ```
pub fn from_file(file: &str) -> Result<Vec<String>> {
    let mut text = String::new();
    let read = source::open(file).and_then(|mut list| Ok(std::io::Read::read_to_string(&mut list, &mut text)?));
    read.with_context(|| location::display(file))?;
    let mut names = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        names.extend(expand(line)?);
    }
    Ok(names)
}

/// Whether a name has to be listed by the store. With a client of the site's
/// own (`GOPEN_…`), other rules may apply.
#[cfg(feature = "stores")]
fn is_listed(name: &str) -> bool {
    store::is_pattern(name) && location::command_for("GOPEN", name).is_none()
}

/// Replaces each pattern by the objects that match it.
#[cfg(feature = "stores")]
fn list_patterns(names: Vec<String>) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for name in names {
        if is_listed(&name) {
            all.extend(store::expand(&name).with_context(|| name.clone())?);
        } else {
            all.push(name);
        }
    }
    Ok(all)
}

fn expand_braces(text: &str) -> Result<Vec<String>> {
    expand_within(text, MAX_BRACES)
}

/// Each pair of braces costs one level of recursion; `left` bounds the depth.
fn expand_within(text: &str, left: usize) -> Result<Vec<String>> {
    let Some((before, inside, after)) = first_brace(text) else { return Ok(vec![text.to_owned()]) };
    let Some(left) = left.checked_sub(1) else { bail!("more than {MAX_BRACES} braces") };
    let tails = expand_within(after, left)?;
    let choices = choices(inside, left)?;
    if choices.len().saturating_mul(tails.len()) > MAX_NAMES {
        bail!("more than {MAX_NAMES} names");
    }
    Ok(choices.iter().flat_map(|choice| tails.iter().map(move |tail| format!("{before}{choice}{tail}"))).collect())
}

/// The text before, inside of and after the first braces that contain a range
/// or a list. Others, such as `${x}` in a command, are left alone.
fn first_brace(text: &str) -> Option<(&str, &str, &str)> {
    let is_list = |inside: &str| split_list(inside).len() > 1 || range(inside).is_some();
    let is_ours = |&(open, close): &(usize, usize)| is_list(&text[open + 1..close]) && !text[..open].ends_with('$');
    let (open, close) = pairs(text).into_iter().take(MAX_TRIES).find(is_ours)?;
    Some((&text[..open], &text[open + 1..close], &text[close + 1..]))
}

/// The positions of matching braces, in the order of the opening ones.
fn pairs(text: &str) -> Vec<(usize, usize)> {
    let (mut open, mut pairs) = (Vec::new(), Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open.push(at),
            b'}' => pairs.extend(open.pop().map(|from| (from, at))),
            _ => {}
        }
    }
    pairs.sort_unstable();
    pairs
}

/// The alternatives inside of one pair of braces, each expanded.
fn choices(inside: &str, left: usize) -> Result<Vec<String>> {
    if let Some((from, to, width)) = range(inside) {
        if from.abs_diff(to) >= MAX_NAMES as u64 {
            bail!("more than {MAX_NAMES} names");
        }
        let number = |i: i64| format!("{i:0width$}");
        return Ok(if from <= to {
            (from..=to).map(number).collect()
        } else {
            (to..=from).rev().map(number).collect()
        });
    }
    let mut all = Vec::new();
    for item in split_list(inside) {
        all.extend(expand_within(item, left)?);
        if all.len() > MAX_NAMES {
            bail!("more than {MAX_NAMES} names");
        }
    }
    Ok(all)
}

/// `0000..0147`: first, last, and the width to pad to.
fn range(inside: &str) -> Option<(i64, i64, usize)> {
    let (from, to) = inside.split_once("..")?;
    let padded = [from, to].iter().any(|end| end.len() > 1 && end.trim_start_matches('-').starts_with('0'));
    let width = if padded { from.len().max(to.len()) } else { 0 };
    // No number of 64 bits has more digits.
    let sensible = width <= 32;
    Some((from.parse().ok()?, to.parse().ok()?, width)).filter(|_| sensible)
}

/// Splits at the commas that are not inside of nested braces.
fn split_list(inside: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                items.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&inside[start..]);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(spec: &str) -> String {
        expand(spec).unwrap().join(" ")
    }

    #[test]
    fn ranges_and_lists_expand_as_in_a_shell() {
        assert_eq!(names("a{08..11}.tar"), "a08.tar a09.tar a10.tar a11.tar");
        assert_eq!(names("{9..11}"), "9 10 11");
        assert_eq!(names("{3..1}"), "3 2 1");
        assert_eq!(names("{a,b{0..1}}-{x,y}"), "a-x a-y b0-x b0-y b1-x b1-y");
        assert_eq!(names("{,x}y"), "y xy");
    }

    #[test]
    fn what_is_no_range_stays() {
        for plain in ["plain", "{key}", "a{b", "}a{", "pipe:echo ${x} {y}", "{1..b}", "{}"] {
            assert_eq!(names(plain), plain);
        }
    }

    #[test]
    fn double_colons_join_lists_outside_of_commands() {
        assert_eq!(names("a::b{1..2}"), "a b1 b2");
        assert_eq!(names("pipe:a::b"), "pipe:a::b");
    }

    #[test]
    fn absurd_ranges_are_refused() {
        assert_eq!(names(&format!("{{{}1..2}}", "0".repeat(70_000))).len(), 70_006);
        assert_eq!(expand(&"{".repeat(500_000)).unwrap().len(), 1);
        for deep in ["{a,b", "{1..1}"] {
            assert!(expand(&(deep.repeat(50_000) + &"}".repeat(50_000))).is_err());
        }
        assert!(expand("{0..99999999999}").is_err());
        assert!(expand("{0..9999}{0..9999}").is_err());
        assert!(expand("{-9223372036854775808..9223372036854775807}").is_err());
    }
}
