//! Contracts that every tool that reads samples must keep: one table of tools, one test per contract. A new tool adds a
//! row to the table.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Archive, Run, archives, dir, list, members, names, run, status, tool};

/// A tool, the flags with which it leaves samples unchanged, and where its output appears.
pub struct Subject {
    pub tool: &'static str,
    pub flags: &'static [&'static str],
    pub output: Output,
}

#[derive(PartialEq)]
pub enum Output {
    /// One archive on stdout.
    Archive,
    /// Archives in the folder `out`.
    Shards,
    /// Text on stdout: a verdict, in which hostile names are faults.
    Text,
    /// Text on stdout: the contents of the samples.
    Listing,
}

pub const SUBJECTS: &[Subject] = &[
    Subject { tool: "tarcat", flags: &[], output: Output::Archive },
    Subject { tool: "tarcat", flags: &["--select", "true", "--max-bad", "0"], output: Output::Archive },
    Subject { tool: "tarproc", flags: &["-c", ":", "-o", "-"], output: Output::Archive },
    Subject { tool: "tarproc", flags: &["--worker", "cat", "-o", "-"], output: Output::Archive },
    Subject { tool: "tarcreate", flags: &["--from", "tar"], output: Output::Archive },
    Subject { tool: "tarsort", flags: &[], output: Output::Archive },
    Subject { tool: "tarsort", flags: &["--memory", "0", "--compress-spill"], output: Output::Archive },
    Subject { tool: "tarjoin", flags: &["--with", "pipe:echo key,x", "--keep", "anti"], output: Output::Archive },
    Subject {
        tool: "tarjoin",
        flags: &["--with", "pipe:echo key,x", "--keep", "anti", "--sorted"],
        output: Output::Archive,
    },
    Subject { tool: "tarshow", flags: &[], output: Output::Listing },
    Subject { tool: "tarshow", flags: &["--count"], output: Output::Listing },
    Subject { tool: "tarshow", flags: &["--json"], output: Output::Listing },
    Subject { tool: "tarshow", flags: &["--html", "-"], output: Output::Listing },
    Subject { tool: "tarvideo", flags: &["--probe", "--no-media", "pass"], output: Output::Archive },
    Subject { tool: "tarsplit", flags: &["-n", "3", "-o", "out/%04d.tar"], output: Output::Shards },
    Subject { tool: "tarcheck", flags: &[], output: Output::Text },
];

impl Subject {
    pub fn run(&self, folder: &Path, more: &[&str]) -> Run {
        run(self.tool, self.flags.iter().chain(more)).cwd(folder)
    }

    /// All members of the output, in order.
    fn result(&self, folder: &Path, stdout: &[u8]) -> Vec<(String, Vec<u8>)> {
        match self.output {
            Output::Archive => members(stdout),
            Output::Shards => shards(folder).iter().flat_map(|shard| members(shard)).collect(),
            Output::Text | Output::Listing => vec![],
        }
    }

    /// Whether the output is samples.
    fn has_members(&self) -> bool {
        matches!(self.output, Output::Archive | Output::Shards)
    }
}

fn shards(folder: &Path) -> Vec<Vec<u8>> {
    let out = folder.join("out");
    if !out.exists() {
        return vec![];
    }
    list(&out).iter().map(|name| std::fs::read(out.join(name)).unwrap()).collect()
}

/// Runs `check` for every subject in its own folder.
fn each(check: impl Fn(&Subject, &Path)) {
    for subject in SUBJECTS {
        let folder = dir();
        check(subject, folder.path());
    }
}

#[test]
fn empty_input_fails_because_the_stage_before_it_failed() {
    each(|subject, folder| {
        let done = subject.run(folder, &[]).done().status(1);
        done.stderr_has("stdin: byte 0: empty input; did the command before this one fail?");
        assert!(shards(folder).is_empty());
    });
}

#[test]
fn an_empty_archive_is_valid_input() {
    each(|subject, folder| {
        let out = subject.run(folder, &[]).stdin(Archive::new().whole()).ok();
        assert!(subject.result(folder, &out).is_empty());
    });
}

#[test]
fn samples_come_out_unchanged() {
    for n in [1, 20] {
        let archive = Archive::of_samples(n).whole();
        each(|subject, folder| {
            let out = subject.run(folder, &[]).stdin(archive.clone()).ok();
            if subject.has_members() {
                assert_eq!(subject.result(folder, &out), members(&archive), "{}", subject.tool);
            }
        });
    }
}

