//! SECURITY.md names a test for each promise. Those tests exist.

use std::path::Path;

/// All tests in the sources below a folder, by `module::name` as the test runner shows them, file by file.
fn tests(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            tests(&entry, found);
            continue;
        }
        if entry.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&entry).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = entry.strip_prefix(root).unwrap().with_extension("").to_string_lossy().replace('/', "::");
        let file = file.trim_end_matches("::mod");
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line == "#[test]" {
                let name = lines.by_ref().find_map(|line| line.strip_prefix("fn "));
                found.extend(name.and_then(|name| name.split('(').next()).map(|name| format!("{file}::{name}")));
            }
        }
    }
}

#[test]
fn every_test_that_security_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    ["tests", "lib", "tools"].iter().for_each(|folder| tests(&root.join(folder), &mut found));
    let text = std::fs::read_to_string(root.join("SECURITY.md")).unwrap();
    // Names in backquotes that look like one: tests::…, lib::…, tools::….
    let named: Vec<&str> = text.split('`').filter(|word| word.contains("::") && !word.contains(' ')).collect();
    assert!(named.len() >= 20, "only {} tests are named", named.len());
    let missing: Vec<&&str> = named.iter().filter(|name| !found.iter().any(|test| test == **name)).collect();
    assert!(missing.is_empty(), "SECURITY.md names tests that do not exist: {missing:?}");
    // Every promise names one: a row of a table has a test in its last column.
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Promise") && !line.starts_with("| ---"));
    let unproven: Vec<&str> = rows.filter(|row| !row.contains("::")).collect();
    assert!(unproven.is_empty(), "promises without a test: {unproven:?}");
}

#[test]
fn there_is_no_unsafe_code_and_no_way_to_add_it_unseen() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"forbid\""));
    for manifest in ["Cargo.toml", "lib/Cargo.toml"] {
        let text = std::fs::read_to_string(root.join(manifest)).unwrap();
        assert!(text.contains("[lints]\nworkspace = true"), "{manifest} does not take the lints of the workspace");
    }
}
