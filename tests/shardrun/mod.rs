//! shardrun through its binary, on this machine. The clusters are in tests/engines.

mod engines;
mod items;
mod limits;
mod live;
mod outputs;
mod runs;

use std::path::Path;

use serde_json::Value;

use crate::support::{Run, run};

/// shardrun with these arguments, in this folder.
pub fn shardrun<S: AsRef<str>>(folder: &Path, args: impl IntoIterator<Item = S>) -> Run {
    run("shardrun", args).cwd(folder)
}

/// The job log of the run `r` in this folder, in the order of the items.
pub fn log(folder: &Path) -> Vec<Value> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder.join("r/log")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    lines.sort_by_key(|line| line["item"].as_u64());
    lines
}

/// What status says of the run `r`: done, running, failed, left.
pub fn counts(folder: &Path) -> [u64; 4] {
    let status: Value = serde_json::from_slice(&shardrun(folder, ["status", "r", "--json"]).ok()).unwrap();
    ["done", "running", "failed", "left"].map(|name| status[name].as_u64().unwrap())
}

pub fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Whether nothing of a process group is left but zombies, which only wait for a parent to look.
pub fn is_gone(group: &str) -> bool {
    let all = std::process::Command::new("ps").args(["-eo", "pgid=,stat="]).output().unwrap();
    let all = String::from_utf8(all.stdout).unwrap();
    let mut lines = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    !lines.any(|words| words[0] == group && !words[1].starts_with('Z'))
}
