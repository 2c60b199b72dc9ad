//! The one place that writes to stderr: `tool: subject: what is wrong`, on one line.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::progress;
use crate::secret;

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
    progress::pause(|| {
        // With stderr gone there is nobody left to tell.
        _ = std::io::stderr().lock().write_all(line.as_bytes());
    });
}

/// Control characters, which may come from hostile data, as Rust escapes; secrets in URLs as `***`.
pub fn escape(text: &str) -> String {
    let text = secret::mask(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        assert_eq!(escape("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(escape("ä ö"), "ä ö");
    }
}
