//! Makes untrusted text safe and short enough for one line of a terminal.

use unicode_width::UnicodeWidthChar;

pub use tarpipe::messages::{acts, escape_acting as clean};

/// Puts a text on one line of at most `columns` columns, with control characters escaped; an ellipsis marks what was
/// cut.
pub fn one_line(text: &str, columns: usize) -> String {
    // Enough to fill the line even if every character is escaped or has no width.
    let head: String = text.chars().take(columns.saturating_mul(4) + 16).collect();
    let spaced: String = head.split_whitespace().collect::<Vec<_>>().join(" ");
    let cleaned = clean(&spaced);
    let whole = head.len() == text.len() && width(&cleaned) <= columns;
    if whole { cleaned } else { format!("{}…", truncate(&cleaned, columns.saturating_sub(1))) }
}

/// The longest start of a text that fits into `columns` columns.
pub fn truncate(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return &text[..at];
        }
    }
    text
}

/// The number of columns that a text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(clean("a\x1b[2Jb\u{9b}31m\u{202e}c"), "a\\u{1b}[2Jb\\u{9b}31m\\u{202e}c");
        assert_eq!(clean("naïve 猫"), "naïve 猫");
    }

    #[test]
    fn a_line_is_as_wide_as_it_may_be() {
        assert_eq!(one_line("one\n  two", 20), "one two");
        assert_eq!(one_line("one two three", 8), "one two…");
        assert_eq!(one_line("猫猫猫猫", 5), "猫猫…");
        assert_eq!(one_line(&"\u{301}".repeat(1000), 10), format!("{}…", "\u{301}".repeat(56)));
    }
}
