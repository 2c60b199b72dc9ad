//! Hostile images through every tool that looks at images. The table says what each gets.
#![cfg(all(feature = "tarresize", feature = "tarshow"))]

use super::is_answer;
use super::tarresize;
use crate::support::{Archive, bash, dir, list};

#[test]
fn every_tool_answers_hostile_images_as_the_table_says() {
    for (name, bytes, code) in tarresize::corpus() {
        let folder = dir();
        let archive = Archive::new().file("a.jpg", &bytes).whole();
        std::fs::write(folder.path().join("in.tar"), archive).unwrap();
        let done = bash("tarresize -s 16 --report r.jsonl in.tar > out").cwd(folder.path()).done().status(3);
        done.stderr(&format!("tarresize: 0 samples; failed 1 (1 {code})"));
        let row = std::fs::read_to_string(folder.path().join("r.jsonl")).unwrap();
        assert!(row.contains(&format!("\"code\":\"{code}\"")), "{name}: {row}");
        // Those that only show are never stopped by a picture.
        for script in
            ["tarshow --sheet s.png in.tar", "tarshow --html p.html in.tar", "tarshow --preview=blocks in.tar"]
        {
            let done = bash(&format!("ulimit -v 4000000; timeout 60 {script} > out")).cwd(folder.path()).done();
            is_answer(&format!("{name}: {script}"), &done);
            assert_eq!(done.status_code(), 0, "{name}: {script}: {}", done.stderr_text());
        }
        // Another program's decoder, in its own process.
        let done = bash("timeout 60 tarvideo --probe --fields jpg in.tar > out").cwd(folder.path()).done();
        is_answer(&format!("{name}: tarvideo"), &done);
        assert!(list(folder.path()).iter().all(|name| !name.starts_with('.')), "{name}: something was left");
    }
}
