//! One image from bytes to bytes: the shortest way that its kind and the options allow.

use image::metadata::Orientation;
use tarpipe::run::panics::guarded;

use crate::blur;
use crate::color::Profiles;
use crate::decode;
use crate::encode::{self, Format};
use crate::failure::Failure;
use crate::head::{self, Head};
use crate::job::Job;
use crate::jpeg::{self, Decoded, Planes, Subsampling, codec};
use crate::markers::Color;
use crate::options::{Icc, Orient};
use crate::orient;
use crate::picture::{Layout, Picture};
use crate::planes;
use crate::resample::Resampler;
use crate::size::Size;

/// What became of an image.
#[derive(Debug)]
pub struct Done {
    /// None where the bytes stay as they are.
    pub bytes: Option<Vec<u8>>,
    /// Their number, once they are in the sample.
    pub written: Option<usize>,
    pub size: Size,
    pub original: Size,
    pub format: Format,
    pub exif: Option<Vec<u8>>,
}

/// What one thread keeps from image to image. None of it may show in a result: buffers are written before they are read,
/// and transforms depend on nothing but the profile that they are kept under. Codecs are not kept at all.
pub struct Engine {
    /// Larger buffers are given back after each image.
    keep: usize,
    resampler: Resampler,
    profiles: Profiles,
    decoded: Planes,
    scaled: Planes,
}

impl Engine {
    /// An engine that keeps no buffer of more than `keep` bytes.
    pub fn new(keep: usize) -> Self {
        let (resampler, profiles) = (Resampler::default(), Profiles::default());
        Engine { keep, resampler, profiles, decoded: Planes::default(), scaled: Planes::default() }
    }

    /// How large a buffer each of so many engines may keep: few photographs need more, and all together they stay small
    /// beside the memory that there is.
    pub fn keep(memory: u64, engines: usize) -> usize {
        const ENOUGH: u64 = 64 << 20;
        (memory / (8 * engines.max(1) as u64)).min(ENOUGH) as usize
    }

    /// Processes one image. A panic of a decoder is a failure of its image.
    ///
    /// What a failed image leaves behind is thrown away: nobody has said how far it got.
    pub fn process(&mut self, job: &Job) -> Result<Done, Failure> {
        let result = guarded(|| self.run(job)).unwrap_or_else(gave_up);
        if result.is_err() {
            *self = Engine::new(self.keep);
        }
        self.decoded.release(self.keep);
        self.scaled.release(self.keep);
        self.resampler.release(self.keep);
        let (size, original, format) = (job.plan.output, job.original(), job.format);
        Ok(Done { bytes: result?, written: None, size, original, format, exif: job.head.exif.clone() })
    }

    fn run(&mut self, job: &Job) -> Result<Option<Vec<u8>>, Failure> {
        if job.options.skip_reencode && self.is_unchanged(job) {
            self.verify(job)?;
            return Ok(None);
        }
        if self.can_use_planes(job) && self.planes(job)? {
            let jpeg = codec::encode_planes(&self.scaled, &job.options.quality.jpeg)?;
            let metadata = job.metadata();
            return Ok(Some(jpeg::with_metadata(jpeg, metadata.exif.as_deref(), metadata.icc.as_deref())));
        }
        let picture = self.pixels(job)?;
        encode::encode(picture, job.format, &job.options.quality, job.metadata()).map(Some)
    }

    /// Whether the bytes already are what they shall become.
    fn is_unchanged(&mut self, job: &Job) -> bool {
        let (head, options) = (job.head, job.options);
        let changes_exif = head.orientation != Orientation::NoTransforms && options.orient != Orient::Keep;
        let opaque = options.background.is_none() || head.jpeg.is_some();
        let gray = head.jpeg.as_ref().is_none_or(|jpeg| jpeg.color == Color::Gray);
        let inks = head.jpeg.as_ref().is_some_and(|jpeg| matches!(jpeg.color, Color::Cmyk { .. }));
        job.plan.is_identity(job.original())
            && job.format.is(head.kind)
            && job.boxes.is_empty()
            && head.frames == 1
            && !changes_exif
            && !(options.strip && head.has_metadata)
            && !(options.icc == Icc::Ignore && head.icc.is_some())
            && !self.converts_color(job)
            && opaque
            && !inks
            && !(options.force_rgb && gray)
    }

