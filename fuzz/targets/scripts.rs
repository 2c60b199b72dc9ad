//! Any text as a pipeline of shardrun; the value for its placeholders follows a NUL.

#![no_main]
#![allow(dead_code, reason = "a target uses a part of its tool")]

#[path = "../../tools/shardrun/plan"]
mod plan {
    pub mod quoting;
    pub mod template;

    /// The part of an item that templates use; the real module reads tables.
    pub mod items {
        pub struct RunItem<'a> {
            pub value: &'a str,
            pub index: u64,
            pub count: u64,
        }
    }
}

use libfuzzer_sys::fuzz_target;
use tarpipe::run::shell::quote;

use plan::items::RunItem;
use plan::quoting;
use plan::template::ItemTemplate;

fuzz_target!(|text: &str| {
    let (text, value) = text.split_once('\0').unwrap_or((text, "a'b"));
    let index = value.len() as u64;
    let item = RunItem { value, index, count: index + 1 };
    assert_eq!(quoting::quoted(text).len(), text.len());
    if let Ok(name) = ItemTemplate::name(text) {
        _ = name.fill(&item);
    }
    if let Ok(script) = ItemTemplate::script(text) {
        _ = script.clashes(&item);
        let filled = script.fill(&item);
        // Text without placeholders stays unchanged, except for doubled braces.
        if !text.contains('{') {
            assert_eq!(filled, text);
        }
    }
    let quoted = quote(value);
    assert!(quoted == value || (quoted.starts_with('\'') && quoted.ends_with('\'')));
});
