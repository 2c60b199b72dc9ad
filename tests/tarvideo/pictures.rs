//! Images out of video, and scenes.

use super::{Fields, json, only, stream, tarvideo};

fn images(fields: &Fields) -> Vec<&String> {
    fields.keys().filter(|field| field.ends_with("jpg") || field.ends_with("png")).collect()
}

fn size(data: &[u8]) -> (u32, u32) {
    match data.starts_with(b"\x89PNG") {
        true => image::load_from_memory(data).map(|picture| (picture.width(), picture.height())).unwrap(),
        false => {
            let mut decoder = zune_jpeg::JpegDecoder::new(std::io::Cursor::new(data));
            decoder.decode().unwrap();
            decoder.dimensions().map(|(width, height)| (width as u32, height as u32)).unwrap()
        }
    }
}

#[test]
fn frames_come_by_rate_by_keyframe_or_alone() {
    let by_rate = only("land.mp4", "--frames 2");
    assert_eq!(images(&by_rate).len(), 12);
    assert_eq!((images(&by_rate)[0].as_str(), size(&by_rate["00000.jpg"])), ("00000.jpg", (320, 180)));
    assert_eq!(by_rate["mp4"], super::source("land.mp4"));
    assert_eq!(images(&only("land.mp4", "--frames keyframe --no-video")).len(), 3);
    assert_eq!(images(&only("land.mp4", "--frames keyframe --fps 5 --scale 64 --preset ultrafast")).len(), 3);
    let first = only("port.webm", "--frames first --no-video");
    assert_eq!((first.len(), size(&first["00000.jpg"])), (1, (180, 320)));
    assert_eq!(images(&only("mute.mp4", "--frames fps --fps 4 --no-video")).len(), 12);
    assert_eq!(images(&only("vfr.mp4", "--frames fps --no-video")).len(), 43);
}

#[test]
fn images_have_the_size_of_the_video_and_a_format() {
    let fields = only("land.mp4", "--scale 90 --crop 90 --frames 1 --image png --no-video");
    assert_eq!(images(&fields).len(), 6);
    assert!(fields.values().all(|data| size(data) == (90, 90) && data.starts_with(b"\x89PNG")));
}

#[test]
fn a_thumbnail_is_small_and_typical() {
    let fields = only("land.mp4", "--thumbnail");
    assert_eq!(size(&fields["thumbnail.jpg"]), (320, 180));
    let short = only("odd.mkv", "--thumbnail --no-video --scale 400");
    assert_eq!(size(&short["thumbnail.jpg"]).1, 256);
}

#[test]
fn scenes_are_listed_or_become_clips() {
    let told = only("scenes.mp4", "--cuts");
    assert_eq!(json(&told["json"])["cuts"], json(b"[[0.0, 2.0], [2.0, 4.0], [4.0, 5.0]]"));
    // The last change comes 20 frames after the one before.
    for (frames, cuts) in [(20, &b"[[0.0, 2.0], [2.0, 4.0], [4.0, 5.0]]"[..]), (21, b"[[0.0, 4.0], [4.0, 5.0]]")] {
        let told = only("scenes.mp4", &format!("--cuts --min-scene {frames}"));
        assert_eq!(json(&told["json"])["cuts"], json(cuts), "{frames}");
    }
    assert_eq!(json(&only("scenes.mp4", "--cuts=1")["json"])["cuts"], json(b"[[0.0, 5.0]]"));
    let flags = "--cuts --clip json.cuts --min-length 1.5 --preset ultrafast";
    let done = tarvideo(flags).stdin(stream(&["scenes.mp4"])).done().status(3);
    let done = done.stderr("tarvideo: 2 samples; failed 1 (1 too_short)");
    let clips = crate::support::members(&done.stdout());
    let videos: Vec<_> = clips.iter().filter(|member| member.0.ends_with("mp4")).collect();
    assert_eq!((videos[0].0.as_str(), videos[1].0.as_str()), ("scenes_00000.mp4", "scenes_00001.mp4"));
    assert!(videos.iter().all(|video| super::look(&video.1).frames() == 20));
}
