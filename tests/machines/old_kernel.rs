//! Clusters live long: what their kernels do not have must not be needed.

use std::path::Path;

use crate::support::{Archive, Run, bash, dir, names};

/// A script with our tools on its path, on a kernel that lacks what came after 2018 and we would use.
fn on_an_old_kernel(script: &str) -> Run {
    let launcher = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/old_kernel.py");
    bash(&format!("exec python3 '{}' bash -c \"$SCRIPT\"", launcher.display())).env("SCRIPT", script)
}

#[test]
fn the_kernel_is_old() {
    let ask = "python3 -c 'import os; os.pidfd_open(os.getpid())'";
    bash(ask).done().status(0);
    on_an_old_kernel(ask).done().status(1).stderr_has("Function not implemented");
}

#[test]
fn tarproc_sees_the_end_of_its_commands() {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(6).whole()).unwrap();
    for way in ["-c true", "--each cls -c cat", "--worker cat", "--fast-shell -c true"] {
        let done = on_an_old_kernel(&format!("tarproc -p 2 {way} in.tar -o -")).cwd(folder.path()).done().status(0);
        assert_eq!(names(&done.stdout()).len(), 6 * 3, "{way}");
    }
    let done = on_an_old_kernel("tarproc --timeout 0.2 --on-error skip -c 'sleep 100' in.tar -o /dev/null");
    done.cwd(folder.path()).done().status(3).stderr_has("timeout");
}

#[test]
fn tarproc_follows_no_link_that_it_cannot_follow_safely() {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(1).whole()).unwrap();
    let script = "tarproc -c 'ln -s sample.cls sample.link' in.tar -o out.tar";
    bash(script).cwd(folder.path()).done().status(0);
    std::fs::remove_file(folder.path().join("out.tar")).unwrap();
    on_an_old_kernel(script).cwd(folder.path()).done().status(3).stderr_has("1 link_outside");
}

#[test]
fn shardrun_sees_the_end_of_its_items() {
    let folder = dir();
    let flags = "--run run -n 3 -o 'out-{}' --retries 0";
    let script = format!("shardrun {flags} --timeout 5 '[ {{}} = 1 ] && sleep 100; echo {{}}'");
    let done = on_an_old_kernel(&script).cwd(folder.path()).done().status(3);
    done.stderr_has("timeout");
    assert_eq!(std::fs::read_to_string(folder.path().join("out-2")).unwrap(), "2\n");
}

#[test]
fn shardrun_cancels_a_run() {
    let folder = dir();
    let script = "shardrun --run r -n 1 'touch begun; sleep 1000' & until [ -e begun ]; do sleep 0.05; done; \
        shardrun cancel r; echo $?; wait $!; echo $?";
    let done = on_an_old_kernel(script).cwd(folder.path()).done().status(0);
    let done = done.stderr_has("shardrun: r: ended process ");
    assert_eq!(done.stdout_text(), "0\n143\n");
}
