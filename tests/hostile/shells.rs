//! Names from strangers next to a shell: each stays one word.

use crate::shardrun::{read, shardrun};
use crate::support::{Archive, bash, dir, list, members, run};

/// Everything that a shell would take up, and the places of every command of ours.
const HOSTILE: &str = "it's %s {} {url} {out} \"$(touch hacked)\" `touch hacked`; touch hacked #\\";

#[test]
fn a_post_command_gets_the_name_as_one_word() {
    let folder = dir();
    let inside = HOSTILE.replace('{', "{{").replace('}', "}}");
    let output = format!("--output=-{inside}\n/{{shard}}.tar");
    // A file each: they may run at the same time.
    run("tarsplit", ["-n", "2", "--post", "printf '<%q>' {} > quoted-$$; echo %s > said-$$", &output])
        .cwd(folder.path())
        .stdin(Archive::of_samples(3).whole())
        .ok();
    assert!(!folder.path().join("hacked").exists());
    let names = [0, 1].map(|i| format!("-{HOSTILE}\n/{i}.tar"));
    let said = list(folder.path()).into_iter().filter(|name| name.starts_with("said-"));
    let echoed: String = said.map(|name| std::fs::read_to_string(folder.path().join(name)).unwrap()).collect();
    names.iter().for_each(|name| assert!(echoed.contains(name.as_str()), "{echoed}"));
    assert!(folder.path().join(&names[1]).is_file());
}

#[test]
fn clients_of_schemes_get_the_name_as_one_word() {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(2).whole()).unwrap();
    let name = format!("odd://{HOSTILE}");
    let out = run("tarcat", [&name, "-o", &name])
        .cwd(folder.path())
        .env("GOPEN_ODD", "printf '%s' {url} > read; printf '%s' {} > again; cat in.tar")
        .env("GCREATE_ODD", "printf '%s' {} > written; cat > out.tar");
    out.ok();
    for file in ["read", "again", "written"] {
        assert_eq!(std::fs::read_to_string(folder.path().join(file)).unwrap(), name, "{file}");
    }
    assert_eq!(members(&std::fs::read(folder.path().join("out.tar")).unwrap()).len(), 6);
    assert!(!folder.path().join("hacked").exists());
}

#[test]
fn a_url_reaches_the_command_of_via_as_one_word() {
    let folder = dir();
    let row = serde_json::json!({"url": format!("http://127.0.0.1:1/'$(touch hacked)`x`?{HOSTILE}")});
    let args = ["--allow-private", "--retries", "0", "--via", "printf %s {url}"];
    let out = run("fetch", args).cwd(folder.path()).stdin(format!("{row}\n")).ok();
    let body = String::from_utf8(members(&out)[0].1.clone()).unwrap();
    assert!(body.starts_with("http://127.0.0.1:1/'$(touch%20hacked)") && body.contains("{out}"), "{body}");
    assert!(!folder.path().join("hacked").exists());
}

#[test]
fn a_url_is_never_a_flag_of_the_command_of_via() {
    let folder = dir();
    for url in ["-oout", "--output=out", " -K x", "file:///etc/passwd"] {
        let done = run("fetch", ["--via", "touch {url}"]).cwd(folder.path()).stdin(format!("{url}\n")).done();
        done.status(3).stderr_has("(1 bad_url)");
    }
    assert!(list(folder.path()).is_empty());
}

#[test]
fn an_item_stays_one_word_in_the_command_that_takes_the_output() {
    let folder = dir();
    let path = folder.path();
    let output = "pipe:printf '%s' {} > got; printf '%s' {base} > base; cat > out";
    shardrun(path, ["-o", output, "echo {i}", HOSTILE]).ok();
    assert_eq!((read(path, "got"), read(path, "out")), (HOSTILE.to_owned(), "0\n".to_owned()));
    let done = shardrun(path, ["-o", "pipe:cat > '{}'", "echo {i}", HOSTILE]).done().status(2);
    done.stderr_has("its placeholder is inside quotes; write \"$SHARD\" there");
    assert!(!path.join("hacked").exists());
}

#[test]
fn an_item_never_makes_a_command_of_an_output() {
    for item in ["|touch hacked;", "pipe:touch hacked;"] {
        let folder = dir();
        let done = shardrun(folder.path(), ["-o", "{}.tar", "echo {i}", item]).done().status(2);
        done.stderr(&format!("shardrun: item '{item}': its output name would be a command: {item}.tar"));
        assert!(list(folder.path()).is_empty());
    }
}

#[test]
fn scripts_that_only_a_shell_understands_take_no_value_that_it_would_see() {
    let folder = dir();
    for pipeline in [
        "true # it's\necho '{}'",
        "echo $'a\\'b' '{}'",
        "echo \"$(case x in x) echo \"{}\";; esac)\"",
        "echo \"${X:-\"{}\"}\"",
        "echo $(( {} ))",
    ] {
        let done = shardrun(folder.path(), [pipeline, "'$(touch hacked)'"]).done().status(2);
        done.stderr_has("contains shell metacharacters");
    }
    assert!(list(folder.path()).is_empty());
}

#[test]
fn an_item_that_begins_with_a_dash_is_one_word() {
    let folder = dir();
    shardrun(folder.path(), ["-o", "o-{i}", "printf '%s|' {} x", "--", "-rf *", "-n"]).ok();
    assert_eq!((read(folder.path(), "o-0"), read(folder.path(), "o-1")), ("-rf *|x|".into(), "-n|x|".into()));
}

#[test]
fn keys_and_fields_reach_commands_as_files_not_as_words() {
    let folder = dir();
    let archive = Archive::new().file("$(touch hacked).`touch hacked`", b"1").file("-rf.a b;x", b"2").whole();
    let command = "set -- sample.*; cat \"$@\" __key__ > sample.all";
    let out = run("tarproc", ["-o", "-", "-c", command]).cwd(folder.path()).stdin(archive.clone()).ok();
    let all: Vec<Vec<u8>> = members(&out).into_iter().filter(|(name, _)| name.ends_with(".all")).map(|m| m.1).collect();
    assert_eq!(all, [b"1$(touch hacked)".to_vec(), b"2-rf".to_vec()]);
    std::fs::write(folder.path().join("in.tar"), archive).unwrap();
    bash("tarcat in.tar | tarsort | tarsplit -n 1 -o 'out-{shard}.tar' --post 'tarcheck {} > /dev/null'")
        .cwd(folder.path())
        .ok();
    assert!(!folder.path().join("hacked").exists());
}
