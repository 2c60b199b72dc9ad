//! tarcreate: plans, tables, lines, folders, unordered archives.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray};

use crate::support::server::{Server, respond};
use crate::support::{Archive, TempDir, archives, bash, dir, list, members, names, run, words};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = dir();
    for (path, text) in files {
        write(folder.path(), path, text.as_bytes());
    }
    folder
}

fn write(folder: &Path, path: &str, data: &[u8]) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, data).unwrap();
}

/// Names and text of all members.
fn texts(archive: &[u8]) -> Vec<(String, String)> {
    members(archive).into_iter().map(|(name, data)| (name, String::from_utf8(data).unwrap())).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_plan_takes_paths_files_text_and_commands_in_order() {
    let folder = folder(&[("img/a b.jpg", "A"), ("b.jpg", "B")]);
    let plan = "# a comment\n\
        z/1.jpg img/a b.jpg\n\
        z/1.cls text:7\n\
        \n\
        a.jpg\tfile:b.jpg\r\n\
        a.json  text:{\"x\": 1}\n\
        a.txt pipe:echo hello; echo there\n";
    let expected = pairs(&[
        ("z/1.jpg", "A"),
        ("z/1.cls", "7"),
        ("a.jpg", "B"),
        ("a.json", "{\"x\": 1}"),
        ("a.txt", "hello\nthere\n"),
    ]);
    let out = run("tarcreate", [""; 0]).cwd(folder.path()).stdin(plan).ok();
    assert_eq!(texts(&out), expected);
    write(folder.path(), "plan", plan.as_bytes());
    assert_eq!(words("tarcreate", "--check plan -p 1").cwd(folder.path()).ok(), out);
}

#[test]
fn paths_and_commands_are_relative_to_the_given_directory() {
    let folder = folder(&[("data dir/x.jpg", "X"), ("plan", "a.jpg x.jpg\na.txt pipe:cat x.jpg x.jpg\n")]);
    let out = run("tarcreate", ["-C", "data dir", "plan", "-o", "out.tar"]).cwd(folder.path());
    out.ok();
    let out = std::fs::read(folder.path().join("out.tar")).unwrap();
    assert_eq!(texts(&out), pairs(&[("a.jpg", "X"), ("a.txt", "XX")]));
}

#[test]
fn headers_of_new_members_are_reproducible() {
    let folder = folder(&[("x", "X"), ("plan", "a.txt x\n")]);
    let made = words("tarcreate", "plan").cwd(folder.path()).ok();
    bash("touch -d 2001-01-01 x").cwd(folder.path()).ok();
    assert!(made == words("tarcreate", "plan").cwd(folder.path()).ok());
    let listed = bash("tar --utc -tvf -").stdin(made).done().status(0).stdout_text();
    assert!(listed.starts_with("-r--r--r-- bigdata/bigdata"), "{listed}");
}

#[test]
fn a_sample_with_a_missing_source_is_left_out_and_counted() {
    let folder = folder(&[("x", "X"), ("folder/y", "Y")]);
    let plan = "a.jpg x\na.cls nosuch\nb.jpg x\nc.jpg folder\nd.txt pipe:exit 3\ne.txt\nf.txt x\n";
    let done = words("tarcreate", "-v").cwd(folder.path()).stdin(plan).done().status(0);
    let done = done.stderr(
        "tarcreate: stdin: line 1: left out: sample a: nosuch: no such file\n\
         tarcreate: stdin: line 4: left out: sample c: folder: is a directory\n\
         tarcreate: stdin: line 6: left out: no source after 'e.txt' (write NAME SOURCE)\n\
         tarcreate: stdin: line 5: left out: sample d: pipe:exit 3: the command failed with exit status 3\n\
         tarcreate: 2 samples; failed 4 (1 bad_row, 1 missing, 2 unreadable)",
    );
    assert_eq!(names(&done.stdout()), ["b.jpg", "f.txt"]);
    let all = words("tarcreate", "").stdin("a.jpg nosuch\n");
    all.fails(3, "tarcreate: 0 samples; failed 1 (1 missing)");
    let limited = words("tarcreate", "--max-failures 0").cwd(folder.path()).stdin("a.jpg nosuch\nb.jpg x\n");
    limited.fails(3, "tarcreate: 1 sample; failed 1 (1 missing)");
}

#[test]
fn unsafe_names_are_counted_under_a_code() {
    let plan = "../a.txt text:1\n/b.txt text:2\nplain text:3\n.hidden.txt text:4\n__m__/x.txt text:5\nok.txt text:6\n";
    let done = words("tarcreate", "").stdin(plan).done().status(0);
    let done = done.stderr("tarcreate: 1 sample; failed 5 (3 bad_name, 1 name_absolute, 1 name_parent)");
    assert_eq!(names(&done.stdout()), ["ok.txt"]);
}

#[test]
fn duplicate_fields_and_keys_are_refused() {
    let done = words("tarcreate", "").stdin("a.jpg text:1\na.JPG text:2\nb.jpg text:3\n").done().status(0);
    done.stderr("tarcreate: 1 sample; failed 1 (1 duplicate_field)");
    let back = "tarcreate: stdin: line 3: duplicate of the key at stdin: line 1 (key_returns)";
    let done = words("tarcreate", "").stdin("a.jpg text:1\nb.jpg text:2\na.cls text:3\n").fails(1, back);
    assert!(!done.stdout().ends_with(&[0; 1024]), "the archive has an end");
    let rows = "__key__,txt\nx,1\nx,2\n";
    let side_by_side = "tarcreate: stdin: row 2: duplicate of the key at stdin: row 1 (key_returns)";
    words("tarcreate", "--from table").stdin(rows).fails(1, side_by_side);
}

#[test]
fn check_reports_every_problem_before_anything_is_written() {
    let folder = folder(&[("x", "X"), ("plan", "a.jpg x\nb.jpg nosuch\n../c.txt text:1\nd.jpg gone\n")]);
    let done = words("tarcreate", "--check plan -o out.tar").cwd(folder.path());
    done.fails(
        1,
        "tarcreate: plan: line 3: '../c.txt' cannot be a member name: its path contains '..' (name_parent)\n\
         tarcreate: plan: line 2: nosuch: no such file (missing)\n\
         tarcreate: plan: line 4: gone: no such file (missing)\n\
         tarcreate: 3 problems; nothing was written",
    );
    assert_eq!(list(folder.path()), ["plan", "x"]);
    write(folder.path(), "twice", b"a.jpg x\nb.jpg x\na.cls x\n");
    let twice = "tarcreate: twice: line 3: duplicate of the key at twice: line 1 (key_returns)";
    words("tarcreate", "--check twice -o out.tar").cwd(folder.path()).fails(1, twice);
    words("tarcreate", "--check").stdin("a.jpg x\n").done().status(2);
}

#[test]
fn tables_of_every_format_become_samples() {
    let folder = folder(&[
        ("pics/1.jpg", "one"),
        ("pics/2.jpg", "two"),
        ("t.csv", "__key__,@jpg,txt,n\na/1,pics/1.jpg,\"hello, you\",5\na/2,pics/2.jpg,,6\n"),
        ("t.tsv", "__key__\t@jpg\ttxt\tn\na/1\tpics/1.jpg\thello, you\t5\na/2\tpics/2.jpg\t\t6\n"),
        (
            "t.jsonl",
            "{\"__key__\":\"a/1\",\"@jpg\":\"pics/1.jpg\",\"txt\":\"hello, you\",\"n\":5}\n\
             {\"__key__\":\"a/2\",\"@jpg\":\"file:pics/2.jpg\",\"txt\":\"\",\"n\":6,\"none\":null}\n",
        ),
    ]);
    let expected = pairs(&[
        ("a/1.jpg", "one"),
        ("a/1.txt", "hello, you"),
        ("a/1.n", "5"),
        ("a/2.jpg", "two"),
        ("a/2.txt", ""),
        ("a/2.n", "6"),
    ]);
    for table in ["t.csv", "t.tsv", "t.jsonl", "--check t.csv"] {
        assert_eq!(texts(&words("tarcreate", table).cwd(folder.path()).ok()), expected, "{table}");
    }
    let numbered = words("tarcreate", "--key x{index:03}-{row} t.csv t.tsv").cwd(folder.path()).ok();
    assert_eq!(names(&numbered)[..4], ["x000-1.jpg", "x000-1.txt", "x000-1.n", "x001-2.jpg"]);
    let by_number = words("tarcreate", "--key-col n t.csv").cwd(folder.path()).done().status(0);
    assert_eq!(names(&by_number.stdout())[0], "5.jpg");
}

#[test]
fn bytes_in_parquet_stay_bytes() {
    let folder = dir();
    let jpeg = archives::noise(3, 2000);
    let columns: [(&str, ArrayRef); 2] = [
        ("__key__", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("jpg", Arc::new(BinaryArray::from_opt_vec(vec![Some(&jpeg), None]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap();
    let file = std::fs::File::create(folder.path().join("t.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let done = words("tarcreate", "t.parquet").cwd(folder.path()).done().status(0);
    let done = done.stderr("tarcreate: 1 sample; failed 1 (1 no_field)");
    assert_eq!(members(&done.stdout()), [("a.jpg".to_owned(), jpeg)]);
}

#[test]
fn tables_may_name_urls_but_commands_need_a_flag() {
    let server = Server::start(|request, _, stream| match request.path.as_str() {
        "/x" => respond(stream, "200 OK", "", b"from the web", usize::MAX),
        _ => respond(stream, "404 Not Found", "", b"", 0),
    });
    let folder = dir();
    let rows = format!("__key__,@txt\na,{0}/x\nb,{0}/gone\nc,pipe:touch ran; echo c\n", server.url);
    let made = |flags: &str| words("tarcreate", flags).cwd(folder.path()).stdin(rows.clone()).done().status(0);
    let done = made("--from table").stderr("tarcreate: 1 sample; failed 2 (1 pipe, 1 unreadable)");
    assert_eq!(texts(&done.stdout()), pairs(&[("a.txt", "from the web")]));
    assert!(!folder.path().join("ran").exists());
    let done = made("--from table --allow-pipes").stderr("tarcreate: 2 samples; failed 1 (1 unreadable)");
    assert_eq!(texts(&done.stdout()), pairs(&[("a.txt", "from the web"), ("c.txt", "c\n")]));
}

#[test]
fn keys_of_tables_are_checked() {
    let rows = "__key__,txt\n../up,1\na.b,2\n,3\nfine,4\nd/,5\n";
    let done = words("tarcreate", "--from table").stdin(rows).done().status(0);
    let done = done.stderr("tarcreate: 1 sample; failed 4 (3 bad_key, 1 name_parent)");
    assert_eq!(names(&done.stdout()), ["fine.txt"]);
    let nokey = words("tarcreate", "--from table").stdin("txt,cls\n1,2\n");
    nokey.fails(3, "tarcreate: 0 samples; failed 1 (1 no_key)");
    let slash = words("tarcreate", "--from table").stdin("__key__,a/b\nk,1\n");
    slash.fails(3, "tarcreate: 0 samples; failed 1 (1 bad_field)");
}

#[test]
fn lines_become_samples_with_numbered_keys() {
    let out = run("tarcreate", ["--lines", "txt"]).stdin("one\ttab\ntwo").ok();
    assert_eq!(texts(&out), pairs(&[("000000000.txt", "one\ttab"), ("000000001.txt", "two")]));
    let folder = folder(&[("p", "P")]);
    let args = ["--lines", "txt @bin cls", "--separator", "|", "--key", "w/{index:03}"];
    let out = run("tarcreate", args).cwd(folder.path()).stdin("a b|p|1\nc|p\nd|p|2\n").done().status(0);
    let out = out.stderr("tarcreate: 2 samples; failed 1 (1 bad_row)").stdout();
    let expected = [("w/000.txt", "a b"), ("w/000.bin", "P"), ("w/000.cls", "1")];
    let more = [("w/002.txt", "d"), ("w/002.bin", "P"), ("w/002.cls", "2")];
    assert_eq!(texts(&out), pairs(&[expected, more].concat()));
    let out = run("tarcreate", ["--lines", "__key__ txt"]).stdin("k1\tx\n").ok();
    assert_eq!(texts(&out), pairs(&[("k1.txt", "x")]));
}

#[test]
fn files_of_a_folder_become_samples_and_its_folders_classes() {
    let files = [
        ("train/dog/b.jpg", "1"),
        ("train/cat/a.d/x.jpg", "2"),
        ("train/cat/a.jpg", "3"),
        ("train/cat/a-1.jpg", "4"),
        ("train/cat/a.txt", "5"),
        ("train/cat/a.c.png", "6"),
        ("train/cat/.hidden", "7"),
        ("train/README", "8"),
    ];
    let folder = folder(&files);
    let command = "--dir train --labels-from-dirs -o out/train.tar";
    let done = words("tarcreate", command).cwd(folder.path()).done().status(0);
    done.stderr("tarcreate: 4 samples; dropped 2 (1 dot_file, 1 no_field)");
    let out = std::fs::read(folder.path().join("out/train.tar")).unwrap();
    let expected = [
        ("cat/a.c.png", "6"),
        ("cat/a.jpg", "3"),
        ("cat/a.txt", "5"),
        ("cat/a.cls", "0"),
        ("cat/a-1.jpg", "4"),
        ("cat/a-1.cls", "0"),
        ("cat/a.d/x.jpg", "2"),
        ("cat/a.d/x.cls", "0"),
        ("dog/b.jpg", "1"),
        ("dog/b.cls", "1"),
    ];
    assert_eq!(texts(&out), pairs(&expected));
    let classes = std::fs::read_to_string(folder.path().join("out/train.classes.txt")).unwrap();
    assert_eq!(classes, "cat\ndog\n");
}

#[test]
fn the_order_of_a_folder_does_not_depend_on_the_age_of_its_files() {
    let (one, two) = (dir(), dir());
    let names: Vec<String> = (0..300).flat_map(|i| [format!("d/s{i}.jpg"), format!("d/s{i}.cls")]).collect();
    names.iter().for_each(|name| write(one.path(), name, b"x"));
    names.iter().rev().for_each(|name| write(two.path(), name, b"x"));
    let [a, b] = [&one, &two].map(|folder| words("tarcreate", "--dir .").cwd(folder.path()).ok());
    assert!(a == b);
    assert_eq!(members(&a).len(), 600);
}

#[test]
fn classes_can_come_from_a_file() {
    let folder =
        folder(&[("val/dog/1.jpg", ""), ("val/fox/2.jpg", ""), ("val/3.jpg", ""), ("list", "ant\ncat\ndog\n")]);
    let command = "--dir val --labels-from-dirs --use-classes list";
    let done = words("tarcreate", command).cwd(folder.path()).done().status(0);
    let done = done.stderr("tarcreate: 1 sample; failed 2 (1 no_class, 1 unknown_class)");
    assert_eq!(texts(&done.stdout()), pairs(&[("dog/1.jpg", ""), ("dog/1.cls", "2")]));
    let said = "tarcreate: no file name for the classes beside this output; use --classes FILE";
    words("tarcreate", "--dir val --labels-from-dirs").cwd(folder.path()).fails(2, said);
}

#[test]
fn links_to_files_are_followed_and_links_to_folders_are_not() {
    let folder = folder(&[("d/a.jpg", "A"), ("elsewhere/c.jpg", "C")]);
    bash("ln -s ../elsewhere/c.jpg d/b.jpg; ln -s .. d/up; ln -s nowhere d/c.jpg").cwd(folder.path()).ok();
    let done = words("tarcreate", "--dir d").cwd(folder.path()).done().status(0);
    let done = done.stderr("tarcreate: 2 samples; failed 1 (1 missing); dropped 1 (1 link)");
    assert_eq!(texts(&done.stdout()), pairs(&[("a.jpg", "A"), ("b.jpg", "C")]));
}

#[test]
fn an_unordered_archive_is_regrouped() {
    let fields = ["jpg", "cls"];
    let archive = fields.iter().fold(Archive::new(), |archive, field| {
        (0..900_u64).fold(archive, |archive, i| {
            archive.file(&format!("s{:04}.{field}", i * 311 % 900), &archives::noise(i, 800))
        })
    });
    let archive = archive.whole();
    let folder = dir();
    write(folder.path(), "in.tar", &archive);
    let held = words("tarcreate", "in.tar").cwd(folder.path()).ok();
    let spilled = words("tarcreate", "--from tar --memory 0").stdin(archive.clone()).ok();
    assert!(held == spilled);
    let expected: Vec<String> = (0..900).flat_map(|i| fields.map(|field| format!("s{i:04}.{field}"))).collect();
    assert_eq!(names(&held), expected);
    let twice = Archive::new().file("a.txt", b"").file("b.txt", b"").file("a.txt", b"").whole();
    let said = "tarcreate: stdin: sample a: field txt appears twice (duplicate_field)";
    words("tarcreate", "--from tar").stdin(twice).fails(1, said);
}

#[test]
fn large_files_and_streams_are_copied_up_to_the_limit() {
    let folder = dir();
    let large = archives::noise(9, 12 << 20);
    write(folder.path(), "large", &large);
    let plan = "a.bin large\na.txt text:x\nb.bin pipe:cat large large\nc.bin pipe:cat large\n";
    let outs = ["1", "4"].map(|p| run("tarcreate", ["-p", p]).cwd(folder.path()).stdin(plan).ok());
    assert!(outs[0] == outs[1]);
    let got = members(&outs[0]);
    let double = [large.clone(), large.clone()].concat();
    assert!(got[0].1 == large && got[1].1 == b"x" && got[2].1 == double && got[3].1 == large);
    let limited = words("tarcreate", "--max-size 13M").cwd(folder.path()).stdin(plan).done().status(0);
    limited.stderr("tarcreate: 2 samples; failed 1 (1 too_large)");
    let endless = words("tarcreate", "--max-size 1M").stdin("a.bin pipe:yes\n");
    endless.fails(3, "tarcreate: 0 samples; failed 1 (1 too_large)");
}

#[test]
fn flags_that_do_not_apply_are_refused() {
    let folder = folder(&[("t.csv", "a\n"), ("plan", "a.x text:\n"), ("d/x.y", "")]);
    let cases = ["--key x plan", "t.csv plan", "--dir d plan", "--labels-from-dirs plan", "--classes c --dir d"];
    for args in cases.iter().chain(&[
        "--lines txt --from table t.csv",
        "--separator , plan",
        "--from tar --check plan",
        "--key-col x plan",
    ]) {
        let done = words("tarcreate", args).cwd(folder.path()).done().status(2);
        assert_eq!(done.stderr_text().lines().count(), 1, "{args}: {}", done.stderr_text());
    }
}
