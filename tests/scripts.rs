//! The scripts: a mistake is told before anything is built, installed or measured.

use std::path::Path;

use crate::support::{bash, dir, list};

#[test]
fn a_mistake_ends_a_script_at_once_with_status_2() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let folder = dir();
    for (words, told) in [
        ("any2dataset --nosuch 1", "any2dataset: no flag --nosuch (see --help)"),
        ("bench nosuch", "bench: error: no bench called nosuch (there are: "),
        ("bench --rounds 0 tarcat", "bench: error: --rounds 0 is too few"),
        ("bench --bin none tarcat", "bench: error: none: no tools there; leave --bin out and they are built"),
        ("corpora --nosuch", "corpora: error: unrecognized arguments: --nosuch"),
        ("crates --nosuch", "crates: error: unrecognized arguments: --nosuch"),
        ("faults --only x/y", "faults: error: no pipeline and fault are called x/y (there are: fetch/{"),
        ("fuzz nosuch", "fuzz: no target is called nosuch (there are: "),
        ("img2dataset --nosuch 1", "img2dataset: no flag --nosuch (see --help)"),
        ("install --nosuch", "install: no flag --nosuch (see --help)"),
        ("load nosuch", "load: error: no load called nosuch (there are: "),
        ("load --bin none tiny", "/none: no tools there; build them, or name their folder with --bin"),
        ("man --nosuch", "man: no flag --nosuch (see --help)"),
        ("quickstart --nosuch", "quickstart: no flag --nosuch (see --help)"),
        ("quickstart --bin none", "quickstart: --bin 'none': no tools there; leave it out and they are built"),
        ("slurm-cluster", "usage, under sbatch or in salloc: slurm-cluster spark|ray COMMAND... (see --help)"),
        ("ssh-cluster nosuch", "ssh-cluster: error: argument command: invalid choice: 'nosuch'"),
        ("test --nosuch", "test: no flag --nosuch (see --help)"),
        ("test --engines nosuch", "test: no engine is called nosuch (there are: slurm spark ray k8s)"),
        ("video2dataset --nosuch 1", "video2dataset: no flag --nosuch (see --help)"),
    ] {
        let done = bash(&format!("{}/{words}", scripts.display())).cwd(folder.path()).done().status(2);
        let last = done.stderr_text().lines().last().unwrap_or_default().to_owned();
        assert!(last.contains(told), "{words}: {last}");
    }
    assert_eq!(list(folder.path()), [""; 0]);
}

#[test]
fn the_text_at_the_top_of_a_script_is_its_help() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    for name in ["fuzz", "install", "man", "quickstart", "slurm-cluster", "test"] {
        let help = String::from_utf8(bash(&format!("./{name} --help")).cwd(&scripts).ok()).unwrap();
        let text = std::fs::read_to_string(scripts.join(name)).unwrap();
        let first = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap();
        assert_eq!(help.lines().next(), Some(first), "{name}");
        assert!(!help.contains("set -e"), "{help}");
    }
}
