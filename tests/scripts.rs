//! The scripts: mistakes are reported before anything is built, installed or measured.

use std::path::Path;

use crate::support::{bash, dir, list};

#[test]
fn a_mistake_ends_a_script_at_once_with_status_2() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = dir();
    for (words, told) in [
        ("scripts/any2dataset --nosuch 1", "any2dataset: no flag --nosuch (see --help)"),
        ("scripts/bench nosuch", "bench: error: no bench called nosuch (there are: "),
        ("scripts/bench --rounds 0 tarcat", "bench: error: --rounds must be at least 1, not 0"),
        ("scripts/bench --bin none tarcat", "bench: error: none: no tools there; leave --bin out and they are built"),
        ("tests/corpora/run --nosuch", "scripts/test --corpora: error: unrecognized arguments: --nosuch"),
        ("tests/crates/run --nosuch", "scripts/test --crates: error: unrecognized arguments: --nosuch"),
        (
            "tests/faults/run --only x/y",
            "scripts/test --faults: error: no pipeline and fault are called x/y (there are: fetch/{",
        ),
        ("fuzz/run nosuch", "fuzz: unknown target nosuch (use: "),
        ("scripts/img2dataset --nosuch 1", "img2dataset: no flag --nosuch (see --help)"),
        ("scripts/install --nosuch", "install: no flag --nosuch (see --help)"),
        ("tests/load/run nosuch", "scripts/test --load: error: no load called nosuch (there are: "),
        ("tests/load/run --bin none tiny", "/none: no tools there; build them, or name their folder with --bin"),
        ("scripts/man --nosuch", "man: no flag --nosuch (see --help)"),
        ("tests/packages/run --nosuch", "scripts/test --packages: error: unrecognized arguments: --nosuch"),
        ("scripts/quickstart --nosuch", "quickstart: no flag --nosuch (see --help)"),
        ("scripts/quickstart --bin none", "quickstart: --bin 'none': no tools there; leave it out and they are built"),
        ("tools/shardrun/cluster/slurm-cluster", "slurm-cluster: error: use submit, spark, ray or attach (see --help)"),
        ("tools/shardrun/cluster/slurm-cluster spark --cores 0 true", "argument --cores: '0' is not a positive number"),
        (
            "tools/shardrun/cluster/slurm-cluster attach --job 1 start spark",
            "slurm-cluster: error: start needs --cores and --memory: what the job can spare",
        ),
        ("tools/shardrun/cluster/ssh-cluster nosuch", "ssh-cluster: error: argument command: invalid choice: 'nosuch'"),
        ("scripts/test --nosuch", "test: no flag --nosuch (see --help)"),
        ("scripts/test --engines nosuch", "test: unknown engine nosuch (use: slurm spark ray k8s pipelines)"),
        ("scripts/video2dataset --nosuch 1", "video2dataset: no flag --nosuch (see --help)"),
    ] {
        let done = bash(&format!("{}/{words}", root.display())).cwd(folder.path()).done().status(2);
        let last = done.stderr_text().lines().last().unwrap_or_default().to_owned();
        assert!(last.contains(told), "{words}: {last}");
    }
    assert_eq!(list(folder.path()), [""; 0]);
}

#[test]
fn the_text_at_the_top_of_a_script_is_its_help() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for script in ["fuzz/run", "scripts/install", "scripts/man", "scripts/quickstart", "scripts/test"] {
        let (folder, name) = script.rsplit_once('/').unwrap();
        let help = String::from_utf8(bash(&format!("./{name} --help")).cwd(root.join(folder)).ok()).unwrap();
        let text = std::fs::read_to_string(root.join(script)).unwrap();
        let first = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap();
        assert_eq!(help.lines().next(), Some(first), "{script}");
        assert!(!help.contains("set -e"), "{help}");
    }
}

/// Site files of slurm-cluster, with programs in place of Slurm's that print their arguments.
#[test]
fn slurm_cluster_submits_with_the_arguments_of_site_files() {
    let folder = dir();
    let path = folder.path();
    let submit = |words: &str| {
        let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/shardrun/cluster/slurm-cluster");
        let script = format!("unset SLURM_JOB_ID; PATH=$PWD:$PATH; {} submit {words}", cluster.display());
        let run = bash(&script).cwd(path).env("TARPIPE_CLUSTER_SITE", "site.yaml").env("XDG_CONFIG_HOME", "config");
        run.done()
    };
    for name in ["salloc", "sbatch"] {
        std::fs::write(path.join(name), "#!/bin/sh\necho \"$@\"\nexit 4\n").unwrap();
        bash(&format!("chmod +x {name}")).cwd(path).ok();
    }
    let site = "# site\nbatch:\n    sbatch:\n      - --time=4:00:00\ninteractive:\n    salloc:\n      - --time=4:00:00\n      - --x11=all\n\n    srun:\n      - --overlap\nspark:\n    worker:\n        start:\n            - -c\n            - 10\nworker:\n  setup: |\n    module load x\n";
    std::fs::write(path.join("site.yaml"), site).unwrap();
    let shown = "-N 3 --exclusive --time=4:00:00 --x11=all srun -u --quit-on-interrupt -N 1 --propagate --overlap python x.py ray\n";
    let done = submit("-N 3 python x.py -- ray").status(4);
    assert_eq!(done.stderr_text(), format!("salloc {shown}"));
    assert_eq!(done.stdout_text(), shown);
    std::fs::create_dir_all(path.join("config/tarpipe")).unwrap();
    std::fs::write(path.join("config/tarpipe/cluster.yaml"), "batch: {partition: gpu, exclusive: false}\n").unwrap();
    std::fs::write(path.join("own.yaml"), "batch:\n  sbatch: ['--comment=a b', -c, 2]\n").unwrap();
    let done = submit("--batch --config own.yaml --slurm-arg=--wait sh -c 'exit 1'").status(4);
    assert_eq!(
        done.stdout_text(),
        "-N 1 --exclusive --partition=gpu --comment=a b -c 2 --wait --wrap exec sh -c 'exit 1'\n"
    );

    for (text, problem) in [
        ("spark:\n  wroker: {}\n", "unknown key spark.wroker; did you mean spark.worker?"),
        ("bacth:\n  sbatch: []\n", "unknown key bacth; did you mean batch?"),
        ("interactive:\n  saloc:\n  - --x11\n", "unknown key interactive.saloc; did you mean interactive.salloc?"),
        ("ray:\n  worker:\n    start: --memory=1\n", "ray.worker.start: expected a list of arguments"),
        ("batch:\n  sbatch:\n   - a\n  - b\n", "line 4: expected KEY: VALUE"),
        ("batch:\n\tsbatch: []\n", "line 2: a tab in the indentation; use spaces"),
        ("batch: &all {}\n", "line 1: '&': anchors, tags and folded text are not supported; quote the value"),
        ("batch: {}\nbatch: {}\n", "line 2: duplicate key batch"),
        ("batch:\n  x: \"a\n", "line 2: unterminated quote"),
    ] {
        std::fs::write(path.join("bad.yaml"), text).unwrap();
        let done = submit("--config bad.yaml true").status(2);
        let expected = format!("slurm-cluster: {}/bad.yaml: {problem}\n", path.canonicalize().unwrap().display());
        assert_eq!(done.stderr_text(), expected, "{text}");
    }
}
