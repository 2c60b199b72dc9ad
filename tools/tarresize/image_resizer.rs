//! Resizes one image, bytes to bytes, by the cheapest route that its format and the options allow: unchanged bytes,
//! JPEG planes, or decoded pixels.

use image::metadata::Orientation;
use tarpipe::run::panics::catch;

use crate::tarresize::failure::ImageFailure;
use crate::tarresize::formats::decode;
use crate::tarresize::formats::encode::{self, TargetFormat};
use crate::tarresize::formats::header::{self, ImageHeader};
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::image_job::ImageJob;
use crate::tarresize::jpeg::markers::JpegColor;
use crate::tarresize::jpeg::planes::{self, YuvPlanes};
use crate::tarresize::jpeg::{self, DecodedPicture, Subsampling, codec};
use crate::tarresize::options::{IccAction, OrientationAction};
use crate::tarresize::pixels::blur;
use crate::tarresize::pixels::color_profile::ProfileCache;
use crate::tarresize::pixels::orientation;
use crate::tarresize::pixels::picture::{Picture, PixelLayout};
use crate::tarresize::pixels::resample::Resampler;

/// A processed image.
#[derive(Debug)]
pub struct ResizedImage {
    /// `None` if the bytes stay unchanged.
    pub bytes: Option<Vec<u8>>,
    /// The number of new bytes, set once they are in the sample.
    pub written: Option<usize>,
    pub size: PixelSize,
    pub original: PixelSize,
    pub format: TargetFormat,
    pub exif: Option<Vec<u8>>,
}

/// The buffers and caches that one thread reuses from image to image. They must not influence any result: buffers are
/// written before they are read, and each colour transform depends only on the profile it is cached under. Codecs are
/// not reused.
pub struct ImageResizer {
    /// Larger buffers are freed after each image.
    max_kept: usize,
    resampler: Resampler,
    profiles: ProfileCache,
    decoded: YuvPlanes,
    scaled: YuvPlanes,
}

impl ImageResizer {
    /// Creates a resizer that keeps no buffer of more than `max_kept` bytes between images.
    pub fn new(max_kept: usize) -> Self {
        let (resampler, profiles) = (Resampler::default(), ProfileCache::default());
        ImageResizer { max_kept, resampler, profiles, decoded: YuvPlanes::default(), scaled: YuvPlanes::default() }
    }

    /// The largest buffer that each of `resizers` resizers may keep. Few photographs need more, and all kept buffers
    /// together stay small compared with `memory`.
    pub fn buffer_limit(memory: u64, resizers: usize) -> usize {
        const MAX_BUFFER: u64 = 64 << 20;
        (memory / (8 * resizers.max(1) as u64)).min(MAX_BUFFER) as usize
    }

    /// Processes one image. If a decoder panics, the image fails.
    ///
    /// After a failure all buffers and caches are discarded: their state is unknown.
    pub fn resize(&mut self, job: &ImageJob) -> Result<ResizedImage, ImageFailure> {
        let result = catch(|| self.resize_bytes(job)).unwrap_or_else(decoder_panicked);
        if result.is_err() {
            *self = ImageResizer::new(self.max_kept);
        }
        self.decoded.release(self.max_kept);
        self.scaled.release(self.max_kept);
        self.resampler.release(self.max_kept);
        let (size, original, format) = (job.plan.output, job.original_size(), job.format);
        Ok(ResizedImage { bytes: result?, written: None, size, original, format, exif: job.header.exif.clone() })
    }

    fn resize_bytes(&mut self, job: &ImageJob) -> Result<Option<Vec<u8>>, ImageFailure> {
        if job.options.skip_reencode && self.is_unchanged(job) {
            self.verify(job)?;
            return Ok(None);
        }
        if self.can_use_planes(job) && self.scale_planes(job)? {
            let jpeg = codec::encode_planes(&self.scaled, &job.options.quality.jpeg)?;
            let metadata = job.metadata();
            return Ok(Some(jpeg::with_metadata(jpeg, metadata.exif.as_deref(), metadata.icc.as_deref())));
        }
        let picture = self.resize_pixels(job)?;
        encode::encode(picture, job.format, &job.options.quality, job.metadata()).map(Some)
    }

    /// Whether the input bytes already meet all options.
    fn is_unchanged(&mut self, job: &ImageJob) -> bool {
        let (header, options) = (job.header, job.options);
        let changes_exif = header.orientation != Orientation::NoTransforms && options.orient != OrientationAction::Keep;
        let keeps_alpha = options.background.is_none() || header.jpeg.is_some();
        let may_be_gray = header.jpeg.as_ref().is_none_or(|jpeg| jpeg.color == JpegColor::Gray);
        let is_cmyk = header.jpeg.as_ref().is_some_and(|jpeg| matches!(jpeg.color, JpegColor::Cmyk { .. }));
        job.plan.is_identity(job.original_size())
            && job.format.matches(header.kind)
            && job.boxes.is_empty()
            && header.frames == 1
            && !changes_exif
            && !(options.strip && header.has_metadata)
            && !(options.icc == IccAction::Ignore && header.icc.is_some())
            && !self.converts_color(job)
            && keeps_alpha
            && !is_cmyk
            && !(options.force_rgb && may_be_gray)
    }

