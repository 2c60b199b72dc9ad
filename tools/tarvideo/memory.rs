//! How much memory ffmpeg takes for one sample, estimated from what ffprobe says and what is asked. Runs of all threads
//! share one budget; a run that takes much more than was foreseen (media that lies about its frames) is stopped.
//!
//! The figures per pixel were measured with ffmpeg 5.1 on 2 to 35 megapixels, and rounded up by a third.

use tarpipe::run::failure::Failure;
use tarpipe::value::size;

use super::choices::{Codec, Scale, Size};
use super::job::Wanted;
use super::media::{Media, Picture};
use super::outputs::{Geometry, Main};

/// The program itself, its libraries and the first thread.
const BASE: u64 = 96 << 20;
/// A thread: its stack, and what the allocator keeps for it.
const PER_THREAD: u64 = 16 << 20;
/// A look with ffprobe, which decodes a few frames of whatever size.
pub const PROBE: u64 = 256 << 20;
/// Reference frames that decoders keep, whatever the media says of itself.
const REFERENCES: u64 = 8;
/// Frames on their way from the decoder through the filters.
const ON_THEIR_WAY: u64 = 6;
/// Frames that the filter for thumbnails compares, with a short side of at most this.
const COMPARED: u64 = 100;
const COMPARED_SIDE: u64 = 256;

/// The memory for a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    pub bytes: u64,
    /// Clips that are made in one run, each with a decoder and an encoder of its own.
    pub at_once: usize,
}

impl Share {
    /// The memory for up to `at_once` clips in one run; fewer where the limit is too low for so many. Fails where it is
    /// too low for one.
    pub fn new(wanted: &Wanted, media: &Media, main: Main, at_once: usize, limit: u64) -> Result<Self, Failure> {
        let base = BASE + u64::from(wanted.threads) * PER_THREAD;
        let clip = media.video.as_ref().map_or(0, |picture| clip(wanted, picture, main)).max(1);
        let fit = limit.saturating_sub(base) / clip;
        match (fit, &media.video) {
            (0, Some(Picture { width, height, .. })) => {
                let (needed, limit) = (size::show(base + clip), size::show(limit));
                let why = format!("frames of {width}x{height} need {needed} of memory, and --memory is {limit}");
                Err(Failure::new("memory", why + ": raise it, or make smaller videos with --scale"))
            }
            (0, None) => {
                let (needed, limit) = (size::show(base), size::show(limit));
                Err(Failure::new(
                    "memory",
                    format!("ffmpeg needs {needed} of memory, and --memory is {limit}: raise it"),
                ))
            }
            _ => {
                let at_once = at_once.min(usize::try_from(fit).unwrap_or(usize::MAX));
                Ok(Share { bytes: base + clip * at_once as u64, at_once })
            }
        }
    }

    /// What a run is stopped at. An estimate can be wrong; this is far beyond it.
    pub fn ceiling(self) -> u64 {
        ceiling(self.bytes)
    }
}

/// What a run is stopped at that was expected to take so much.
pub fn ceiling(bytes: u64) -> u64 {
    2 * bytes + (512 << 20)
}

/// One clip, or a whole video: its frames in the decoder, the filters and the encoder.
fn clip(wanted: &Wanted, picture: &Picture, main: Main) -> u64 {
    let images = wanted.pictures.frames.is_some() || wanted.pictures.thumbnail;
    if main != Main::Encode && !images && wanted.cuts.is_none() {
        return 0; // nothing is decoded
    }
    let threads = u64::from(wanted.threads);
    let frame = (picture.width * picture.height) as f64 * picture.pixel_bytes;
    let decoder = frame * (picture.references.max(REFERENCES) + ON_THEIR_WAY + 2 * threads) as f64;
    let (width, height) = wanted.geometry.size(picture);
    let pixels = width * height;
    let encoder =
        if main == Main::Encode { pixels * encoder(wanted.video.codec, &wanted.video.preset, threads) } else { 0.0 };
    let pictures = if images { pixels * 24.0 } else { 0.0 };
    let small = (COMPARED_SIDE as f64 / width.min(height)).min(1.0);
    let compared = if wanted.pictures.thumbnail { pixels * small * small * 3.0 * COMPARED as f64 } else { 0.0 };
    (decoder + encoder + pictures + compared) as u64
}

/// Bytes for each pixel of a frame: encoders look ahead over dozens of frames.
fn encoder(codec: Codec, preset: &Option<String>, threads: u64) -> f64 {
    let is_slow = preset.as_deref().is_some_and(|preset| {
        preset.contains("slow") || preset == "placebo" || preset.parse::<u8>().is_ok_and(|number| number < 6)
    });
    let one_thread = match (codec, is_slow) {
        (Codec::H264, false) => 220.0,
        (Codec::H264, true) => 400.0,
        (Codec::Hevc, false) => 240.0,
        (Codec::Hevc, true) => 440.0,
        (Codec::Vp9, _) => 180.0,
        (Codec::Av1, false) => 400.0,
        (Codec::Av1, true) => 800.0,
    };
    one_thread + 12.0 * threads as f64
}

impl Geometry {
    /// Width and height of the frames that come out of the filters.
    fn size(&self, picture: &Picture) -> (f64, f64) {
        let (mut width, mut height) = (picture.width as f64, picture.height as f64);
        if self.is_asked() {
            width *= picture.aspect;
        }
        let scale = match self.scale {
            Some(Scale::Short(side)) => f64::from(side) / width.min(height),
            Some(Scale::Width(side)) => f64::from(side) / width,
            Some(Scale::Height(side)) => f64::from(side) / height,
            None => 1.0,
        };
        (width, height) = (width * scale, height * scale);
        if let Some(Size { width: most, height: high }) = self.crop {
            (width, height) = (width.min(f64::from(most)), height.min(f64::from(high)));
        }
        if let Some(Size { width: least, height: low }) = self.pad {
            (width, height) = (width.max(f64::from(least)), height.max(f64::from(low)));
        }
        (width.max(1.0), height.max(1.0))
    }
}
