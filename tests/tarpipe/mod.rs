//! tarpipe, the executable that contains all tools.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{Run, TOOLS, TempDir, bash, dir, list, tool};

/// A folder with nothing but a copy of the executable.
fn lone_copy() -> TempDir {
    let folder = dir();
    // Not std::fs::copy: a process that another test starts meanwhile would inherit the open file, and bash would refuse to
    // run it ("Text file busy").
    assert!(Command::new("cp").arg(tool("tarpipe")).arg(folder.path()).status().unwrap().success());
    folder
}

/// A script in `folder` that finds no tool on its PATH.
fn alone(folder: &Path, script: &str) -> Run {
    bash(script).cwd(folder).env("PATH", "/usr/bin:/bin")
}

#[test]
fn it_lists_its_tools_and_runs_each_by_its_first_argument() {
    let folder = lone_copy();
    let names = String::from_utf8(alone(folder.path(), "./tarpipe --list").ok()).unwrap();
    assert_eq!(names.lines().collect::<Vec<_>>(), TOOLS);
    for tool in TOOLS {
        let version = alone(folder.path(), &format!("./tarpipe {tool} --version")).ok();
        assert_eq!(String::from_utf8(version).unwrap(), format!("{tool} {}\n", env!("CARGO_PKG_VERSION")));
        let usage = alone(folder.path(), &format!("./tarpipe {tool} --help")).ok();
        assert!(String::from_utf8(usage).unwrap().contains(&format!("Usage: {tool} ")), "{tool}");
    }
}

#[test]
fn the_executable_works_under_another_name() {
    let folder = lone_copy();
    let path = folder.path();
    std::fs::rename(path.join("tarpipe"), path.join("tarpipe-0.1-linux")).unwrap();
    alone(path, "./tarpipe-0.1-linux tarcat --count nine")
        .fails(2, "tarcat: invalid value 'nine' for '--count <N>': not a whole number (see tarcat --help)");
    alone(path, "./tarpipe-0.1-linux").fails(2, "tarpipe: name a tool (see tarpipe --list)");
    alone(path, "./tarpipe-0.1-linux tarcatt").fails(2, "tarpipe: unknown tool 'tarcatt' (see tarpipe --list)");
    alone(path, "./tarpipe-0.1-linux --lost").done().status(2).stderr_has("tarpipe: unexpected argument '--lost'");
}

#[test]
fn link_makes_a_working_link_for_every_tool() {
    let folder = lone_copy();
    let path = folder.path();
    alone(path, "./tarpipe link . && ./tarpipe link . && ./tarpipe link bin/new").done().status(0).stderr("");
    for tool in TOOLS {
        assert_eq!(path.join(tool).read_link().unwrap(), Path::new("tarpipe"), "beside it, a link has no folder");
        assert_eq!(path.join("bin/new").join(tool).read_link().unwrap(), path.canonicalize().unwrap().join("tarpipe"));
        assert!(alone(path, &format!("bin/new/{tool} --version")).ok().starts_with(tool.as_bytes()));
    }
}

#[test]
fn files_that_are_not_links_to_tarpipe_are_replaced_only_by_force() {
    let folder = lone_copy();
    let path = folder.path();
    std::fs::create_dir(path.join("bin")).unwrap();
    std::fs::write(path.join("bin/tarsplit"), "not ours").unwrap();
    symlink("/elsewhere/urlcat", path.join("bin/urlcat")).unwrap();
    let said = format!(
        "tarpipe: bin/tarsplit: exists and is not a link to {}; use --force to replace it",
        path.canonicalize().unwrap().join("tarpipe").display()
    );
    alone(path, "./tarpipe link bin").fails(1, &said);
    assert_eq!(list(path.join("bin")), ["tarsplit", "urlcat"], "no link was made");
    alone(path, "./tarpipe link --force bin && bin/tarsplit --version && bin/urlcat --version").done().status(0);
}

#[test]
fn pipelines_of_shardrun_find_the_tools_in_the_executable() {
    let folder = lone_copy();
    let path = folder.path();
    let pipeline = "echo {i}.txt text:one | tarcreate - | tarcat | tarcheck --json -";
    let flags = "--on local -n 2 -o '{}.json'";
    alone(path, &format!("TMPDIR=$PWD/tmp; mkdir tmp; export TMPDIR; ./tarpipe shardrun {flags} '{pipeline}'"))
        .done()
        .status(0);
    assert_eq!(list(path.join("tmp")), [""; 0], "the links are gone");
    assert!(std::fs::read_to_string(path.join("1.json")).unwrap().contains("samples"));
    let shown = alone(path, "./tarpipe shardrun --on spark --dry-run -n 1 true").ok();
    let program = path.canonicalize().unwrap().join("tarpipe");
    let words = format!("--shardrun '{} shardrun'", program.display());
    assert!(String::from_utf8(shown).unwrap().contains(&words), "{words}");
}

#[test]
fn drop_ins_run_in_the_python_package() {
    let folder = lone_copy();
    let path = folder.path();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    let help = alone(path, "./tarpipe img2dataset --help").env("PYTHONPATH", package).ok();
    assert!(String::from_utf8(help).unwrap().contains("--url_list"));
    let done = alone(path, "./tarpipe any2dataset --help").env("PYTHONPATH", "").done().status(1);
    let done = done.stderr_has("tarpipe: any2dataset: No module named 'tarpipe' in ");
    done.stderr_has("; install the Python package: pip install tarpipe");
}
