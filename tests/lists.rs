//! Lists as values of flags: every flag that takes one accepts the same spellings.

use crate::support::web::{Web, reply};
use crate::support::{Archive, TOOLS, bash, dir, run};

/// A script in which `$LIST` is the value of a flag, and the items of the list.
const FLAGS: &[(&str, &[&str])] = &[
    ("tarcat -f \"$LIST\" in.tar | tar t", &["jpg", "class=cls;label"]),
    ("tarcat --drop \"$LIST\" in.tar | tar t", &["jpg", "json"]),
    ("tarcat --weights \"$LIST\" in.tar in2.tar | tar t", &["3", "1.5"]),
    ("tarcheck --require \"$LIST\" in.tar", &["jpg", "txt", "png"]),
    ("tarjoin --with urls.csv --on txt=url --into \"$LIST\" --keep inner urls.tar", &["w=width", "json.h=height"]),
    ("tarcreate --lines \"$LIST\" plain.tsv -o - | tar t", &["txt", "cls"]),
    ("tarproc -f \"$LIST\" -c 'ls sample.*' in.tar", &["jpg", "cls"]),
    ("tarshow --csv -f \"$LIST\" in.tar", &["cls", "w=json.width;json.w"]),
    ("tarsplit --by-hash \"$LIST\" -o '{split}-{shard}.tar' in.tar && ls", &["train=0.5", "val=0.5"]),
    ("tarresize -s 8 --fields \"$LIST\" in.tar -o out.tar", &["png", "cls"]),
    ("tarvideo --probe --fields \"$LIST\" in.tar -o out.tar", &["mp4", "cls"]),
    ("urlcat --keep \"$LIST\" urls.csv", &["width", "h=height"]),
    ("urlcat --shards \"$LIST\" --rows-per-shard 1 urls.csv", &["0", "2-3"]),
    ("tardataset --columns \"$LIST\" -o out rows.tar && urlcat --columns out/*.parquet", &["key", "width:int64"]),
    ("tardataset --json \"$LIST\" -o out rows.tar && tar xOf out/00000.tar", &["width", "height"]),
    ("tardataset --short \"$LIST\" -n 2 --expect 3 -o out rows.tar; ls out", &["0=1", "1=1"]),
    (
        "echo $URL/gif $URL/text | tr ' ' '\\n' | fetch --allow-private --accept \"$LIST\" | tar t",
        &["image/*", "text/plain"],
    ),
    ("echo $URL/noai $URL/noml | tr ' ' '\\n' | fetch --allow-private --opt-out \"$LIST\" | tar t", &["noai", "noml"]),
    ("fetch --dns \"$LIST\" </dev/null | tar t", &["1.1.1.1", "9.9.9.9:53", "here"]),
    ("fetch --via 'true {url} {out}' --direct \"$LIST\" </dev/null | tar t", &["mp4", "webm", "*"]),
    ("shardrun -n 3 --run run -o out-{} 'echo {} >&2' && shardrun logs run --item \"$LIST\"", &["0", "2"]),
    ("shardrun --on slurm --dry-run -n 3 --run run -o {} --after \"$LIST\" true | grep afterok", &["17", "18"]),
];

fn files() -> tempfile::TempDir {
    let folder = dir();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("in.tar", &Archive::of_samples(5).whole());
    let row = br#"{"status": "success", "width": 3, "height": 4}"#;
    write("rows.tar", &Archive::new().file("000000000.json", row).file("000010000.json", row).whole());
    write("in2.tar", &Archive::new().file("t.jpg", b"x").file("u.jpg", b"y").whole());
    write("urls.tar", &Archive::new().file("a.txt", b"http://h/1").whole());
    write("plain.tsv", b"a\t1\nb\t2\n");
    write(
        "urls.csv",
        b"url,width,height\nhttp://h/0,1,2\nhttp://h/1,3,4\nhttp://h/2,5,6\nhttp://h/3,7,8\nhttp://h/4,9,0\n",
    );
    folder
}

/// Status, stdout and stderr of a script in new files, with the list in messages replaced.
fn outcome(script: &str, list: &str, web: &Web) -> (i32, String, String) {
    let folder = files();
    let done = bash(script).env("LIST", list).env("URL", &web.url).cwd(folder.path()).done();
    let shown = list.replace('\t', "\\t");
    let (code, messages) = (done.status_code(), done.stderr_text().replace(&shown, "LIST"));
    (code, String::from_utf8_lossy(&done.stdout()).into_owned(), messages)
}

#[test]
fn every_list_accepts_commas_and_blanks() {
    let web = Web::start(|asked, wire| match asked.path.as_str() {
        "/gif" => reply(wire, "200 OK", "", b"GIF89a\x01\0\x01\0\0\0\0;"),
        "/text" => reply(wire, "200 OK", "Content-Type: text/plain\r\n", b"plain text"),
        path => reply(wire, "200 OK", &format!("X-Robots-Tag: {}\r\n", &path[1..]), b"body"),
    });
    let is_built = |script: &str| TOOLS.iter().any(|tool| script.contains(&format!("{tool} -")));
    for (script, items) in FLAGS.iter().filter(|(script, _)| is_built(script)) {
        let expected = outcome(script, &items.join(","), &web);
        for list in [items.join(" "), items.join(", "), format!(" {},", items.join(" ,\t"))] {
            assert_eq!(outcome(script, &list, &web), expected, "{script}: {list:?}");
        }
        assert_ne!(outcome(script, items[0], &web), expected, "{script}: only the first item counts");
    }
}

#[test]
fn a_wrong_item_of_a_list_is_named() {
    for (tool, flag, list, what) in [
        ("tarcat", "--weights <W,W…>", "2 x", "'x': not a number"),
        ("fetch", "--dns <ADDRESSES>", "1.1.1.1, here", "'here': expected an address such as 1.1.1.1 or 1.1.1.1:53"),
    ] {
        let name = flag.split(' ').next().unwrap();
        let said = format!("{tool}: invalid value '{list}' for '{flag}': {what} (see {tool} --help)");
        run(tool, [name, list]).fails(2, &said);
    }
}
