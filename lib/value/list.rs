//! Lists as values of flags: `--drop 'jpg txt'`, `--weights 2,1`.
//!
//! There is one syntax for all of them. Items are separated by commas, blanks
//! (spaces, tabs, line breaks) or any mix of the two; empty items are ignored.
//! So `a b`, `a,b` and ` a, b,` are the same list, and an item can contain
//! neither commas nor blanks. The order of the items is kept, and so are
//! duplicates: what they mean is up to the flag.
//!
//! The syntax of a single item is the business of the flag as well. Items such
//! as `class=cls;label` (tarcat `-f`), `id:int64` (tardataset `--columns`) or
//! `0-9` (urlcat `--shards`) are parsed by their tools.

use std::fmt::{self, Display};
use std::ops::Deref;
use std::str::FromStr;

/// A list of values of one type, text by default; see the head of this module
/// for the syntax.
///
/// As the type of a flag it accepts the flag once. `Vec<List<T>>` lets the flag
/// be repeated; [`concat()`] then joins the lists. A flag that is not given has
/// an empty list by `#[arg(default_value = "")]`.
///
/// ```
/// use tarpipe::value::list::List;
///
/// let fields: List = "jpg, txt json".parse()?;
/// assert_eq!(*fields, ["jpg", "txt", "json"]);
/// let weights: List<f64> = "2,1.5".parse()?;
/// assert_eq!(weights.iter().sum::<f64>(), 3.5);
/// assert_eq!("2,x".parse::<List<f64>>().unwrap_err(), "'x': invalid float literal");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T = String>(Vec<T>);

impl<T> List<T> {
    /// Parses a list whose items need a parser of their own, such as a clap
    /// value parser.
    ///
    /// # Errors
    ///
    /// The first error of `parse`, after the item that caused it.
    pub fn parse_with<E: Display>(text: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<Self, String> {
        let parse = |item: &str| parse(item).map_err(|err| format!("'{item}': {err}"));
        items(text).map(parse).collect::<Result<_, _>>().map(List)
    }

    /// The items, in order.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

/// An empty list.
impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// Parses every item; the error of an item follows the item itself. A list of
/// text accepts everything.
impl<T: FromStr<Err: Display>> FromStr for List<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        List::parse_with(text, T::from_str)
    }
}

/// The items, separated by blanks.
impl<T: Display> Display for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if at > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// The items of a list in a text, borrowed and in order.
///
/// ```
/// use tarpipe::value::list::items;
///
/// assert_eq!(items(" a, b,,c\td ").collect::<Vec<_>>(), ["a", "b", "c", "d"]);
/// ```
pub fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|item| !item.is_empty())
}

/// The lists of a flag that was given several times, as one, in order.
pub fn concat<T: Clone>(lists: &[List<T>]) -> Vec<T> {
    lists.iter().flat_map(|list| list.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_blanks_separate_items_in_any_mix() {
        for text in ["a b c", "a,b,c", "a, b, c", ",a,,b c, ", "\ta\nb , c"] {
            assert_eq!(*text.parse::<List>().unwrap(), ["a", "b", "c"], "{text:?}");
        }
        for text in ["", " ", ",", " , ,"] {
            assert!(text.parse::<List>().unwrap().is_empty(), "{text:?}");
        }
    }

    #[test]
    fn items_keep_their_own_syntax_order_and_duplicates() {
        assert_eq!(*"new=old;older b:=TEXT b:=TEXT".parse::<List>().unwrap(), ["new=old;older", "b:=TEXT", "b:=TEXT"]);
    }

    #[test]
    fn an_invalid_item_is_named() {
        assert_eq!("1 x".parse::<List<u8>>(), Err("'x': invalid digit found in string".into()));
        let even = |text: &str| text.parse().ok().filter(|n: &u8| n.is_multiple_of(2)).ok_or("not an even number");
        assert_eq!(List::parse_with("2 4", even).map(List::into_vec), Ok(vec![2, 4]));
        assert_eq!(List::parse_with("2 3", even), Err("'3': not an even number".into()));
    }

    #[test]
    fn a_list_prints_as_it_can_be_parsed() {
        let list: List<u8> = "3, 1".parse().unwrap();
        assert_eq!((list.to_string().as_str(), list.to_string().parse().as_ref()), ("3 1", Ok(&list)));
        assert_eq!(concat(&[list.clone(), List::default(), list]), [3, 1, 3, 1]);
    }
}
