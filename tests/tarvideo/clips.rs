//! Clips: spans of every form, three precisions, lengths.

use serde_json::Value;

use super::{close, json, look, source, tarvideo};
use crate::support::{Archive, dir, members};

/// The clips of one source with spans in a field, by key.
fn clips(name: &str, field: &str, spans: &str, flags: &str) -> Vec<(String, Vec<u8>)> {
    let key = name.split('.').next().unwrap();
    let archive = Archive::new().file(name, &source(name)).file(&format!("{key}.{field}"), spans.as_bytes());
    let archive = archive.file(&format!("{key}.cls"), b"7").whole();
    members(&tarvideo(flags).stdin(archive).ok())
}

fn videos(members: &[(String, Vec<u8>)]) -> Vec<(&str, &[u8])> {
    let is_video = |name: &str| name.ends_with("mp4") || name.ends_with("webm");
    members.iter().filter(|member| is_video(&member.0)).map(|(name, data)| (name.as_str(), data.as_slice())).collect()
}

#[test]
fn an_exact_clip_is_accurate_to_the_frame() {
    let spans = r#"{"x": {"spans": [[0.5, 2.26], ["0:00:01.5", "0:00:03.7"], {"start": 5, "end": 99}]}}"#;
    for (name, rate, lengths) in [("land.mp4", 25.0, [1.76, 2.2, 1.0])] {
        let out = clips(name, "json", spans, "--clip json.x.spans");
        let videos = videos(&out);
        assert_eq!(
            videos.iter().map(|video| video.0).collect::<Vec<_>>(),
            ["land_00000.mp4", "land_00001.mp4", "land_00002.mp4"]
        );
        for ((_, data), length) in videos.iter().zip(lengths) {
            let video = look(data);
            close(video.seconds("video"), length, 1.0 / rate);
            close(video.seconds("audio"), length, 1.0 / rate);
            close(video.frames() as f64, length * rate, 1.0);
        }
        let facts = out.iter().find(|member| member.0 == "land_00002.json").unwrap();
        assert_eq!(json(&facts.1)["clip"], json(br#"{"key": "land", "index": 2, "start": 5.0, "end": 6.0}"#));
        assert_eq!(json(&facts.1)["x"]["spans"].as_array().map(Vec::len), Some(3));
        assert_eq!(out.iter().filter(|member| member.0.ends_with("cls") && member.1 == b"7").count(), 3);
    }
}

#[test]
fn the_frames_of_an_exact_clip_are_those_of_the_span() {
    // The first frame of a clip at 2 s is that which --frames has at 2 s.
    let out = clips("land.mp4", "txt", "2 3\n", "--clip txt --frames 1 --image png --no-video");
    let whole = super::only("land.mp4", "--frames 1 --image png --no-video");
    let first = &out.iter().find(|member| member.0 == "land_00000.00000.png").unwrap().1;
    assert_eq!(first, &whole["00002.png"]);
    assert_eq!(out.iter().filter(|member| member.0.ends_with("png")).count(), 1);
}

#[test]
fn variable_rate_portrait_and_silent_clips_are_exact_too() {
    for (name, seconds, within) in [("port.webm", 0.8, 1.0 / 30.0), ("mute.mp4", 0.8, 0.1)] {
        let out = clips(name, "txt", "0.5,1.3", "--clip txt");
        close(look(videos(&out)[0].1).seconds("video"), seconds, within);
    }
    let out = clips("vfr.mp4", "txt", "0.0 2.1\n", "--clip txt");
    let times = |from: &[u8]| look(from).frames();
    let before: i64 = 30 + (31..63).filter(|n| n % 7 == 0).count() as i64;
    close(times(videos(&out)[0].1) as f64, before as f64, 1.0);
}

#[test]
fn clips_at_keyframes_lie_within_the_span() {
    let archive =
        |spans: &str| Archive::new().file("land.mp4", &source("land.mp4")).file("land.txt", spans.as_bytes()).whole();
    let out = members(&tarvideo("--clip txt --precision keyframe").stdin(archive("1 5.5")).ok());
    let video = look(videos(&out)[0].1);
    close(video.seconds("video"), 2.0, 0.04);
    assert_eq!(video.frames(), 50);
    let facts = json(&out.iter().find(|member| member.0.ends_with("json")).unwrap().1);
    assert_eq!(facts["clip"], json(br#"{"key": "land", "index": 0, "start": 2.0, "end": 4.0}"#));
    let done = tarvideo("--clip txt --precision keyframe").stdin(archive("2.5 3.5")).done();
    done.status(3).stderr("tarvideo: 0 samples; failed 1 (1 too_short)");
    let copied = members(&tarvideo("--clip txt --precision copy").stdin(archive("2.6 4.6")).ok());
    let video = look(videos(&copied)[0].1);
    close(video.seconds("video"), 2.6, 0.15);
    assert_eq!(video.text("video", "codec_name"), "h264");
}

#[test]
fn long_clips_are_cut_and_short_ones_left_out() {
    let lengths = |flags: &str| -> Vec<f64> {
        let archive = Archive::new().file("mute.mp4", &source("mute.mp4")).whole();
        let out = members(
            &tarvideo(&format!("{flags} --preset ultrafast --max-failures 100%"))
                .stdin(archive)
                .done()
                .status(0)
                .stdout(),
        );
        videos(&out).iter().map(|video| look(video.1).seconds("video")).collect()
    };
    assert_eq!(lengths("--max-length 1"), [1.0, 1.0, 1.0]);
    assert_eq!(lengths("--max-length 1:first"), [1.0]);
    assert_eq!(lengths("--max-length 2 --min-length 1.5"), [2.0]);
    assert_eq!(lengths("--max-length 10"), [3.0]);
}

#[test]
fn subtitles_are_clips_with_their_text() {
    let vtt = "WEBVTT\n\n00:00.500 --> 00:01.500\nHello <i>there</i>\n\n00:01.500 --> 00:02.500\nBye\n";
    let out = clips("mute.mp4", "vtt", vtt, "--clip vtt");
    let text = |key: &str| out.iter().find(|member| member.0 == format!("{key}.txt")).unwrap().1.clone();
    assert_eq!((text("mute_00000"), text("mute_00001")), (b"Hello there".to_vec(), b"Bye".to_vec()));
    assert_eq!(videos(&out).len(), 2);
    close(look(videos(&out)[1].1).seconds("video"), 1.0, 0.1);
}

#[test]
fn sound_alone_is_cut_too() {
    let archive = Archive::new().file("tone.mp3", &source("tone.mp3")).file("tone.txt", b"1 3").whole();
    for (flags, field) in [("", "mp3"), ("--precision copy", "mp3"), ("--audio wav", "wav")] {
        let out = members(&tarvideo(&format!("--clip txt {flags}")).stdin(archive.clone()).ok());
        assert_eq!(out[0].0, format!("tone_00000.{field}"));
        close(look(&out[0].1).format_seconds(), 2.0, 0.08);
    }
}

#[test]
fn a_bad_clip_costs_itself_alone() {
    let folder = dir();
    let spans = r#"{"clips": [[0, 1], [90, 91], [1, 2]]}"#;
    let archive = Archive::new()
        .file("mute.mp4", &source("mute.mp4"))
        .file("mute.json", spans.as_bytes())
        .file("none.mp4", &source("mute.mp4"))
        .file("wrong.mp4", &source("mute.mp4"))
        .file("wrong.json", br#"{"clips": [["x", 1]]}"#)
        .whole();
    let flags = "--clip json.clips --preset ultrafast --report r.jsonl --max-failures 2";
    let done = tarvideo(flags).cwd(folder.path()).stdin(archive).done().status(3);
    done.stderr("tarvideo: 2 samples; failed 3 (2 bad_clip, 1 no_clip)");
    let report = std::fs::read_to_string(folder.path().join("r.jsonl")).unwrap();
    let rows: Vec<Value> = report.lines().map(|line| json(line.as_bytes())).collect();
    let told: Vec<_> =
        rows.iter().map(|row| (row["key"].as_str().unwrap(), row["code"].as_str().unwrap_or("-"))).collect();
    let expected = [
        ("mute_00000", "-"),
        ("mute_00001", "bad_clip"),
        ("mute_00002", "-"),
        ("none", "no_clip"),
        ("wrong", "bad_clip"),
    ];
    assert_eq!(told, expected);
    assert_eq!(rows[1]["error_message"], "starts at 90 s, but the media ends at 3 s");
    assert!(rows[0]["bytes"].as_u64().unwrap() > 1000 && rows[1]["bytes"].is_null());
}

#[test]
fn failed_samples_pass_on_request() {
    let failed = br#"{"url": "u", "status": "failed", "tool": "fetch", "code": "dns", "error_message": "x"}"#;
    let archive = Archive::new()
        .file("bad.mp4", b"no video")
        .file("bad.json", br#"{"url": "http://h/bad"}"#)
        .file("gone.json", failed)
        .file("land.mp4", &source("land.mp4"))
        .file("land.json", br#"{"url": "http://h/land", "spans": "[[0, 0.2], [1, 2]]"}"#)
        .whole();
    let flags = "--clip json.spans --min-length 0.5 --precision copy --on-error pass";
    let done = tarvideo(flags).stdin(archive).done().status(3);
    let done = done.stderr("tarvideo: 2 samples; failed 2 (1 decode, 1 too_short)");
    let out = members(&done.stdout());
    let found: Vec<&str> = out.iter().map(|member| member.0.as_str()).collect();
    assert_eq!(found, ["bad.json", "gone.json", "land_00000.json", "land_00001.mp4", "land_00001.json"]);
    let told = json(&out[0].1);
    assert_eq!(
        (&told["url"], &told["status"], &told["tool"]),
        (&"http://h/bad".into(), &"failed".into(), &"tarvideo".into())
    );
    assert_eq!(out[1].1, failed);
    let told = json(&out[2].1);
    assert_eq!((&told["code"], &told["clip"]["key"]), (&"too_short".into(), &"land".into()));
}
