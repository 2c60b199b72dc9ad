//! The options that apply to every sample, after the flags have been checked against each other.

use std::time::Duration;

use crate::tarvideo::clips::ClipOptions;
use crate::tarvideo::flag_values::{AudioFormat, EvenSize, FrameRate, FrameSelection, Scale, StillFormat, VideoCodec};

/// The options that apply to every sample.
pub struct MediaOptions {
    pub clips: Option<ClipOptions>,
    pub video: VideoOptions,
    pub geometry: FrameGeometry,
    pub fps: Option<FrameRate>,
    pub stills: StillOptions,
    pub audio: Option<AudioOptions>,
    pub probe: bool,
    /// The size of the change that starts a new scene.
    pub cuts: Option<f64>,
    /// The minimum number of frames between two scene changes.
    pub min_scene: u32,
    /// Whether damaged media is a failure.
    pub strict: bool,
    /// Threads per ffmpeg.
    pub threads: u16,
    /// The extensions of media fields.
    pub fields: Vec<String>,
    /// Whether samples without media pass.
    pub pass_others: bool,
    /// Whether failed samples pass, with their json only.
    pub pass_failed: bool,
    pub timeout: Duration,
    pub max_bytes: u64,
}

/// What to do with the video.
pub struct VideoOptions {
    /// Encode it.
    pub encode: bool,
    /// Cut clips without re-encoding.
    pub copy: bool,
    /// Leave it out.
    pub drop: bool,
    pub codec: VideoCodec,
    pub crf: Option<u8>,
    pub preset: Option<String>,
}

/// The size of the frames: scale, then crop, then pad.
pub struct FrameGeometry {
    pub scale: Option<Scale>,
    pub crop: Option<EvenSize>,
    pub pad: Option<EvenSize>,
}

/// The images to write.
pub struct StillOptions {
    pub frames: Option<FrameSelection>,
    pub thumbnail: bool,
    pub format: StillFormat,
}

/// How to write the audio field.
pub struct AudioOptions {
    pub format: AudioFormat,
    pub rate: Option<u32>,
    pub channels: Option<u8>,
}

/// What happens to the media field itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaAction {
    /// It stays unchanged.
    Keep,
    /// It is removed; its audio may take its place.
    Drop,
    /// Its video is encoded.
    Encode,
    /// Part of it is copied without re-encoding.
    Copy,
    /// Audio without video, encoded in its own format.
    EncodeAudio,
}

impl FrameGeometry {
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
        if let Some(EvenSize { width, height }) = self.crop {
            filters.push(format!("crop=w='min(iw,{width})':h='min(ih,{height})'"));
        }
        if let Some(EvenSize { width, height }) = self.pad {
            filters.push(format!("pad=w='max(iw,{width})':h='max(ih,{height})':x='(ow-iw)/2':y='(oh-ih)/2'"));
        }
        filters
    }

    pub fn is_set(&self) -> bool {
        self.scale.is_some() || self.crop.is_some() || self.pad.is_some()
    }
}

/// A filter that scales the short side; the other side follows, rounded to an even number.
pub fn short_side(width: &str, height: &str) -> String {
    format!("scale=w='if(lt(iw,ih),{width},-2)':h='if(lt(iw,ih),-2,{height})'")
}
