//! The values of flags, and how they are parsed.

use std::str::FromStr;

use clap::ValueEnum;

use crate::tarvideo::clips::timestamp;

/// The values of `--precision`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// Does not re-encode; starts at the keyframe before the span
    Copy,
    /// Does not re-encode; starts and ends at keyframes within the span
    Keyframe,
    /// Re-encodes; accurate to the frame
    Exact,
}

/// The values of `--codec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VideoCodec {
    /// In mp4, with AAC
    H264,
    /// In mp4, with AAC
    Hevc,
    /// In webm, with Opus
    Vp9,
    /// In mp4, with AAC
    Av1,
}

impl VideoCodec {
    pub fn extension(self) -> &'static str {
        if self == VideoCodec::Vp9 { "webm" } else { "mp4" }
    }

    pub fn encoder(self) -> &'static str {
        match self {
            VideoCodec::H264 => "libx264",
            VideoCodec::Hevc => "libx265",
            VideoCodec::Vp9 => "libvpx-vp9",
            VideoCodec::Av1 => "libsvtav1",
        }
    }

    /// The encoder for the audio track, and the codecs that can be copied instead.
    pub fn audio(self) -> (&'static str, &'static [&'static str]) {
        match self {
            VideoCodec::Vp9 => ("libopus", &["opus", "vorbis"]),
            _ => ("aac", &["aac", "mp3"]),
        }
    }
}

/// The values of `--frames`: which frames become images.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameSelection {
    /// Every frame of the video, after --fps.
    All,
    /// This many per second.
    PerSecond(FrameRate),
    Keyframe,
    First,
}

impl FromStr for FrameSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "fps" => FrameSelection::All,
            "keyframe" => FrameSelection::Keyframe,
            "first" => FrameSelection::First,
            number => FrameSelection::PerSecond(
                number.parse().map_err(|_| "invalid selection (write fps, keyframe, first, or a number per second)")?,
            ),
        })
    }
}

/// Frames per second: 25, 29.97 or 30000/1001.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameRate(pub String);

impl FromStr for FrameRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, divisor) = text.split_once('/').unwrap_or((text, "1"));
        let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b"./".contains(&b));
        let value = match (number.parse::<f64>(), divisor.parse::<f64>()) {
            (Ok(number), Ok(divisor)) if is_plain => number / divisor,
            _ => 0.0,
        };
        if !(0.001..=1000.0).contains(&value) {
            return Err("invalid rate (write 10, 29.97 or 30000/1001)".into());
        }
        Ok(FrameRate(text.to_owned()))
    }
}

/// The values of `--image`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StillFormat {
    Jpg,
    Png,
}

impl StillFormat {
    pub fn extension(self) -> &'static str {
        match self {
            StillFormat::Jpg => "jpg",
            StillFormat::Png => "png",
        }
    }
}

/// The values of `--audio`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AudioFormat {
    Mp3,
    Flac,
    Wav,
    M4a,
}

impl AudioFormat {
    pub fn extension(self) -> &'static str {
        match self {
            AudioFormat::Mp3 => "mp3",
            AudioFormat::Flac => "flac",
            AudioFormat::Wav => "wav",
            AudioFormat::M4a => "m4a",
        }
    }

    pub fn encoder(self) -> &'static str {
        match self {
            AudioFormat::Mp3 => "libmp3lame",
            AudioFormat::Flac => "flac",
            AudioFormat::Wav => "pcm_s16le",
            AudioFormat::M4a => "aac",
        }
    }
}

/// The value of `--max-length`: what to do with longer clips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxLength {
    pub seconds: f64,
    /// Whether the rest becomes further clips.
    pub all: bool,
}

impl FromStr for MaxLength {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (seconds, all) = match text.rsplit_once(':') {
            Some((seconds, "all")) => (seconds, true),
            Some((seconds, "first")) => (seconds, false),
            _ => (text, true),
        };
        Ok(MaxLength { seconds: timestamp::length(seconds)?, all })
    }
}

/// The value of `--scale`: the side to scale; the other follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Short(u32),
    Width(u32),
    Height(u32),
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scale = match text.split_once(['x', 'X']) {
            None => side(text).map(Scale::Short),
            Some((width, "")) => side(width).map(Scale::Width),
            Some(("", height)) => side(height).map(Scale::Height),
            Some(_) => Err(String::new()),
        };
        scale.map_err(|_| "invalid scale (write 360, 640x for the width or x360 for the height, even numbers)".into())
    }
}

/// Width and height in pixels. Both are even, because video stores one colour value for 2x2 pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvenSize {
    pub width: u32,
    pub height: u32,
}

impl FromStr for EvenSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (width, height) = text.split_once(['x', 'X']).unwrap_or((text, text));
        match (side(width), side(height)) {
            (Ok(width), Ok(height)) => Ok(EvenSize { width, height }),
            _ => Err("invalid size (write 256 or 640x360, even numbers up to 16384)".into()),
        }
    }
}

/// Parses one side, an even number of pixels.
pub fn side(text: &str) -> Result<u32, String> {
    let side = text.parse().ok().filter(|side| (2..=16_384).contains(side) && side % 2 == 0);
    side.ok_or_else(|| "invalid side (write an even number from 2 to 16384)".into())
}

/// The values of `--on-error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnMediaError {
    Skip,
    Pass,
}

/// The values of `--no-media`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NoMedia {
    Fail,
    Pass,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        assert_eq!("10:first".parse(), Ok(MaxLength { seconds: 10.0, all: false }));
        assert_eq!("1:00:all".parse(), Ok(MaxLength { seconds: 60.0, all: true }));
        assert_eq!("1:30".parse(), Ok(MaxLength { seconds: 90.0, all: true }));
        assert!("0".parse::<MaxLength>().is_err() && "last".parse::<MaxLength>().is_err());
        assert_eq!("30000/1001".parse(), Ok(FrameRate("30000/1001".into())));
        for wrong in ["0", "1/0", "x", "-5", "2000", "1e2", "inf", "5,scale=2"] {
            assert!(wrong.parse::<FrameRate>().is_err(), "{wrong}");
        }
        assert_eq!("640x360".parse(), Ok(EvenSize { width: 640, height: 360 }));
        assert!("641".parse::<EvenSize>().is_err() && "0x2".parse::<EvenSize>().is_err());
        let scales = ["360", "640x", "x360"].map(|text| text.parse());
        assert_eq!(scales, [Ok(Scale::Short(360)), Ok(Scale::Width(640)), Ok(Scale::Height(360))]);
        for wrong in ["361", "640x360", "360x360", "x", "", "x361"] {
            assert!(wrong.parse::<Scale>().is_err(), "{wrong}");
        }
        assert_eq!("2".parse(), Ok(FrameSelection::PerSecond(FrameRate("2".into()))));
        assert!("some".parse::<FrameSelection>().is_err());
    }
}
