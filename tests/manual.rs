//! The manual, the completions and the README: in step with the tools, and right.

use std::path::{Path, PathBuf};

use crate::support::{Archive, TOOLS, bash, dir, members, run, words};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

#[test]
fn pages_and_completions_are_those_of_the_flags() {
    for tool in TOOLS {
        for (kind, file) in [
            ("man", format!("man/{tool}.1")),
            ("bash", format!("man/completions/bash/{tool}")),
            ("zsh", format!("man/completions/zsh/{tool}")),
            ("fish", format!("man/completions/fish/{tool}")),
        ] {
            let made = words(tool, &format!("--generate {kind}")).ok();
            let kept = std::fs::read(root().join(&file)).unwrap_or_default();
            assert!(made == kept, "{file} has drifted: run scripts/man");
        }
    }
}

#[test]
fn completions_of_the_drop_ins_are_those_of_their_functions() {
    for program in ["img2dataset", "video2dataset", "any2dataset"] {
        for shell in ["bash", "zsh", "fish"] {
            let made = bash(&format!("python3 scripts/packaging/dropin_completions.py {program} {shell}")).cwd(root());
            let file = format!("man/completions/{shell}/{program}");
            assert!(made.ok() == std::fs::read(root().join(&file)).unwrap(), "{file} has drifted: run scripts/man");
        }
    }
    let complete = |words: &str| {
        let count = words.split(' ').count() - 1;
        let script = format!(
            ". man/completions/bash/img2dataset; COMP_WORDS=({words}) COMP_CWORD={count}; _img2dataset; echo ${{COMPREPLY[*]}}"
        );
        bash(&script).cwd(root()).done().status(0).stdout_text()
    };
    assert_eq!(complete("img2dataset --distributor = py"), "pyspark\n");
    assert_eq!(complete("img2dataset --resize_mode c"), "center_crop\n");
    assert_eq!(complete("img2dataset --allow_f"), "--allow_file\n");
}

#[test]
fn hidden_commands_are_not_completed() {
    for shell in ["bash", "zsh", "fish"] {
        let script = std::fs::read_to_string(root().join(format!("man/completions/{shell}/tarpipe"))).unwrap();
        for part in ["subcmd__names", "'names:", "-a \"names\""] {
            assert!(!script.contains(part), "{shell}: {part}");
        }
    }
}

#[test]
fn every_tool_is_tested_listed_and_described() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let bins: Vec<&str> = manifest.split("\n[[bin]]\n").skip(1).map(|bin| bin.split('"').nth(1).unwrap()).collect();
    assert_eq!(bins[1..], TOOLS);
    for tool in TOOLS {
        assert!(readme.contains(&format!("| `{tool}` |")), "README has no row for {tool}");
    }
}

#[test]
fn the_manual_is_well_formed() {
    let pages = std::fs::read_dir(root().join("man")).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> = pages.filter(|path| path.is_file()).collect();
    assert!(pages.len() >= TOOLS.len() + 2);
    for page in pages {
        let lint = bash(&format!("mandoc -T lint -W warning {}", page.display())).done().status(0);
        assert_eq!(lint.stdout_text(), "", "{}", page.display());
    }
}

#[test]
fn completion_scripts_are_scripts() {
    for tool in TOOLS {
        bash(&format!("bash -n man/completions/bash/{tool}")).cwd(root()).ok();
    }
}

#[test]
fn an_empty_default_is_not_shown() {
    for tool in TOOLS {
        let page = run(tool, ["--generate", "man"]).ok();
        assert!(!String::from_utf8(page).unwrap().contains("Default: ."), "{tool}");
    }
}

#[test]
fn an_unknown_kind_of_manual_is_refused() {
    run("tarcat", ["--generate", "pdf"]).fails(1, "tarcat: --generate takes one of man, bash, zsh, fish");
}

/// Every block marked `sh` in the README, in one folder with the data that they name.
#[test]
fn the_pipelines_of_the_readme_run() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let folder = dir();
    bash("gm convert -size 64x48 gradient:red-blue picture.jpg").cwd(folder.path()).ok();
    let picture = std::fs::read(folder.path().join("picture.jpg")).unwrap();
    for class in ["cat", "dog"] {
        std::fs::create_dir_all(folder.path().join("photos").join(class)).unwrap();
        std::fs::write(folder.path().join("photos").join(class).join("01.jpg"), &picture).unwrap();
    }
    for part in 0..3 {
        let archive = (0..40).fold(Archive::new(), |archive, i| {
            let key = format!("part{part}/s{i:03}");
            let json = format!("{{\"width\": {}}}", i * 100);
            archive
                .file(&format!("{key}.jpg"), &picture)
                .file(&format!("{key}.cls"), b"1")
                .file(&format!("{key}.json"), json.as_bytes())
        });
        std::fs::write(folder.path().join(format!("raw-{part:03}.tar")), archive.whole()).unwrap();
    }
    let blocks: Vec<&str> = readme.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 4, "the README shows {} pipelines", blocks.len());
    for block in blocks {
        bash(&format!("set -e; {block}")).cwd(folder.path()).done().status(0).stderr("");
    }
    let gray = std::fs::read(folder.path().join("gray.tar")).unwrap();
    assert!(
        members(&gray).iter().filter(|member| member.0.ends_with(".ppm")).all(|member| member.1.starts_with(b"P6"))
    );
}
