//! Estimates the memory that ffmpeg needs for one sample, from ffprobe's output and the options. The runs of all
//! threads share one budget. A run that needs far more than estimated, because the media declares wrong frame sizes, is
//! stopped.
//!
//! The figures per pixel were measured with ffmpeg 5.1 on frames of 2 to 35 megapixels, and rounded up by a third.

use tarpipe::run::failure::Failure;
use tarpipe::value::size;

use crate::tarvideo::ffmpeg::media_info::{MediaInfo, VideoStream};
use crate::tarvideo::flag_values::{EvenSize, Scale, VideoCodec};
use crate::tarvideo::options::MediaOptions;
use crate::tarvideo::options::{FrameGeometry, MediaAction};

/// The program itself, its libraries and the first thread.
const BASE: u64 = 96 << 20;
/// One thread: its stack and its share of the allocator.
const PER_THREAD: u64 = 16 << 20;
/// One run of ffprobe, which decodes a few frames of any size.
pub const PROBE: u64 = 256 << 20;
/// Reference frames that decoders keep, whatever the media declares.
const REFERENCES: u64 = 8;
/// Frames in transit between decoder, filters and encoder.
const IN_TRANSIT: u64 = 6;
/// Frames that the thumbnail filter compares, scaled down to at most this short side.
const COMPARED: u64 = 100;
const COMPARED_SIDE: u64 = 256;

/// The memory reserved for one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FfmpegMemory {
    pub bytes: u64,
    /// Clips made in one run, each with its own decoder and encoder.
    pub clips_per_run: usize,
}

impl FfmpegMemory {
    /// Reserves memory for up to `clips_per_run` clips per run, fewer if the limit is too low. Fails if it is too low for
    /// one.
    pub fn new(
        options: &MediaOptions,
        media: &MediaInfo,
        action: MediaAction,
        clips_per_run: usize,
        limit: u64,
    ) -> Result<Self, Failure> {
        let base = BASE + u64::from(options.threads) * PER_THREAD;
        let clip = media.video.as_ref().map_or(0, |stream| clip_bytes(options, stream, action)).max(1);
        let fit = limit.saturating_sub(base) / clip;
        match (fit, &media.video) {
            (0, Some(VideoStream { width, height, .. })) => {
                let (needed, limit) = (size::show(base + clip), size::show(limit));
                let problem = format!("frames of {width}x{height} need {needed} of memory, but --memory is {limit}");
                Err(Failure::new("memory", problem + "; raise --memory, or make smaller videos with --scale"))
            }
            (0, None) => {
                let (needed, limit) = (size::show(base), size::show(limit));
                Err(Failure::new(
                    "memory",
                    format!("ffmpeg needs {needed} of memory, but --memory is {limit}; raise --memory"),
                ))
            }
            _ => {
                let clips_per_run = clips_per_run.min(usize::try_from(fit).unwrap_or(usize::MAX));
                Ok(FfmpegMemory { bytes: base + clip * clips_per_run as u64, clips_per_run })
            }
        }
    }

    /// The hard limit for a run, far above the estimate, which may be wrong.
    pub fn ceiling(self) -> u64 {
        ceiling(self.bytes)
    }
}

/// The hard limit for a run that is expected to need `bytes`.
pub fn ceiling(bytes: u64) -> u64 {
    2 * bytes + (512 << 20)
}

/// The memory for one clip or a whole video: its frames in the decoder, the filters and the encoder.
fn clip_bytes(options: &MediaOptions, stream: &VideoStream, action: MediaAction) -> u64 {
    let images = options.stills.frames.is_some() || options.stills.thumbnail;
    if action != MediaAction::Encode && !images && options.cuts.is_none() {
        return 0; // nothing is decoded
    }
    let threads = u64::from(options.threads);
    let frame = (stream.width * stream.height) as f64 * stream.pixel_bytes;
    let decoder = frame * (stream.references.max(REFERENCES) + IN_TRANSIT + 2 * threads) as f64;
    let (width, height) = options.geometry.output_size(stream);
    let pixels = width * height;
    let encoder = if action == MediaAction::Encode {
        pixels * encoder_bytes(options.video.codec, &options.video.preset, threads)
    } else {
        0.0
    };
    let stills = if images { pixels * 24.0 } else { 0.0 };
    let small = (COMPARED_SIDE as f64 / width.min(height)).min(1.0);
    let compared = if options.stills.thumbnail { pixels * small * small * 3.0 * COMPARED as f64 } else { 0.0 };
    (decoder + encoder + stills + compared) as u64
}

/// Bytes per pixel of a frame: encoders look ahead dozens of frames.
fn encoder_bytes(codec: VideoCodec, preset: &Option<String>, threads: u64) -> f64 {
    let is_slow = preset.as_deref().is_some_and(|preset| {
        preset.contains("slow") || preset == "placebo" || preset.parse::<u8>().is_ok_and(|number| number < 6)
    });
    let one_thread = match (codec, is_slow) {
        (VideoCodec::H264, false) => 220.0,
        (VideoCodec::H264, true) => 400.0,
        (VideoCodec::Hevc, false) => 240.0,
        (VideoCodec::Hevc, true) => 440.0,
        (VideoCodec::Vp9, _) => 180.0,
        (VideoCodec::Av1, false) => 400.0,
        (VideoCodec::Av1, true) => 800.0,
    };
    one_thread + 12.0 * threads as f64
}

impl FrameGeometry {
    /// The size of the frames after all filters.
    fn output_size(&self, stream: &VideoStream) -> (f64, f64) {
        let (mut width, mut height) = (stream.width as f64, stream.height as f64);
        if self.is_set() {
            width *= stream.aspect;
        }
        let scale = match self.scale {
            Some(Scale::Short(side)) => f64::from(side) / width.min(height),
            Some(Scale::Width(side)) => f64::from(side) / width,
            Some(Scale::Height(side)) => f64::from(side) / height,
            None => 1.0,
        };
        (width, height) = (width * scale, height * scale);
        if let Some(EvenSize { width: most, height: high }) = self.crop {
            (width, height) = (width.min(f64::from(most)), height.min(f64::from(high)));
        }
        if let Some(EvenSize { width: least, height: low }) = self.pad {
            (width, height) = (width.max(f64::from(least)), height.max(f64::from(low)));
        }
        (width.max(1.0), height.max(1.0))
    }
}