    /// Decodes the image only to prove that it can be decoded.
    fn verify(&mut self, job: &ImageJob) -> Result<(), ImageFailure> {
        let shrink =
            if codec::HAS_PLANES && job.header.jpeg.as_ref().is_some_and(|jpeg| jpeg.can_scale) { 8 } else { 1 };
        self.decode(job, shrink).map(drop)
    }

    fn decode(&mut self, job: &ImageJob, shrink: u32) -> Result<Picture, ImageFailure> {
        let DecodedPicture { picture, damage } = match &job.header.jpeg {
            Some(markers) => {
                job.tolerate((!markers.is_complete).then(|| ImageFailure::truncated("missing end-of-image marker")))?;
                codec::decode_pixels(job.bytes, markers, shrink)?
            }
            None => decode::decode(job.bytes, job.header)?,
        };
        job.tolerate(damage)?;
        Ok(picture)
    }

    fn converts_color(&mut self, job: &ImageJob) -> bool {
        let layout = job.header.jpeg.as_ref().map_or(PixelLayout::Rgb, |markers| jpeg::pixel_layout(markers.color));
        let profile = job.header.icc.as_deref().filter(|_| job.options.icc == IccAction::Srgb);
        profile.is_some_and(|profile| self.profiles.transform(profile, layout).is_some())
    }

    /// Whether a JPEG can be resized as YUV planes, without conversion to RGB.
    fn can_use_planes(&mut self, job: &ImageJob) -> bool {
        let Some(markers) = &job.header.jpeg else { return false };
        let is_unrotated = job.orientation == Orientation::NoTransforms;
        // A border that starts between two chroma samples would bleed into the image.
        let (left, top) = job.plan.pad();
        codec::HAS_PLANES
            && job.format == TargetFormat::Jpg
            && markers.can_scale
            && (markers.color == JpegColor::YCbCr || (markers.color == JpegColor::Gray && !job.options.force_rgb))
            && is_unrotated
            && left % 2 == 0
            && top % 2 == 0
            && job.boxes.is_empty()
            && !self.converts_color(job)
    }

    /// Decodes the planes and scales them into `scaled`; false if the subsampling is not supported.
    fn scale_planes(&mut self, job: &ImageJob) -> Result<bool, ImageFailure> {
        let is_complete = job.header.jpeg.as_ref().is_some_and(|markers| markers.is_complete);
        job.tolerate((!is_complete).then(|| ImageFailure::truncated("missing end-of-image marker")))?;
        let shrink = job.decode_shrink();
        let (has_planes, damage) = codec::decode_planes(job.bytes, shrink, &mut self.decoded)?;
        if !has_planes {
            return Ok(false);
        }
        job.tolerate(damage)?;
        let ratio = self.decoded.ratio.map(|_| match job.options.quality.jpeg.subsampling {
            Subsampling::Half => (2, 2),
            Subsampling::Full => (1, 1),
        });
        self.scaled.reset(job.plan.output, ratio);
        planes::scale(
            &self.decoded,
            &mut self.scaled,
            job.source_rect(shrink),
            &job.plan,
            job.filter(),
            &mut self.resampler,
        )?;
        Ok(true)
    }

    fn resize_pixels(&mut self, job: &ImageJob) -> Result<Picture, ImageFailure> {
        let options = job.options;
        let shrink = if job.boxes.is_empty() { job.decode_shrink() } else { 1 };
        let mut picture = self.decode(job, shrink)?;
        let displayed = if options.orient == OrientationAction::Ignore {
            Orientation::NoTransforms
        } else {
            job.header.orientation
        };
        blur::blur(&mut picture, job.boxes, displayed, &mut self.resampler)?;
        if job.format == TargetFormat::Jpg || options.background.is_some() {
            picture = picture.flatten_onto(options.background.unwrap_or([255; 3]));
        }
        let shown = orientation::oriented_size(job.plan.shown(), job.orientation);
        let mut picture = self.resampler.resize(picture, job.source_rect(shrink), shown, job.filter())?;
        if let Some(profile) = job.header.icc.as_deref().filter(|_| options.icc == IccAction::Srgb) {
            picture = self.profiles.apply(picture, profile);
        }
        picture = orientation::orient(picture.cmyk_to_rgb(), job.orientation);
        picture = picture.padded_to(job.plan.output, job.plan.pad());
        Ok(if options.force_rgb { picture.into_rgb() } else { picture })
    }
}

/// Reads the header of an image; if the decoder panics, the image fails.
pub fn read_header(bytes: &[u8]) -> Result<ImageHeader, ImageFailure> {
    catch(|| header::read(bytes)).unwrap_or_else(decoder_panicked)
}

fn decoder_panicked<T>() -> Result<T, ImageFailure> {
    Err(ImageFailure::decode("the decoder crashed"))
}
