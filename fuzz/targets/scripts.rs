//! Any text as a pipeline of shardrun; the value for its places stands after a NUL.

#![no_main]
#![allow(dead_code, reason = "a target uses a part of its tool")]

#[path = "../../tools/shardrun/quoting.rs"]
mod quoting;
#[path = "../../tools/shardrun/template.rs"]
mod template;

use libfuzzer_sys::fuzz_target;
use tarpipe::run::shell::quote;
use template::Template;

/// What templates know of an item; the rest of the module is about tables.
mod items {
    pub struct Item<'a> {
        pub value: &'a str,
        pub index: u64,
        pub count: u64,
    }
}

use items::Item;

fuzz_target!(|text: &str| {
    let (text, value) = text.split_once('\0').unwrap_or((text, "a'b"));
    let index = value.len() as u64;
    let item = Item { value, index, count: index + 1 };
    assert_eq!(quoting::quoted(text).len(), text.len());
    if let Ok(name) = Template::name(text) {
        _ = name.fill(&item);
    }
    if let Ok(script) = Template::script(text) {
        _ = script.clashes(&item);
        let filled = script.fill(&item);
        // A text without places stays as it is, but for doubled braces.
        if !text.contains('{') {
            assert_eq!(filled, text);
        }
    }
    let quoted = quote(value);
    assert!(quoted == value || (quoted.starts_with('\'') && quoted.ends_with('\'')));
});
