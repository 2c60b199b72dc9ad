//! Which fields are images, what they are called, what is written beside them.

use image::ImageFormat;
use serde_json::{Value, json};

use super::{encoded, exif, jpeg, photo, png, resized, with_segment};
use crate::support::{Archive, dir, members, names, words};

#[test]
fn other_fields_pass_untouched_in_their_places() {
    let archive = Archive::new()
        .file("a.cls", b"7")
        .file("a.png", &png(photo(40, 30)))
        .file("a.json", br#"{"caption": "x", "width": 1, "big": 12345678901234567890}"#)
        .file("a.txt", b"text")
        .whole();
    let out = words("tarresize", "-s 15").stdin(archive).ok();
    assert_eq!(names(&out), ["a.cls", "a.jpg", "a.json", "a.txt"]);
    let all = members(&out);
    assert_eq!((all[0].1.as_slice(), all[3].1.as_slice()), (b"7".as_slice(), b"text".as_slice()));
    let expected = r#"{"caption":"x","width":20,"big":12345678901234567890,"height":15,"original_width":40,"original_height":30,"format":"jpg"}"#;
    assert_eq!(String::from_utf8_lossy(&all[2].1), expected);
}

#[test]
fn several_images_have_their_own_entries() {
    let archive = Archive::new()
        .file("a.left.png", &png(photo(40, 30)))
        .file("a.png", &png(photo(20, 20)))
        .file("a.jpg", &jpeg(&photo(60, 30)))
        .whole();
    let out = words("tarresize", "-s 10").stdin(archive).ok();
    assert_eq!(names(&out), ["a.left.jpg", "a.png.jpg", "a.jpg", "a.json"]);
    let facts: Value = serde_json::from_slice(&members(&out)[3].1).unwrap();
    assert_eq!(
        (&facts["width"], &facts["png.jpg"]["width"], &facts["jpg"]["width"]),
        (&json!(13), &json!(10), &json!(20))
    );
}

#[test]
fn only_chosen_fields_are_images() {
    let picture = jpeg(&photo(40, 30));
    let archive = Archive::new().file("a.jpg", &picture).file("a.left.jpg", &picture).file("a.png", &picture).whole();
    let out = members(&words("tarresize", "-s 10 --fields left.jpg").stdin(archive).ok());
    assert_eq!((&out[0].1, &out[2].1), (&picture, &picture));
    assert_ne!(out[1].1, picture);
}

#[test]
fn a_json_that_is_not_an_object_stays_unchanged() {
    let archive = Archive::new().file("a.jpg", &jpeg(&photo(40, 30))).file("a.json", b"[1]").whole();
    let out = members(&words("tarresize", "-s 10").stdin(archive).ok());
    assert_eq!(out[1].1, b"[1]");
}

#[test]
fn unchanged_images_keep_their_bytes_only_when_asked() {
    let picture = jpeg(&photo(40, 30));
    let flags = "-s 64 --only-if-bigger --skip-reencode";
    assert_eq!(resized(flags, "jpg", &picture).1, picture);
    assert_ne!(resized("-s 64 --only-if-bigger", "jpg", &picture).1, picture);
    assert_ne!(resized("-s 20 --only-if-bigger --skip-reencode", "jpg", &picture).1, picture);
    let turned = with_segment(&picture, 0xe1, &exif(3));
    assert_ne!(resized(flags, "jpg", &turned).1, turned);
    let upright = with_segment(&picture, 0xe1, &exif(1));
    assert_eq!(resized(flags, "jpg", &upright).1, upright);
    assert_ne!(resized(&format!("{flags} --strip"), "jpg", &upright).1, upright);
    super::refused(flags, &picture[..picture.len() - 40], "truncated");
    let webp = encoded(photo(9, 9), ImageFormat::WebP);
    assert_eq!(resized(&format!("{flags} --format keep"), "webp", &webp).1, webp);
}

#[test]
fn exif_tags_are_written_to_the_json() {
    let (_, _, facts) = resized("-s 10 --exif", "jpg", &with_segment(&jpeg(&photo(40, 30)), 0xe1, &exif(1)));
    assert_eq!(facts["exif"], json!({"Make": "Abc", "Orientation": 1}));
    assert_eq!(resized("-s 10 --exif", "jpg", &jpeg(&photo(40, 30))).2["exif"], json!({}));
}

#[test]
fn the_report_has_a_row_for_every_image() {
    let folder = dir();
    let archive =
        Archive::new().file("a,b.jpg", &jpeg(&photo(40, 30))).file("c.jpg", b"nonsense").file("d.txt", b"x").whole();
    let said = "tarresize: 1 sample; failed 2 (1 no_image, 1 unsupported)";
    for name in ["report.csv", "report.jsonl", "report.parquet"] {
        let flags = format!("-s 10 --report {name}");
        words("tarresize", &flags).cwd(folder.path()).stdin(archive.clone()).done().status(0).stderr(said);
    }
    let csv = std::fs::read_to_string(folder.path().join("report.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "key,field,status,code,error_message,width,height,original_width,original_height,format,bytes"
    );
    assert!(lines[1].starts_with("\"a,b\",jpg,success,,,13,10,40,30,jpg,"), "{}", lines[1]);
    assert_eq!(lines[2], "c,jpg,failed,unsupported,unknown or unsupported image format,,,,,,");
    assert_eq!(lines[3], "d,*,failed,no_image,the sample has no image field,,,,,,");
    let jsonl = std::fs::read_to_string(folder.path().join("report.jsonl")).unwrap();
    let rows: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows.len(), &rows[0]["key"], &rows[1]["code"]), (3, &json!("a,b"), &json!("unsupported")));
    let parquet = words("urlcat", "report.parquet --url-col key").cwd(folder.path()).ok();
    assert_eq!(String::from_utf8(parquet).unwrap().lines().count(), 3);
}