#[test]
fn a_cut_anywhere_fails_and_commits_nothing_that_is_not_whole() {
    let archive = Archive::of_samples(4).whole();
    let middle_of_data = 512 + 700;
    for at in [1, 511, 512, 513, middle_of_data, 3072, archive.len() - 1024, archive.len() - 512] {
        each(|subject, folder| {
            let done = subject.run(folder, &[]).stdin(&archive[..at]).done().status(1);
            let said = done.stderr_text();
            assert!(said.contains("byte ") && said.lines().count() <= 2, "{}: cut at {at}: {said}", subject.tool);
            if subject.output == Output::Archive {
                let out = done.stdout();
                assert!(!out.ends_with(&[0; 1024]), "{}: cut at {at}: the output has an end-of-archive", subject.tool);
            }
            shards(folder).iter().for_each(|shard| _ = members(shard));
        });
    }
}

#[test]
fn a_flipped_bit_in_a_header_fails() {
    let mut archive = Archive::of_samples(3).whole();
    let second_header = 512 + 1024;
    archive[second_header + 3] ^= 4;
    each(|subject, folder| {
        let done = subject.run(folder, &[]).stdin(archive.clone()).done().status(1);
        done.stderr_has("stdin: byte 1536: the checksum of a header is wrong");
    });
}

#[test]
fn a_reader_that_stops_early_ends_the_tool_quietly() {
    let folder = dir();
    let path = folder.path().join("big.tar");
    std::fs::write(&path, Archive::new().file("a.bin", &archives::noise(1, 8 << 20)).whole()).unwrap();
    for subject in SUBJECTS.iter().filter(|subject| subject.output == Output::Archive) {
        let mut command = subject.run(folder.path(), &["big.tar"]).into_command();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 1000]).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (status(output.status), String::from_utf8_lossy(&output.stderr).as_ref()),
            (0, ""),
            "{}",
            subject.tool
        );
    }
}

#[test]
fn a_dash_and_a_name_are_the_same_source() {
    let archive = Archive::of_samples(5).whole();
    each(|subject, folder| {
        std::fs::write(folder.join("in.tar"), &archive).unwrap();
        let by_name = subject.run(folder, &["in.tar"]).ok();
        let named = subject.result(folder, &by_name);
        let by_dash = subject.run(folder, &["-"]).stdin(archive.clone()).ok();
        assert_eq!(named, subject.result(folder, &by_dash), "{}", subject.tool);
    });
}

#[test]
fn the_number_of_threads_never_changes_the_output() {
    let archive = Archive::of_samples(50).whole();
    each(|subject, folder| {
        let outputs = ["1", "2", "8"].map(|p| {
            let stdout = subject.run(folder, &["-p", p]).stdin(archive.clone()).ok();
            (stdout, shards(folder))
        });
        assert!(outputs[0] == outputs[1] && outputs[1] == outputs[2], "{}", subject.tool);
    });
}

#[test]
fn an_output_that_cannot_be_written_fails() {
    let archive = Archive::of_samples(2).whole();
    for tool in ["tarcat", "tarsplit"] {
        let folder = dir();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let flags: &[&str] = if tool == "tarsplit" { &["-n", "1", "-o", "file/%d.tar"] } else { &["-o", "file/x.tar"] };
        let done = run(tool, flags).cwd(folder.path()).stdin(archive.clone()).done().status(1);
        assert!(done.stderr_text().starts_with(&format!("{tool}: file/")), "{}", done.stderr_text());
        assert_eq!(list(folder.path()), ["file"]);
    }
}

#[test]
fn a_full_disk_fails_and_leaves_nothing() {
    // Every write to /dev/full fails like a write to a full disk.
    let done = run("tarcat", ["-o", "/dev/full"]).stdin(Archive::of_samples(200).whole()).done().status(1);
    done.stderr("tarcat: /dev/full: No space left on device");
}

#[test]
fn hostile_names_are_coded_failures() {
    let archive = Archive::new()
        .file("good.txt", b"good")
        .file("../up.txt", b"x")
        .file("/abs.txt", b"x")
        .entry(b"new\nline.txt", tar::EntryType::Regular, b"x")
        .entry(b"latin-\xe9.txt", tar::EntryType::Regular, b"x")
        .whole();
    let summary = "1 sample; failed 4 (1 name_absolute, 1 name_control, 1 name_not_utf8, 1 name_parent)";
    each(|subject, folder| {
        let run = subject.run(folder, &[]).stdin(archive.clone());
        if subject.output == Output::Text {
            run.done().status(1).stderr_has("tarcheck: stdin: byte 1024: member ../up.txt: its path contains '..'");
            return;
        }
        let status = if ["tarproc", "tarvideo"].contains(&subject.tool) { 3 } else { 0 };
        let out = run.done().status(status).stderr(&format!("{}: {summary}", subject.tool)).stdout();
        if subject.has_members() {
            assert_eq!(subject.result(folder, &out), [("good.txt".to_owned(), b"good".to_vec())]);
        }
    });
}

