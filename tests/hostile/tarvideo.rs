//! Media that is broken, lies, or wants more than its own file.

use std::time::{Duration, Instant};

use crate::support::{Archive, dir, list, names, run};
use crate::tarvideo::{source, stream, tarvideo};

#[test]
fn broken_files_are_coded_failures() {
    let whole = source("land.mp4");
    let moov_first = {
        let folder = dir();
        std::fs::write(folder.path().join("in.mp4"), &whole).unwrap();
        crate::support::bash("ffmpeg -v error -i in.mp4 -c copy -movflags +faststart out.mp4").cwd(folder.path()).ok();
        std::fs::read(folder.path().join("out.mp4")).unwrap()
    };
    let archive = Archive::new()
        .file("cut.mp4", &whole[..whole.len() / 2])
        .file("early.mp4", &moov_first[..moov_first.len() / 2])
        .file("empty.mp4", b"")
        .file("noise.mp4", &crate::support::archives::noise(3, 50_000))
        .file("text.mp4", b"<html><body>404 Not Found</body></html>")
        .file("good.mp4", &source("mute.mp4"))
        .file("other.cls", b"1")
        .file("tone.mp3", &source("tone.mp3"))
        .whole();
    let done = tarvideo("-v --scale 64 --preset ultrafast").stdin(archive.clone()).done().status(3);
    let said = done.stderr_text();
    for (key, why) in [
        ("cut", "decode: [mov,mp4,m4a,3gp,3g2,mj2] moov atom not found"),
        ("early", "truncated: "),
        ("empty", "decode: "),
        ("noise", "decode: "),
        ("text", "decode: "),
        ("other", "no_media: "),
        ("tone", "no_video: "),
    ] {
        assert!(said.contains(&format!("tarvideo: stdin: {key}: left out: {why}")), "{key}: {said}");
    }
    assert!(said.ends_with("tarvideo: 1 sample; failed 7 (4 decode, 1 no_media, 1 no_video, 1 truncated)\n"), "{said}");
    assert_eq!(names(&done.stdout()), ["good.mp4"]);
    let done = tarvideo("--scale 64 --preset ultrafast --allow-damaged").stdin(archive).done().status(3);
    assert_eq!(names(&done.stdout()), ["early.mp4", "good.mp4"]);
}

#[test]
fn playlists_cannot_read_other_files() {
    let folder = dir();
    let secret = folder.path().join("secret.mp4");
    std::fs::write(&secret, source("mute.mp4")).unwrap();
    let secret = secret.display();
    let playlist =
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:3,\n{secret}\n#EXT-X-ENDLIST\n");
    let archive = Archive::new()
        .file("hls.mp4", playlist.as_bytes())
        .file("url.mp4", playlist.replace(&secret.to_string(), &format!("file://{secret}")).as_bytes())
        .file("concat.mp4", format!("ffconcat version 1.0\nfile '{secret}'\n").as_bytes())
        .file("sdp.mp4", b"v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n")
        .file("dash.mp4", format!("<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\"><Period><AdaptationSet><Representation><BaseURL>{secret}</BaseURL></Representation></AdaptationSet></Period></MPD>").as_bytes())
        .whole();
    let done = tarvideo("--frames first --probe -v").stdin(archive).done().status(3);
    let said = done.stderr_text();
    assert!(said.contains("tarvideo: stdin: hls: left out: unsupported: unsupported container format\n"), "{said}");
    assert!(said.contains("tarvideo: stdin: concat: left out: unsupported"), "{said}");
    assert!(said.contains("0 samples; failed 5"), "{said}");
}

#[test]
fn time_and_size_are_limited_and_nothing_is_left_behind() {
    let folder = dir();
    let place = folder.path().to_str().unwrap();
    let archive = stream(&["land.mp4", "scenes.mp4"]);
    let slow = format!("--codec av1 --preset 0 --timeout 1 --tmpdir {place}");
    let done = tarvideo(&slow).stdin(stream(&["land.mp4"])).done().status(3);
    done.stderr("tarvideo: 0 samples; failed 1 (1 timeout)");
    let large = format!("--frames fps --image png --max-sample 700K --tmpdir {place}");
    tarvideo(&large).stdin(archive).done().status(3).stderr("tarvideo: 1 sample; failed 1 (1 too_large)");
    assert_eq!(list(folder.path()), [""; 0]);
}

#[test]
fn a_signal_ends_ffmpeg_and_cleans_up() {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), stream(&["land.mp4"])).unwrap();
    let args = ["--codec", "av1", "--preset", "0", "in.tar", "-o", "out.tar", "--tmpdir", "."];
    let mut child = run("tarvideo", args).cwd(folder.path()).into_command().spawn().unwrap();
    let scratch = || list(folder.path()).into_iter().find(|name| name.starts_with("tarvideo-"));
    let runs = || {
        scratch().is_some_and(|name| {
            list(folder.path().join(name)).iter().any(|sample| {
                std::fs::read_dir(folder.path().join(scratch().unwrap()).join(sample))
                    .is_ok_and(|mut files| files.next().is_some())
            })
        })
    };
    let began = Instant::now();
    while !runs() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(runs(), "ffmpeg never started to write");
    crate::support::bash(&format!("kill -INT {}", child.id())).ok();
    assert_eq!(crate::support::status(child.wait().unwrap()), 130);
    assert_eq!(list(folder.path()), ["in.tar"]);
}

#[test]
fn a_missing_or_old_ffmpeg_is_named() {
    let folder = dir();
    let path = folder.path().to_str().unwrap();
    let missing = "tarvideo: ffmpeg is not on the PATH; install ffmpeg (apt install ffmpeg)";
    tarvideo("--probe").env("PATH", path).fails(1, missing);
    crate::support::bash("printf '#!/bin/sh\\necho ffmpeg version 4.4.1 Copyright\\n' > ffmpeg; chmod +x ffmpeg")
        .cwd(path)
        .ok();
    let old = "tarvideo: ffmpeg 4.4 is too old; install 5.1 or newer";
    tarvideo("--probe").env("PATH", &format!("{path}:/bin:/usr/bin")).fails(1, old);
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    for (flags, why) in [
        ("", "nothing to do; give --clip, --scale, --fps, --frames, --audio, --probe or the like"),
        ("--precision copy --probe", "--precision applies to clips only; give --clip or --max-length"),
        ("--min-length 2 --probe", "--min-length applies to clips only; give --clip or --max-length"),
        ("--probe --crf 20", "--crf and --preset apply to encoded video only; give --codec"),
        ("--codec h264 --no-video", "--no-video leaves nothing to encode; remove --codec"),
        ("--codec vp9 --preset fast", "--preset applies to h264, hevc and av1 only"),
        (
            "--clip txt --precision copy --scale 64",
            "--scale, --crop, --pad, --fps and --codec re-encode the video; remove them or --precision",
        ),
    ] {
        tarvideo(flags).fails(2, &format!("tarvideo: {why}"));
    }
    tarvideo("--scale 361")
        .done()
        .status(2)
        .stderr_has("invalid scale (write 360, 640x for the width or x360 for the height, even numbers)");
    tarvideo("--rate 8000 --probe").done().status(2).stderr_has("--audio");
}

#[test]
fn invalid_json_fails_only_if_it_is_needed() {
    let archive = Archive::new().file("a.mp4", &source("mute.mp4")).file("a.json", b"[1").whole();
    tarvideo("--probe").stdin(archive.clone()).done().status(3).stderr("tarvideo: 0 samples; failed 1 (1 bad_json)");
    tarvideo("--thumbnail").stdin(archive).ok();
}
