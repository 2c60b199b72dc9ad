//! What flags can be set to.

use std::str::FromStr;

use clap::ValueEnum;

use super::time;

/// Where a clip may begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// Not encoded anew: begins at the keyframe before
    Copy,
    /// Not encoded anew: begins and ends at keyframes within the span
    Keyframe,
    /// Encoded anew: right to the frame
    Exact,
}

/// How video is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Codec {
    /// In mp4, with AAC
    H264,
    /// In mp4, with AAC
    Hevc,
    /// In webm, with Opus
    Vp9,
    /// In mp4, with AAC
    Av1,
}

impl Codec {
    pub fn extension(self) -> &'static str {
        if self == Codec::Vp9 { "webm" } else { "mp4" }
    }

    pub fn encoder(self) -> &'static str {
        match self {
            Codec::H264 => "libx264",
            Codec::Hevc => "libx265",
            Codec::Vp9 => "libvpx-vp9",
            Codec::Av1 => "libsvtav1",
        }
    }

    /// The encoder of the sound beside it, and the codecs that may stay as they are.
    pub fn sound(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Codec::Vp9 => ("libopus", &["opus", "vorbis"]),
            _ => ("aac", &["aac", "mp3"]),
        }
    }
}

/// Which frames become images.
#[derive(Clone, Debug, PartialEq)]
pub enum Frames {
    /// Every frame of the video, after --fps.
    All,
    /// So many a second.
    Rate(Rate),
    Keyframe,
    First,
}

impl FromStr for Frames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "fps" => Frames::All,
            "keyframe" => Frames::Keyframe,
            "first" => Frames::First,
            number => Frames::Rate(number.parse().map_err(|_| "write fps, keyframe, first or a number a second")?),
        })
    }
}

/// Frames a second: 25, 29.97 or 30000/1001.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate(pub String);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, divisor) = text.split_once('/').unwrap_or((text, "1"));
        let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b"./".contains(&b));
        let value = match (number.parse::<f64>(), divisor.parse::<f64>()) {
            (Ok(number), Ok(divisor)) if is_plain => number / divisor,
            _ => 0.0,
        };
        if !(0.001..=1000.0).contains(&value) {
            return Err("not a rate (write 10, 29.97 or 30000/1001)".into());
        }
        Ok(Rate(text.to_owned()))
    }
}

/// How images are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Image {
    Jpg,
    Png,
}

impl Image {
    pub fn extension(self) -> &'static str {
        match self {
            Image::Jpg => "jpg",
            Image::Png => "png",
        }
    }
}

/// How sound is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Audio {
    Mp3,
    Flac,
    Wav,
    M4a,
}

impl Audio {
    pub fn extension(self) -> &'static str {
        match self {
            Audio::Mp3 => "mp3",
            Audio::Flac => "flac",
            Audio::Wav => "wav",
            Audio::M4a => "m4a",
        }
    }

    pub fn encoder(self) -> &'static str {
        match self {
            Audio::Mp3 => "libmp3lame",
            Audio::Flac => "flac",
            Audio::Wav => "pcm_s16le",
            Audio::M4a => "aac",
        }
    }
}

/// What becomes of clips that are too long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxLength {
    pub seconds: f64,
    /// Whether the rest becomes clips too.
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
        Ok(MaxLength { seconds: time::length(seconds)?, all })
    }
}

/// Which side is scaled; the other follows.
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
        scale.map_err(|_| "not a scale (write 360, 640x for the width or x360 for the height, even numbers)".into())
    }
}

/// Width and height in pixels, both even: video stores colour for two by two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (width, height) = text.split_once(['x', 'X']).unwrap_or((text, text));
        match (side(width), side(height)) {
            (Ok(width), Ok(height)) => Ok(Size { width, height }),
            _ => Err("not a size (write 256 or 640x360, even numbers up to 16384)".into()),
        }
    }
}

/// One side, an even number.
pub fn side(text: &str) -> Result<u32, String> {
    let side = text.parse().ok().filter(|side| (2..=16_384).contains(side) && side % 2 == 0);
    side.ok_or_else(|| "not a side (write an even number from 2 to 16384)".into())
}

/// What becomes of a sample that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    Skip,
    Pass,
}

/// What becomes of samples without media.
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
        assert_eq!("30000/1001".parse(), Ok(Rate("30000/1001".into())));
        for wrong in ["0", "1/0", "x", "-5", "2000", "1e2", "inf", "5,scale=2"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
        assert_eq!("640x360".parse(), Ok(Size { width: 640, height: 360 }));
        assert!("641".parse::<Size>().is_err() && "0x2".parse::<Size>().is_err());
        let scales = ["360", "640x", "x360"].map(|text| text.parse());
        assert_eq!(scales, [Ok(Scale::Short(360)), Ok(Scale::Width(640)), Ok(Scale::Height(360))]);
        for wrong in ["361", "640x360", "360x360", "x", "", "x361"] {
            assert!(wrong.parse::<Scale>().is_err(), "{wrong}");
        }
        assert_eq!("2".parse(), Ok(Frames::Rate(Rate("2".into()))));
        assert!("some".parse::<Frames>().is_err());
    }
}
