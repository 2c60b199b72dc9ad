//! The layers: in lib a module uses only those listed above it in lib.rs, and no tool imports a tool.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::TOOLS;

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// Rust files below `folder`, by their path in it.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(folder).unwrap().to_owned(), text));
            }
        }
    }
    found
}

/// The modules that lib.rs declares, from bottom to top.
fn layers(lib: &str) -> Vec<&str> {
    lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.split(';').next()).collect()
}

/// The top-level modules that a file names as `crate::NAME` or through `super::`, tests and comments left out.
fn used(path: &Path, text: &str) -> BTreeSet<String> {
    let code = without_tests(text);
    let lines: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap()).collect();
    let code = lines.join("\n").replace(&"super::".repeat(depth(path)), "crate::");
    let mut names = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let list = match after.strip_prefix('{') {
            Some(group) => outer_names(group),
            None => vec![word(after)],
        };
        names.extend(list);
    }
    names
}

/// A file without its module of unit tests.
fn without_tests(text: &str) -> String {
    let Some((before, tests)) = text.split_once("#[cfg(test)]\nmod tests") else { return text.to_owned() };
    let after = tests.split_once("\n}\n").map_or("", |(_, after)| after);
    format!("{before}\n{after}")
}

/// How many modules a file is below the root of its crate.
fn depth(path: &Path) -> usize {
    path.components().count() - usize::from(path.ends_with("mod.rs"))
}

fn word(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first names of a group `{a, b::c, d::{e, f}}`, without its opening brace.
fn outer_names(group: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    parts.iter().map(|part| word(part)).filter(|name| !name.is_empty()).collect()
}

/// `a/b.rs uses c` for every use of a module that is not below the file's own.
fn upward(order: &[&str], files: &[(PathBuf, String)]) -> Vec<String> {
    let level = |name: &str| order.iter().position(|layer| *layer == name);
    let mut edges = Vec::new();
    for (path, text) in files {
        let first = path.iter().next().unwrap().to_str().unwrap();
        let Some(own) = level(first.trim_end_matches(".rs")) else { continue };
        let above = used(path, text).into_iter().filter(|name| level(name).is_some_and(|level| level > own));
        edges.extend(above.map(|name| format!("{} uses {name}", path.display())));
    }
    edges
}

#[test]
fn a_module_uses_only_the_layers_below_it() {
    let lib = root().join("lib");
    let text = std::fs::read_to_string(lib.join("lib.rs")).unwrap();
    let order = layers(&text);
    assert!(order.len() > 10, "lib.rs declares {order:?}");
    let files = sources(&lib);
    let known = |path: &Path| order.contains(&path.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs"));
    let stray: Vec<_> = files.iter().map(|(path, _)| path).filter(|path| !known(path)).collect();
    assert!(
        stray.iter().all(|path| ["lib.rs", "build.rs"].contains(&path.to_str().unwrap())),
        "in no layer: {stray:?}"
    );
    assert_eq!(upward(&order, &files), Vec::<String>::new(), "these use a layer above their own");
}

#[test]
fn an_upward_edge_is_found_in_every_spelling() {
    let order = ["low", "middle", "high"];
    for (text, expected) in [
        ("use crate::high::Thing;", true),
        ("use crate::{low, high};", true),
        ("use crate::{low::{a, b}, high::{self, c}};", true),
        ("fn f() { crate::high::g() }", true),
        ("use crate::low::high;", false),
        ("use crate::{low::{high, b}};", false),
        ("// crate::high is above", false),
        ("use crate::low;\n#[cfg(test)]\nmod tests { use crate::high; }", false),
        ("#[cfg(test)]\nmod tests {\n}\nuse crate::high;\n", true),
        ("use super::super::high::Thing;", true),
        ("use super::high;", false),
    ] {
        let files = [(PathBuf::from("middle/part.rs"), text.to_owned())];
        assert_eq!(!upward(&order, &files).is_empty(), expected, "{text}");
    }
}

#[test]
fn no_tool_imports_a_tool() {
    let tools = root().join("tools");
    for (path, text) in sources(&tools) {
        assert!(!text.contains("#[path"), "{}: a file of another folder is a module here", path.display());
        let first = path.iter().next().unwrap().to_str().unwrap();
        if TOOLS.contains(&first) {
            let others: Vec<_> = used(&path, &text).into_iter().filter(|name| name != first).collect();
            assert!(others.is_empty(), "{}: uses {others:?} of the tools' crate", path.display());
        }
    }
}