    /// Decodes for nothing but the certainty that it can be done.
    fn verify(&mut self, job: &Job) -> Result<(), Failure> {
        let shrink =
            if codec::HAS_PLANES && job.head.jpeg.as_ref().is_some_and(|jpeg| jpeg.is_baseline_dct) { 8 } else { 1 };
        self.decode(job, shrink).map(drop)
    }

    fn decode(&mut self, job: &Job, shrink: u32) -> Result<Picture, Failure> {
        let Decoded { picture, damage } = match &job.head.jpeg {
            Some(markers) => {
                job.tolerate((!markers.whole).then(|| Failure::truncated("no end marker")))?;
                codec::pixels(job.bytes, markers, shrink)?
            }
            None => decode::decode(job.bytes, job.head)?,
        };
        job.tolerate(damage)?;
        Ok(picture)
    }

    fn converts_color(&mut self, job: &Job) -> bool {
        let layout = job.head.jpeg.as_ref().map_or(Layout::Rgb, |markers| jpeg::layout(markers.color));
        let profile = job.head.icc.as_deref().filter(|_| job.options.icc == Icc::Srgb);
        profile.is_some_and(|profile| self.profiles.transform(profile, layout).is_some())
    }

    /// Whether a JPEG can become one without leaving its own colours.
    fn can_use_planes(&mut self, job: &Job) -> bool {
        let Some(markers) = &job.head.jpeg else { return false };
        let straight = job.orientation == Orientation::NoTransforms;
        // A border that begins between two chroma samples would smear over the edge.
        let (left, top) = job.plan.pad();
        codec::HAS_PLANES
            && job.format == Format::Jpg
            && markers.is_baseline_dct
            && (markers.color == Color::YCbCr || (markers.color == Color::Gray && !job.options.force_rgb))
            && straight
            && left % 2 == 0
            && top % 2 == 0
            && job.boxes.is_empty()
            && !self.converts_color(job)
    }

    /// Decodes and scales plane by plane into `scaled`; false where the JPEG has no such planes.
    fn planes(&mut self, job: &Job) -> Result<bool, Failure> {
        let whole = job.head.jpeg.as_ref().is_some_and(|markers| markers.whole);
        job.tolerate((!whole).then(|| Failure::truncated("no end marker")))?;
        let shrink = job.shrink();
        let (has_planes, damage) = codec::planes(job.bytes, shrink, &mut self.decoded)?;
        if !has_planes {
            return Ok(false);
        }
        job.tolerate(damage)?;
        let ratio = self.decoded.ratio.map(|_| match job.options.quality.jpeg.subsampling {
            Subsampling::Half => (2, 2),
            Subsampling::Full => (1, 1),
        });
        self.scaled.reset(job.plan.output, ratio);
        planes::scale(&self.decoded, &mut self.scaled, job.rect(shrink), &job.plan, job.filter(), &mut self.resampler)?;
        Ok(true)
    }

    fn pixels(&mut self, job: &Job) -> Result<Picture, Failure> {
        let options = job.options;
        let shrink = if job.boxes.is_empty() { job.shrink() } else { 1 };
        let mut picture = self.decode(job, shrink)?;
        let seen = if options.orient == Orient::Ignore { Orientation::NoTransforms } else { job.head.orientation };
        blur::blur(&mut picture, job.boxes, seen, &mut self.resampler)?;
        if job.format == Format::Jpg || options.background.is_some() {
            picture = picture.flattened(options.background.unwrap_or([255; 3]));
        }
        let shown = orient::oriented_size(job.plan.shown(), job.orientation);
        let mut picture = self.resampler.resize(picture, job.rect(shrink), shown, job.filter())?;
        if let Some(profile) = job.head.icc.as_deref().filter(|_| options.icc == Icc::Srgb) {
            picture = self.profiles.apply(picture, profile);
        }
        picture = orient::orient(picture.inked(), job.orientation);
        picture = picture.padded(job.plan.output, job.plan.pad());
        Ok(if options.force_rgb { picture.colored() } else { picture })
    }
}

/// Reads the head of an image; a panic of its decoder is a failure.
pub fn read_head(bytes: &[u8]) -> Result<Head, Failure> {
    guarded(|| head::read(bytes)).unwrap_or_else(gave_up)
}

fn gave_up<T>() -> Result<T, Failure> {
    Err(Failure::decode("the decoder gave up on it"))
}
