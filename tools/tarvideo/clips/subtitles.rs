//! Reads WebVTT and SubRip subtitles: each cue is a span with its text.

use crate::tarvideo::clips::time_spans::{self, TimeSpan};
use crate::tarvideo::clips::timestamp;

/// Reads the cues in order; ignores styles, settings and notes.
pub fn parse(text: &str) -> Result<Vec<TimeSpan>, String> {
    let mut cues = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((start, rest)) = line.split_once("-->") else { continue };
        let end = rest.split_whitespace().next().unwrap_or_default();
        let mut cue = time_spans::span(timestamp::parse(start)?, timestamp::parse(end)?)?;
        let lines_of_text: Vec<String> =
            lines.by_ref().map(str::trim).take_while(|line| !line.is_empty()).map(strip_markup).collect();
        cue.text = Some(lines_of_text.join("\n"));
        cues.push(cue);
    }
    Ok(cues)
}

/// A line of text without markup.
fn strip_markup(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(open) = rest.find('<') {
        out.push_str(&rest[..open]);
        match rest[open..].find('>') {
            Some(close) => rest = &rest[open + close + 1..],
            None => {
                out.push_str(&rest[open..]);
                rest = "";
            }
        }
    }
    out.push_str(rest);
    out.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(start: f64, end: f64, text: &str) -> TimeSpan {
        TimeSpan { start, end, text: Some(text.into()) }
    }

    #[test]
    fn cues_of_both_kinds_are_read() {
        let vtt = "WEBVTT\nKind: captions\n\nNOTE x\n\n1\n00:01.000 --> 00:02.500 align:start\n<c.red>Hello</c>\n\
            <i>there</i> 1 < 2\n\n00:00:03.000 --> 00:00:04.000\nA &amp; B\n";
        assert_eq!(parse(vtt).unwrap(), [cue(1.0, 2.5, "Hello\nthere 1 < 2"), cue(3.0, 4.0, "A & B")]);
        let srt = "1\r\n00:00:01,000 --> 00:00:02,500\r\nHello\r\n\r\n2\r\n00:01:00,000 --> 00:01:01,000\r\nBye\r\n";
        assert_eq!(parse(srt).unwrap(), [cue(1.0, 2.5, "Hello"), cue(60.0, 61.0, "Bye")]);
        assert!(parse("00:05.000 --> 00:02.000\nback\n").is_err());
        assert!(parse("later --> 00:02.000\n").is_err());
    }
}
