//! Geometry, rates, codecs and sound.

use super::{Looked, close, json, look, only, stream, tarvideo};
use crate::support::names;

#[test]
fn the_short_side_is_scaled_and_sound_stays() {
    for (name, size) in [("land.mp4", (160, 90)), ("port.webm", (90, 160)), ("mute.mp4", (120, 90))] {
        let fields = only(name, "--scale 90");
        let video = look(&fields["mp4"]);
        assert_eq!((video.size(), video.text("video", "codec_name")), (size, "h264"), "{name}");
        assert_eq!(video.stream("audio").is_some(), name != "mute.mp4", "{name}");
        assert_eq!(fields.len(), 1, "{:?}", fields.keys());
    }
}

#[test]
fn the_width_or_the_height_is_scaled_and_sound_can_be_m4a() {
    for (scale, size) in [("x90", (50, 90)), ("90x", (90, 160))] {
        let fields = only("port.webm", &format!("--scale {scale} --audio m4a --preset ultrafast"));
        assert_eq!(look(&fields["mp4"]).size(), size, "{scale}");
        let sound = look(&fields["m4a"]);
        assert_eq!((sound.text("audio", "codec_name"), sound.stream("video").is_none()), ("aac", true));
    }
}

#[test]
fn non_square_pixels_become_square() {
    let video = look(&only("wide.avi", "--scale 120")["mp4"]);
    assert_eq!((video.size(), video.text("video", "sample_aspect_ratio")), ((180, 120), "1:1"));
}

#[test]
fn crop_and_pad_are_centred_and_leave_what_fits() {
    assert_eq!(look(&only("land.mp4", "--scale 90 --crop 90")["mp4"]).size(), (90, 90));
    assert_eq!(look(&only("land.mp4", "--scale 90 --pad 160x160")["mp4"]).size(), (160, 160));
    assert_eq!(look(&only("mute.mp4", "--crop 1000x100 --pad 400x50")["mp4"]).size(), (400, 100));
    // The middle of a picture that is padded is the picture, and above it is black.
    let fields = only("mute.mp4", "--scale 120 --pad 160x200 --frames first --image png --no-video");
    let picture = image::load_from_memory(&fields["00000.png"]).unwrap().to_rgb8();
    assert_eq!(picture.dimensions(), (160, 200));
    assert!(picture.get_pixel(80, 10).0.iter().all(|c| *c < 8) && picture.get_pixel(80, 195).0.iter().all(|c| *c < 8));
    assert!(picture.pixels().filter(|pixel| pixel.0.iter().any(|c| *c > 60)).count() > 160 * 100);
}

#[test]
fn odd_sides_are_evened() {
    assert_eq!(look(&only("odd.mkv", "--fps 5")["mp4"]).size(), (320, 240));
}

#[test]
fn frames_a_second_are_what_was_asked() {
    let video = look(&only("land.mp4", "--fps 10")["mp4"]);
    assert_eq!((video.text("video", "avg_frame_rate"), video.frames()), ("10/1", 60));
    close(video.seconds("video"), 6.0, 0.1);
    close(video.seconds("audio"), 6.0, 0.1);
    let even = look(&only("vfr.mp4", "--fps 30000/1001")["mp4"]);
    assert_eq!(
        (even.text("video", "avg_frame_rate"), even.text("video", "r_frame_rate")),
        ("30000/1001", "30000/1001")
    );
}

#[test]
fn uneven_frames_keep_their_times() {
    let after = &only("vfr.mp4", "--scale 120 --preset ultrafast")["mp4"];
    let times = Looked::times(after);
    assert_eq!(times, Looked::times(&super::source("vfr.mp4")));
    assert_eq!((times.len(), times[29].as_str(), times[31].as_str()), (43, "0.966667", "1.400000"));
}

#[test]
fn codecs_choose_their_container() {
    for (codec, container, name, sound) in [
        ("h264", "mp4", "h264", "aac"),
        ("hevc", "mp4", "hevc", "aac"),
        ("vp9", "webm", "vp9", "opus"),
        ("av1", "mp4", "av1", "aac"),
    ] {
        let speed = if codec == "av1" { "--preset 12" } else { "--crf 40" };
        let video = look(&only("land.mp4", &format!("--scale 64 --fps 2 --codec {codec} {speed}"))[container]);
        assert_eq!((video.text("video", "codec_name"), video.text("audio", "codec_name")), (name, sound), "{codec}");
        assert_eq!(video.frames(), 12, "{codec}");
    }
    let small = only("land.mp4", "--codec h264 --crf 50 --preset veryfast")["mp4"].len();
    assert!(small * 2 < only("land.mp4", "--codec h264 --crf 20 --preset veryfast")["mp4"].len());
}

#[test]
fn sound_becomes_a_field() {
    for (format, codec) in [("mp3", "mp3"), ("flac", "flac"), ("wav", "pcm_s16le")] {
        let fields = only("land.mp4", &format!("--audio {format} --rate 16000 --channels 1"));
        let sound = look(&fields[format]);
        assert_eq!(sound.text("audio", "codec_name"), codec);
        assert_eq!(
            (sound.text("audio", "sample_rate"), sound.0["streams"][0]["channels"].as_u64()),
            ("16000", Some(1))
        );
        close(sound.format_seconds(), 6.0, 0.15);
        assert_eq!(fields["mp4"], super::source("land.mp4"), "the video is not touched");
    }
    let plain = look(&only("port.webm", "--audio flac")["flac"]);
    assert_eq!((plain.text("audio", "sample_rate"), plain.0["streams"][0]["channels"].as_u64()), ("48000", Some(1)));
}

#[test]
fn a_video_without_sound_stays_without_and_sound_takes_the_place_of_sound() {
    assert_eq!(only("mute.mp4", "--audio mp3").keys().collect::<Vec<_>>(), ["mp4"]);
    let fields = only("tone.mp3", "--audio wav --rate 8000");
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["wav"]);
    assert_eq!(look(&fields["wav"]).text("audio", "sample_rate"), "8000");
}

#[test]
fn the_probe_is_that_of_what_came_in() {
    let fields = only("land.mp4", "--scale 64 --probe");
    let facts = &json(&fields["json"])["probe"];
    assert_eq!((facts["streams"][0]["width"].as_u64(), facts["format"]["filename"].as_str()), (Some(320), None));
    assert_eq!(look(&fields["mp4"]).size().1, 64);
}

#[test]
fn all_at_once_is_one_sample_and_the_same_for_any_number_of_workers() {
    let flags = "--scale 120 --fps 10 --audio flac --frames 2 --thumbnail --probe --cuts --preset ultrafast";
    let archive = stream(&["land.mp4", "mute.mp4", "odd.mkv", "port.webm", "scenes.mp4", "vfr.mp4"]);
    let outputs = ["1", "2", "5"].map(|p| tarvideo(&format!("{flags} -p {p}")).stdin(archive.clone()).ok());
    assert!(outputs[0] == outputs[1] && outputs[1] == outputs[2]);
    let land: Vec<String> = names(&outputs[0]).into_iter().filter(|name| name.starts_with("land.")).collect();
    assert_eq!((land.len(), land[0].as_str(), land[1].as_str()), (16, "land.mp4", "land.flac"));
    assert_eq!(land[2..4], ["land.00000.jpg", "land.00001.jpg"]);
    assert_eq!(land[14..], ["land.thumbnail.jpg", "land.json"]);
}