#[test]
fn only_hostile_names_exit_with_status_3() {
    run("tarcat", [""; 0])
        .stdin(Archive::new().file("../a.txt", b"x").whole())
        .fails(3, "tarcat: 0 samples; failed 1 (1 name_parent)");
}

#[test]
fn members_that_belong_to_no_sample_are_dropped_and_counted() {
    let archive = Archive::new()
        .entry(b"folder/", tar::EntryType::Directory, b"")
        .entry(b"link.jpg", tar::EntryType::Symlink, b"")
        .entry(b"fifo.jpg", tar::EntryType::Fifo, b"")
        .file("folder/.hidden", b"x")
        .file("README", b"x")
        .file("__meta__/x.json", b"x")
        .file("a.txt", b"a")
        .whole();
    let summary = "1 sample; dropped 6 (1 device, 1 directory, 1 dot_file, 1 link, 1 metadata, 1 no_field)";
    each(|subject, folder| {
        let run = subject.run(folder, &[]).stdin(archive.clone());
        if subject.output == Output::Text {
            run.ok();
            return;
        }
        let out = run.done().status(0).stderr(&format!("{}: {summary}", subject.tool)).stdout();
        if subject.has_members() {
            assert_eq!(subject.result(folder, &out), [("a.txt".to_owned(), b"a".to_vec())]);
        }
    });
}

#[test]
fn very_long_names_survive() {
    let long = format!("{}/{}.jpg", "d".repeat(200), "k".repeat(300));
    let script = "import sys, tarfile, io\n\
        archive = tarfile.open(fileobj=sys.stdout.buffer, mode='w|', format=tarfile.GNU_FORMAT if sys.argv[2] == 'gnu' else tarfile.PAX_FORMAT)\n\
        info = tarfile.TarInfo(sys.argv[1]); info.size = 3\n\
        archive.addfile(info, io.BytesIO(b'abc')); archive.close()";
    for format in ["gnu", "pax"] {
        let made = std::process::Command::new("python3").args(["-c", script, &long, format]).output().unwrap();
        assert!(made.status.success());
        each(|subject, folder| {
            let out = subject.run(folder, &[]).stdin(made.stdout.clone()).ok();
            if subject.has_members() {
                assert_eq!(
                    subject.result(folder, &out),
                    [(long.clone(), b"abc".to_vec())],
                    "{} {format}",
                    subject.tool
                );
            }
        });
        let rekeyed = run("tarcat", ["--rekey", "{key}-new"]).stdin(made.stdout).ok();
        assert_eq!(names(&rekeyed), [long.replace(".jpg", "-new.jpg")]);
    }
}

#[test]
fn a_duplicate_field_is_an_error() {
    let archive = Archive::new().file("a.jpg", b"1").file("a.JPG", b"2").whole();
    each(|subject, folder| {
        let done = subject.run(folder, &[]).stdin(archive.clone()).done().status(1);
        done.stderr_has("stdin: byte 1024: sample a: field JPG appears twice");
    });
}

#[test]
fn a_mistake_in_a_flag_gets_one_line_and_status_2() {
    for subject in SUBJECTS {
        let name = subject.tool;
        let done = run(name, ["--no-such-flag"]).done().status(2);
        let said = done.stderr_text();
        assert!(said.starts_with(&format!("{name}: unexpected argument '--no-such-flag' found")), "{said}");
        assert!(said.ends_with(&format!("(see {name} --help)\n")) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn an_invalid_number_gets_a_clear_message() {
    for (tool, flag, value, what) in [
        ("tarsplit", "--samples <N>", "10k", "not a whole number"),
        ("tarsplit", "--samples <N>", "0", "0 is less than 1"),
        ("tarproc", "--batch <N>", "0", "0 is less than 1"),
        ("tarcat", "--count <N>", "99999999999999999999", "number too large"),
        ("tarresize", "--max-aspect <X>", "wide", "not a number"),
    ] {
        let name = flag.split(' ').next().unwrap();
        let said = format!("{tool}: invalid value '{value}' for '{flag}': {what} (see {tool} --help)");
        run(tool, [name, value]).fails(2, &said);
    }
}

#[test]
fn every_tool_has_help_and_a_version() {
    for subject in SUBJECTS {
        let help = String::from_utf8(run(subject.tool, ["--help"]).ok()).unwrap();
        assert!(help.contains("Examples:") && help.contains("Usage:"), "{help}");
        assert!(!help.contains('\x1b'), "colors in a pipe");
        let version = String::from_utf8(run(subject.tool, ["--version"]).ok()).unwrap();
        assert_eq!(version, format!("{} {}\n", subject.tool, env!("CARGO_PKG_VERSION")));
        assert!(tool(subject.tool).exists());
    }
}
