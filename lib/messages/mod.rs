//! Messages on stderr, one line each: `tool: subject: problem; hint`. Nothing
//! else in the library or the tools prints there; a lint enforces it.
//!
//! What is shown depends on the verbosity:
//!
//! | level | flag | [`error`] | [`notice`] | [`detail`] |
//! |---|---|---|---|---|
//! | [`Level::Quiet`] | `-q` | yes | no | no |
//! | [`Level::Normal`] | | yes | yes | no |
//! | [`Level::Verbose`] | `-v` | yes | yes | yes |
//!
//! Text from data may be hostile: it can contain terminal escape sequences,
//! line breaks and secrets. Every message passes through [`escape`], so that
//! one message is one line, cannot control a terminal, and does not reveal
//! credentials in URLs.
//!
//! All functions can be called from any thread; lines do not interleave. Failed
//! writes to stderr are ignored, because there is nobody left to tell.

pub mod hints;
pub mod progress;
pub mod secret;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use indicatif::ProgressBar;

/// The progress bar, if there is one. It is taken off the screen while a
/// message is written.
pub(crate) static BAR: OnceLock<ProgressBar> = OnceLock::new();
static TOOL: OnceLock<String> = OnceLock::new();
static LEVEL: AtomicU8 = AtomicU8::new(Level::Normal as u8);

/// The verbosity. Errors are shown at every level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Level {
    /// `-q`: errors only.
    Quiet = 0,
    /// Also notices, such as the summary if something was left out.
    Normal = 1,
    /// `-v`: also one line for each item that is left out, and for each retry.
    Verbose = 2,
}

/// Sets the prefix of messages. Only the first call has an effect.
pub fn set_tool(name: &str) {
    _ = TOOL.set(name.to_owned());
}

/// The name of the tool, or `tarpipe` before [`set_tool`].
pub fn tool() -> &'static str {
    TOOL.get().map_or("tarpipe", String::as_str)
}

/// Sets the verbosity for all later messages of the process.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Returns true if messages of `level` are shown. Test it before building an
/// expensive message.
pub fn says(level: Level) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level as u8
}

/// Reports an error, at every level. `cli::main` calls it once, with what ended
/// the run; tools call it for errors that do not end the run.
pub fn error(text: &str) {
    say(text);
}

/// Reports something that every user should know, unless `-q` is given.
pub fn notice(text: &str) {
    if says(Level::Normal) {
        say(text);
    }
}

/// Reports what happened to a single item; shown only with `-v`.
pub fn detail(text: &str) {
    if says(Level::Verbose) {
        say(text);
    }
}

/// Writes one line with a single call, so that lines of several processes do
/// not mix.
fn say(text: &str) {
    let line = format!("{}: {}\n", tool(), escape(&without_numbers(text)));
    without_bar(|| {
        // Without stderr there is nobody left to tell.
        _ = std::io::stderr().lock().write_all(line.as_bytes());
    });
}

/// Removes the numbers that the standard library appends to errors of the
/// system, such as `(os error 2)`.
fn without_numbers(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    while let Some((before, after)) = text.split_once(" (os error ")
        && let Some((number, after)) = after.split_once(')')
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        text = Cow::Owned(format!("{before}{after}"));
    }
    text
}

/// Runs `write` while the progress bar is off the screen. For output of
/// children that share our terminal.
pub fn without_bar(write: impl FnOnce()) {
    match BAR.get() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Returns true for characters that control a terminal or disguise text:
/// control characters (C0, DEL and C1), line and paragraph separators, and
/// marks that change the direction of text.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Makes text from data safe for a message: secrets in URLs become `***` and
/// control characters become Rust escapes.
///
/// ```
/// use tarpipe::messages::escape;
///
/// assert_eq!(escape("http://me:pw@host/a\nb"), "http://***@host/a\\nb");
/// ```
pub fn escape(text: &str) -> String {
    escape_acting(&secret::mask(text))
}

/// Replaces every character that [`acts`] on a terminal by a Rust escape, such
/// as `\u{1b}`. Secrets stay; for output that users asked for.
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

/// Escapes, in encoded JSON, the characters that [`acts`] reports and that the
/// encoder leaves alone. The value of the JSON does not change. Borrows the
/// input if there is nothing to escape, which is the usual case.
///
/// ```
/// use tarpipe::messages::escape_json;
///
/// assert_eq!(escape_json("{\"name\":\"\u{202e}txt.exe\"}"), "{\"name\":\"\\u202etxt.exe\"}");
/// ```
pub fn escape_json(text: &str) -> Cow<'_, str> {
    // Line breaks occur only between the values of indented JSON; in strings the encoder escapes them.
    let is_open = |c: char| acts(c) && c != '\n';
    if !text.contains(is_open) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Such characters occur only inside strings, and all of them fit into 16 bits.
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
