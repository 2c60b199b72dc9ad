//! The floor of `tarproc -c true`: for each sample only mkdir, write, spawn `bash -c true`, wait, remove.
//! `bare DIR SAMPLES THREADS`, compiled by the bench with rustc alone.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (place, samples, threads) = (Path::new(&args[1]), args[2].parse().unwrap(), args[3].parse().unwrap());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= samples {
                        break;
                    }
                    sample(&place.join(format!("{i:09}")));
                }
            });
        }
    });
}

fn sample(folder: &Path) {
    let files = ["__key__", "__source__", "sample.cls", "sample.jpg", "sample.json"].map(|name| folder.join(name));
    fs::create_dir(folder).unwrap();
    for file in &files {
        fs::write(file, [7; 1000]).unwrap();
    }
    let mut command = Command::new("bash");
    let status = command.args(["-c", "true"]).current_dir(folder).stdin(Stdio::null()).status().unwrap();
    assert!(status.success());
    for file in &files {
        fs::remove_file(file).unwrap();
    }
    fs::remove_dir(folder).unwrap();
}
