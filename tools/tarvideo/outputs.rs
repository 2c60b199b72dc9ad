//! What is made of media: the parts of a run, and what each is called.

use super::choices::{Audio, Codec, Frames, Image, Scale, Size};
use super::media::Media;

/// What happens to the video.
pub struct Video {
    /// It is encoded anew.
    pub encode: bool,
    /// Clips are cut out of it as it is.
    pub copy: bool,
    /// It is not wanted.
    pub drop: bool,
    pub codec: Codec,
    pub crf: Option<u8>,
    pub preset: Option<String>,
}

/// How large the picture is.
pub struct Geometry {
    pub scale: Option<Scale>,
    pub crop: Option<Size>,
    pub pad: Option<Size>,
}

/// Which images are made.
pub struct Pictures {
    pub frames: Option<Frames>,
    pub thumbnail: bool,
    pub format: Image,
}

/// How sound is written.
pub struct Sound {
    pub format: Audio,
    pub rate: Option<u32>,
    pub channels: Option<u8>,
}

/// What becomes of the media itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Main {
    /// It stays.
    Keep,
    /// It goes, with nothing in its place but perhaps its sound.
    Drop,
    /// Video, encoded anew.
    Encode,
    /// A part of it as it is.
    Copy,
    /// Sound without video, encoded anew in its own format.
    Sound,
}

impl Geometry {
    /// The filters, in order.
    pub fn filters(&self, is_square: bool) -> Vec<String> {
        let mut filters = Vec::new();
        if !is_square && (self.scale.is_some() || self.crop.is_some() || self.pad.is_some()) {
            filters.push("scale=w='trunc(iw*sar/2)*2':h=ih,setsar=1".into());
        }
        match self.scale {
            Some(Scale::Short(side)) => filters.push(short_side(&side.to_string(), &side.to_string())),
            Some(Scale::Width(width)) => filters.push(format!("scale=w={width}:h=-2")),
            Some(Scale::Height(height)) => filters.push(format!("scale=w=-2:h={height}")),
            None => {}
        }
        if let Some(Size { width, height }) = self.crop {
            filters.push(format!("crop=w='min(iw,{width})':h='min(ih,{height})'"));
        }
        if let Some(Size { width, height }) = self.pad {
            filters.push(format!("pad=w='max(iw,{width})':h='max(ih,{height})':x='(ow-iw)/2':y='(oh-ih)/2'"));
        }
        filters
    }

    pub fn is_asked(&self) -> bool {
        self.scale.is_some() || self.crop.is_some() || self.pad.is_some()
    }
}

/// Scales the short side; the other follows, to an even number.
pub fn short_side(width: &str, height: &str) -> String {
    format!("scale=w='if(lt(iw,ih),{width},-2)':h='if(lt(iw,ih),-2,{height})'")
}

/// The names of the files of the n-th clip.
pub struct Names {
    n: usize,
}

impl Names {
    pub fn new(n: usize) -> Self {
        Names { n }
    }

    pub fn main(&self, extension: &str) -> String {
        format!("m{}.{extension}", self.n)
    }

    pub fn sound(&self, extension: &str) -> String {
        format!("a{}.{extension}", self.n)
    }

    pub fn frame(&self, at: &str, extension: &str) -> String {
        format!("f{}-{at}.{extension}", self.n)
    }

    pub fn thumbnail(&self, extension: &str) -> String {
        format!("t{}.{extension}", self.n)
    }
}

/// The file that the scene changes are written to.
pub const CUTS: &str = "cuts.txt";

/// Whether the sound of the media can stay as it is beside video of this codec.
pub fn keeps_sound(media: &Media, codec: Codec) -> bool {
    media.sound.as_ref().is_some_and(|sound| codec.sound().1.contains(&sound.codec.as_str()))
}
