//! Audio and video, with ffprobe and without.

use crate::support::{Archive, bash, dir, words};

#[test]
fn audio_and_video_are_probed() {
    let folder = dir();
    bash(
        "ffmpeg -v error -f lavfi -i testsrc=s=64x48:r=10:d=1 -f lavfi -i sine=d=1 -c:v mpeg4 -c:a aac -ac 2 a.mp4 \
         && ffmpeg -v error -f lavfi -i sine=d=2 -ac 1 b.wav",
    )
    .cwd(folder.path())
    .ok();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let cut = &read("a.mp4")[..200];
    let archive = Archive::new().file("s.mp4", &read("a.mp4")).file("s.wav", &read("b.wav")).file("s.cut.mp4", cut);
    let text = String::from_utf8(words("tarshow", "").stdin(archive.clone().whole()).ok()).unwrap();
    assert!(text.contains("  mpeg4 64x48, aac stereo, 1.0 s\n"), "{text}");
    assert!(text.contains("  pcm_s16le mono, 2.0 s\n"), "{text}");
    assert!(text.contains("  video/mp4\n"), "{text}");
    let without = words("tarshow", "").env("PATH", "/nowhere").stdin(archive.whole()).ok();
    let without = String::from_utf8(without).unwrap();
    assert!(without.contains("  audio/x-wav\n") && without.matches("  video/mp4\n").count() == 2, "{without}");
}
