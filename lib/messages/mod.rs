//! The one place that writes to stderr: `tool: subject: what is wrong`, on one line.

use std::borrow::Cow;
pub mod progress;
pub mod secret;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use indicatif::ProgressBar;

/// The bar on the screen, once there is one: it steps aside while a message is written.
pub(crate) static BAR: OnceLock<ProgressBar> = OnceLock::new();
static TOOL: OnceLock<String> = OnceLock::new();
static LEVEL: AtomicU8 = AtomicU8::new(Level::Normal as u8);

/// How much is said. Errors are always said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Level {
    /// Errors alone.
    Quiet = 0,
    /// And a last line when something was left out.
    Normal = 1,
    /// And a line for each thing left out.
    Verbose = 2,
}

/// Names the tool whose messages these are. The first call holds.
pub fn set_tool(name: &str) {
    _ = TOOL.set(name.to_owned());
}

/// The tool's name.
pub fn tool() -> &'static str {
    TOOL.get().map_or("tarpipe", String::as_str)
}

/// Sets how much is said.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Whether messages of `level` are said.
pub fn says(level: Level) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level as u8
}

/// Says what ended the run.
pub fn error(text: &str) {
    say(text);
}

/// Says something that matters to everyone who did not ask for quiet.
pub fn notice(text: &str) {
    if says(Level::Normal) {
        say(text);
    }
}

/// Says what became of one item, to those who asked for it.
pub fn detail(text: &str) {
    if says(Level::Verbose) {
        say(text);
    }
}

fn say(text: &str) {
    let line = format!("{}: {}\n", tool(), escape(text));
    without_bar(|| {
        // With stderr gone there is nobody left to tell.
        _ = std::io::stderr().lock().write_all(line.as_bytes());
    });
}

/// Runs `write` while the bar is off the screen.
pub fn without_bar(write: impl FnOnce()) {
    match BAR.get() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Whether a character acts on a terminal instead of appearing there: control characters (C0, DEL and C1), and marks
/// that change the direction of text or break lines.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Text from data, which may be hostile, made fit for a message: as [`escape_acting`], with secrets in URLs as `***`.
pub fn escape(text: &str) -> String {
    escape_acting(&secret::mask(text))
}

/// Text in which every character that [`acts`] on a terminal is a Rust escape.
pub fn escape_acting(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) {
            _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// JSON in which nothing acts on a terminal: the encoder escapes some of those characters only. The value is the same.
pub fn escape_json(text: &str) -> Cow<'_, str> {
    // Line breaks of indented JSON stand between values; in strings the encoder escapes them.
    let is_open = |c: char| acts(c) && c != '\n';
    if !text.contains(is_open) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Such a character can only be inside a string, and none of them is beyond 16 bits.
        if is_open(c) { _ = write!(out, "\\u{:04x}", u32::from(c)) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        assert_eq!(escape("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(escape("\u{9b}31m \u{7f} \u{202e}txt.exe\u{2069}"), "\\u{9b}31m \\u{7f} \\u{202e}txt.exe\\u{2069}");
        assert_eq!(escape("ä ö 猫 שלום"), "ä ö 猫 שלום");
    }
}
