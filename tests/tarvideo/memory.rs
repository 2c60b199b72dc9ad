//! Frames share one budget of memory, whatever the number of ffmpegs.

use super::{source, tarvideo};
use crate::support::{Archive, dir, names, peak_memory};

/// A few KB whose frames have 35 million pixels, several times.
fn vast(count: usize) -> Archive {
    (0..count).fold(Archive::new(), |archive, i| archive.file(&format!("vast{i}.mp4"), &source("vast.mp4")))
}

#[test]
fn video_that_needs_more_than_the_limit_fails_before_ffmpeg_takes_it() {
    let archive = vast(1).file("small.mp4", &source("mute.mp4")).whole();
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), &archive).unwrap();
    for parallel in [1, 4] {
        let flags = format!("-v --codec h264 --preset ultrafast --memory 1G -p {parallel}");
        let done = tarvideo(&flags).stdin(archive.clone()).done().status(3);
        let said = done.stderr_text();
        let why = "vast0: left out: memory: frames of 8192x4320 need ";
        assert!(said.contains(why), "{said}");
        assert!(
            said.contains(" of memory, but --memory is 1.1 GB; raise --memory, or make smaller videos with --scale\n")
        );
        assert!(said.ends_with("tarvideo: 1 sample; failed 1 (1 memory)\n"), "{said}");
        assert_eq!(names(&done.stdout()), ["small.mp4"]);
    }
    let peak =
        peak_memory(folder.path(), "tarvideo", "--codec h264 --preset ultrafast --memory 1G -p 1 in.tar -o out.tar");
    assert!(peak < 512 << 20, "{peak} bytes"); // ffprobe decodes a frame or two
}

#[test]
fn videos_that_need_much_together_wait_for_each_other() {
    let archive = vast(3).file("small.mp4", &source("mute.mp4")).whole();
    let flags = "--scale 64 --preset ultrafast --frames first";
    let alone = tarvideo(&format!("{flags} -p 1")).stdin(archive.clone()).ok();
    let together = tarvideo(&format!("{flags} -p 4 --memory 1G")).stdin(archive).ok();
    assert_eq!(names(&together).len(), 8);
    assert!(alone == together);
}

#[test]
fn clips_are_made_one_by_one_where_memory_is_low() {
    let archive = Archive::new()
        .file("a.mp4", &source("mute.mp4"))
        .file("a.json", br#"{"spans": [[0, 1], [1, 2], [0.5, 1.5], [2, 3], [0, 3]]}"#)
        .whole();
    let flags = "--clip json.spans --preset ultrafast";
    let many = tarvideo(flags).stdin(archive.clone()).ok();
    // The program and one clip fit, two do not.
    let low = tarvideo(&format!("{flags} --memory 140M")).stdin(archive.clone()).ok();
    assert!(many == low);
    let done = tarvideo(&format!("{flags} --memory 50M")).stdin(archive).done().status(3);
    done.stderr("tarvideo: 0 samples; failed 1 (1 memory)");
}
