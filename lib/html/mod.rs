//! Self-contained HTML pages: the frame with its style, escaping, and charts.
//! Used by tarshow and shardrun for their reports.
//!
//! The content security policy of a page lists the hashes of its style and
//! script, so that no other code runs, whatever the data contains, and nothing
//! is loaded.

mod chart;
mod histogram;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::messages;

pub use chart::{ChartMark, bars, bins, line};
pub use histogram::{Bin, Histogram};

/// The style of all pages: tables, tiles, notes and charts.
const STYLE: &str = include_str!("page.css");

/// A page with this title around `body`, which is HTML. The title is escaped;
/// `script` is not, and may be empty.
pub fn page(title: &str, body: &str, script: &str) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
         style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}{}</body>\n</html>\n",
        hash(STYLE),
        hash(script),
        Escaped(title),
        if script.is_empty() { String::new() } else { format!("<script>{script}</script>\n") }
    )
}

/// Untrusted text, displayed with markup and control characters escaped.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in messages::escape_acting(self.0).chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// Formats `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats `12.3 %`; never 0 % unless there is none, never 100 % unless it is all.
pub fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 * 100.0 / whole.max(1) as f64;
    match share {
        _ if part > 0 && share < 0.1 => "< 0.1 %".into(),
        _ if part < whole && share > 99.9 => "> 99.9 %".into(),
        _ => format!("{share:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        let hostile = "<script>alert('x')</script>&\"\u{202e}\0";
        let shown = Escaped(hostile).to_string();
        assert!(!shown.contains(['<', '>', '"', '\'', '\0', '\u{202e}']), "{shown}");
        assert!(shown.starts_with("&lt;script&gt;alert(&#39;x&#39;)"));
    }

    #[test]
    fn numbers_are_read_easily() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(percent(1, 100_000), "< 0.1 %");
        assert_eq!(percent(99_999, 100_000), "> 99.9 %");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "0.0 %");
    }
}
