//! Any text as an expression of --select, decided for a sample whose JSON stands after a NUL.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpipe::value::expression::{Expression, from_json};

fuzz_target!(|text: &str| {
    let (text, json) = text.split_once('\0').unwrap_or((text, ""));
    let Ok(expression) = Expression::parse(text) else { return };
    let json = serde_json::from_str(json).unwrap_or_else(|_| serde_json::json!({"width": 300, "tags": ["a", 2]}));
    _ = expression.variables();
    _ = expression.holds([("key", "train/cat-1".into()), ("json", from_json(json))]);
});