#[test]
fn failed_samples_are_skipped_kept_or_end_the_run() {
    let archive = Archive::new().file("a.jpg", b"x").file("a.txt", b"t").file("b.jpg", &jpeg(&photo(9, 9))).whole();
    let run = |flags: &str| words("tarresize", &format!("-s 4 {flags}")).stdin(archive.clone()).done();
    let summary = "tarresize: 1 sample; failed 1 (1 unsupported)";
    assert_eq!(names(&run("").status(0).stderr(summary).stdout()), ["b.jpg", "b.json"]);
    let kept = members(&run("--on-error keep").status(0).stderr(summary).stdout());
    assert_eq!((kept[0].0.as_str(), kept[0].1.as_slice(), kept.len()), ("a.jpg", b"x".as_slice(), 4));
    let line = "stdin: a.jpg: unsupported: unknown or unsupported image format";
    run("--on-error abort").status(1).stderr(&format!("tarresize: {line}"));
    run("-v").status(0).stderr(&format!("tarresize: {line}\n{summary}"));
    run("--max-failures 0").status(3).stderr(summary);
}

#[test]
fn failed_samples_can_pass() {
    let before = br#"{"url":"u","status":"failed","tool":"fetch","code":"dns"}"#;
    let archive = Archive::new()
        .file("a.json", before)
        .file("b.jpg", b"no picture")
        .file("b.json", br#"{"url":"v"}"#)
        .file("c.jpg", &jpeg(&photo(60, 30)))
        .whole();
    let done = words("tarresize", "-s 10 --on-error pass").stdin(archive).done().status(0);
    let out = done.stderr("tarresize: 2 samples; failed 1 (1 unsupported)").stdout();
    assert_eq!(names(&out), ["a.json", "b.json", "c.jpg", "c.json"]);
    assert_eq!(members(&out)[0].1, before);
    let failed: Value = serde_json::from_slice(&members(&out)[1].1).unwrap();
    assert_eq!(
        (&failed["url"], &failed["tool"], &failed["code"]),
        (&json!("v"), &json!("tarresize"), &json!("unsupported"))
    );
}
