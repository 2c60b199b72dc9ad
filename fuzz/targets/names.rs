//! Any text as a list of names with braces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpipe::source::expand;

/// Four digits in a row ask for ten thousand names, two such ranges for a hundred million: that is refused, but
/// only after some work.
fn is_long(text: &str) -> bool {
    text.as_bytes().windows(4).any(|four| four.iter().all(u8::is_ascii_digit))
}

fuzz_target!(|text: &str| {
    if is_long(text) || text.contains('\0') {
        return;
    }
    let Ok(names) = expand::expand(text) else { return };
    assert!(!names.is_empty());
    if !text.contains('{') && !text.contains("::") {
        assert_eq!(names, [text]);
    }
});
