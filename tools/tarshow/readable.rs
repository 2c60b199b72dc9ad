//! Text that strangers wrote, made fit for a line of a terminal.

use unicode_width::UnicodeWidthChar;

pub use tarpipe::messages::{acts, escape_acting as clean};

/// The text on one line of at most `columns`, cleaned; an ellipsis stands for what does not fit.
pub fn line(text: &str, columns: usize) -> String {
    // Enough to fill the line even if every character has to be escaped or is of no width.
    let head: String = text.chars().take(columns.saturating_mul(4) + 16).collect();
    let spaced: String = head.split_whitespace().collect::<Vec<_>>().join(" ");
    let cleaned = clean(&spaced);
    let whole = head.len() == text.len() && width(&cleaned) <= columns;
    if whole { cleaned } else { format!("{}…", cut(&cleaned, columns.saturating_sub(1))) }
}

/// As much of the start of a text as fits into `columns`.
pub fn cut(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return &text[..at];
        }
    }
    text
}

/// How many columns a text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_stays() {
        assert_eq!(clean("a\x1b[2Jb\u{9b}31m\u{202e}c"), "a\\u{1b}[2Jb\\u{9b}31m\\u{202e}c");
        assert_eq!(clean("naïve 猫"), "naïve 猫");
    }

    #[test]
    fn a_line_is_as_wide_as_it_may_be() {
        assert_eq!(line("one\n  two", 20), "one two");
        assert_eq!(line("one two three", 8), "one two…");
        assert_eq!(line("猫猫猫猫", 5), "猫猫…");
        assert_eq!(line(&"\u{301}".repeat(1000), 10), format!("{}…", "\u{301}".repeat(56)));
    }
}
